// Sources of records. Both call `take` with one record after the other, in order of time, and `status` with
// a word and a sentence about the source itself: a server that sends them as they happen, or a list that was recorded.

// Kinds of events that are a fault, or what it does at once.
export const FAULTS = new Set(["fault active", "link down", "switch lost", "crash"]);

const GONE_MS = 12000; // the server sends something every five seconds

export function liveRecords(take, status) {
  let source = null;
  let last = 0;
  function open() {
    source?.close();
    last = Date.now();
    source = new EventSource("records");
    source.onmessage = (message) => {
      last = Date.now();
      status("live", "");
      take(JSON.parse(message.data));
    };
    source.onerror = () => {
      status("lost", "The server does not answer; trying again.");
      if (source.readyState === EventSource.CLOSED) explain();
    };
  }
  // Why the server refuses, in its own words, which an event source does not get.
  async function explain() {
    last = 0;
    try {
      const answer = await fetch("static/icon.svg");
      if (answer.status === 403) status("refused", (await answer.json()).error);
      else status("busy", "The server takes no more browsers: close a tab.");
    } catch {
      // it does not answer at all, which is known
    }
  }
  open();
  setInterval(() => {
    if (Date.now() - last > GONE_MS && !document.hidden) open();
  }, 2000);
}

// All records with times up to `until` that were not given yet; returns the place to go on from.
export function playRecords(records, from, until, take) {
  let place = from;
  while (place < records.length && records[place].at <= until) take(records[place++]);
  return place;
}

// The records in the text of a recording, in order of time: an event may be known some time after it happened. Of a
// recording that was not finished the last line may be there in part.
export function readRecording(text) {
  const attempts = [() => text, () => `${text}]`, () => `${text.slice(0, Math.max(1, text.lastIndexOf(",\n")))}]`];
  const parsed = (attempt) => {
    try {
      return JSON.parse(attempt());
    } catch {
      return null;
    }
  };
  const records = attempts.reduce((found, attempt) => found ?? parsed(attempt), null) ?? [];
  return [...records.slice(0, 2), ...records.slice(2).sort((a, b) => a.at - b.at)];
}
