// Two recordings on one slider. Its time counts from an instant that both have: their start, or one second before their
// first fault. The frames have the page that a recording is, and are sent the time to show.

import { byId } from "./elements.js";
import { Player } from "./player.js";

const BEFORE_MS = 1000;
const FAULTS = new Set(["fault active", "link down", "switch lost", "crash"]);

const times = JSON.parse(byId("times").textContent);
const frames = [...document.querySelectorAll("iframe")];
let origins = [];

const showElapsed = (ms) => {
  const minutes = Math.floor(ms / 60000);
  return `${String(minutes).padStart(2, "0")}:${((ms - minutes * 60000) / 1000).toFixed(3).padStart(6, "0")}`;
};

// The instant of each recording where the slider begins.
function originsAt(where) {
  return times.map((records) => {
    const begin = records[0][0];
    const fault = where === "fault" ? records.find(([at, kind]) => at >= begin && FAULTS.has(kind)) : null;
    return fault ? Math.max(begin, fault[0] - BEFORE_MS) : begin;
  });
}

// Events and states of both, at the slider's times.
function timeline() {
  const all = times.flatMap((records, i) => records.map(([at, kind]) => ({ at: at - origins[i], event: kind !== "", state: kind === "" })));
  return [{ at: 0 }, ...all.filter((one) => one.at >= 0)].sort((a, b) => a.at - b.at);
}

function send(i, at) {
  frames[i].contentWindow.postMessage({ at: origins[i] + at }, "*");
}

origins = originsAt("begin");
const nothing = () => {};
const player = new Player(timeline(), nothing, nothing, (at) => frames.forEach((_, i) => send(i, at)), showElapsed);
byId("origin").addEventListener("change", (event) => {
  origins = originsAt(event.target.value);
  player.setRecords(timeline());
});
addEventListener("message", (event) => {
  const i = frames.findIndex((frame) => frame.contentWindow === event.source);
  if (i >= 0) send(i, player.at); // it has been loaded
});
