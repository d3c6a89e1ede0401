// Recordings on one slider, one or two at a time, and the report that belongs to them. The slider's time counts from an
// instant that both have: their start, or shortly before their first fault. Where they are runs of one experiment on both
// backends, it is the time of the experiment's file. Each recording is played by a page of its own in a frame, which is
// made when it is chosen and sent the time to show.

import { byId, html } from "./elements.js";
import { Player } from "./player.js";
import { FAULTS } from "./records.js";
import { elapsedTimes } from "./format.js";

const BEFORE = 1 / 8; // of the length, before the first fault
const MOST_BEFORE_MS = 1000;

const recordings = JSON.parse(byId("times").textContent); // of each [name, its times over those in its file, whether it was sampled, [time, kind] ...]
const texts = JSON.parse(byId("recordings").textContent);
const page = JSON.parse(byId("page").textContent);
let shown = []; // [{ number, frame, origin }]
let player = null;

const scale = (number) => recordings[number][1];
const times = (number) => recordings[number][3];
const length = (number) => (times(number).at(-1)[0] - times(number)[0][0]) / scale(number);
const showElapsed = (ms) => elapsedTimes(Math.max(...shown.map(({ number }) => length(number))))(ms);

// The instant of a recording where the slider begins.
function originOf(number) {
  const begin = times(number)[0][0];
  const fault = byId("origin").value === "fault" ? times(number).find(([at, kind]) => at >= begin && FAULTS.has(kind)) : null;
  const before = Math.min(MOST_BEFORE_MS, Math.max(...shown.map((one) => length(one.number))) * BEFORE) * scale(number);
  return fault ? Math.max(begin, fault[0] - before) : begin;
}

// Events and states of all that are shown, at the slider's times.
function timeline() {
  for (const one of shown) one.origin = originOf(one.number);
  const all = shown.flatMap(({ number, origin }) => times(number).map(([at, kind]) => ({ at: (at - origin) / scale(number), event: kind !== "", state: kind === "" })));
  return [{ at: 0 }, ...all.filter((one) => one.at >= 0)].sort((a, b) => a.at - b.at);
}

function send({ number, frame, origin }, at) {
  frame.contentWindow?.postMessage({ at: origin + at * scale(number) }, "*");
}

function frameOf(number) {
  const data = `<script type="application/json" id="recording">${texts[number]}</` + "script>";
  const frame = html("iframe", { sandbox: "allow-scripts", title: recordings[number][0], srcdoc: page.replace("</body>", () => `${data}</body>`) });
  const figure = html("figure", {}, html("figcaption", { text: recordings[number][0] }), frame);
  return { number, frame, figure, origin: 0 };
}

// Show what is chosen; a frame that is there already stays.
function choose() {
  const wanted = [byId("left").value, byId("right").value].filter((value) => value !== "").map(Number);
  shown = wanted.map((number, place) => (shown[place]?.number === number ? shown[place] : frameOf(number)));
  byId("frames").replaceChildren(...shown.map((one) => one.figure));
  byId("frames").classList.toggle("one", shown.length === 1);
  const records = timeline();
  if (player) player.setRecords(records);
  else {
    const nothing = () => {};
    player = new Player(records, { take: nothing, restart: nothing, moved: (at) => shown.forEach((one) => send(one, at)), showTime: showElapsed, sampled: shown.some(({ number }) => recordings[number][2]) });
  }
}

function setUp() {
  const options = (chosen) => recordings.map(([name], number) => html("option", { text: name, value: number, selected: number === chosen }));
  byId("left").replaceChildren(...options(0));
  byId("right").replaceChildren(html("option", { text: "nothing", value: "" }), ...options(Number(byId("frames").dataset.right ?? -1)));
  byId("choice").hidden = recordings.length < 2;
  for (const id of ["left", "right"]) byId(id).addEventListener("change", choose);
  byId("origin").addEventListener("change", () => player.setRecords(timeline()));
  for (const tab of document.querySelectorAll("#tabs input")) tab.addEventListener("change", () => document.body.classList.toggle("reading", byId("show-report").checked));
  byId("tabs").hidden = !byId("report").hasAttribute("srcdoc");
  addEventListener("message", (event) => {
    const one = shown.find(({ frame }) => frame.contentWindow === event.source);
    if (one) send(one, player.at); // it has been loaded
  });
}

setUp();
choose();
