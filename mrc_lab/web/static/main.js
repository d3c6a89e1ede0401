// The page: records go into the model, and every tenth of a second at most the views draw what is different.

import { byId, html } from "./elements.js";
import { FabricView } from "./fabric_view.js";
import { Inspector } from "./inspector.js";
import { MEASURES } from "./measures.js";
import { Model } from "./model.js";
import { PathsView } from "./paths_view.js";
import { Plots } from "./plots.js";
import { Player } from "./player.js";
import { FAULTS, liveRecords, readRecording } from "./records.js";
import { act, setUndo } from "./requests.js";
import { Story } from "./story.js";
import { Training } from "./training.js";
import { plural, showRate } from "./format.js";

const DRAW_MS = 100;
const SIGNS = { "link down": "✕", "link up": "✓", paths: "✕", recovered: "✓", "fault active": "!", "fault cleared": "✓", crash: "✕", timeouts: "✕", failed: "✕", "switch lost": "✕", rerouted: "↷", action: "$", transfer: "⇄" };
const model = new Model();
const inspector = new Inspector(model, byId("selected"));
const fabric = new FabricView(model, byId("planes"), select);
const paths = new PathsView(model, byId("pairs"), select, (names) => fabric.showPath(names));
const training = new Training(model);
const plots = new Plots(model, training);
const story = new Story(model, training, byId("training"));
const jobRows = new Map(); // by job
let eventsShown = null;
let clock = 0; // the server's time minus ours, ms

function select(what, focus = false) {
  inspector.show(what);
  fabric.setSelected(what?.kind === "path" ? "" : (what?.name ?? ""));
  if (focus) byId("inspector-heading").focus();
}

function selectByName(name) {
  if (model.linkOf?.has(name)) select({ kind: "link", name }, true);
  else if (model.switchOf?.has(name)) select({ kind: "switch", name }, true);
  else if (model.layout?.hosts.some((host) => host.name === name)) select({ kind: "host", name }, true);
  else return false;
  return true;
}

function status(state, text) {
  const node = byId("status");
  if (node.dataset.state === state) return;
  node.dataset.state = state;
  const why = model.ended || text;
  node.textContent = state === "live" ? "● live" : `○ not connected. ${why}${model.ended ? " This was its last state." : ""}`;
  node.title = why;
  document.body.classList.toggle("lost", state !== "live");
  document.body.classList.toggle("ended", model.ended !== "");
}

function take(record) {
  clock = record.at - Date.now();
  takeOne(record);
}

function takeOne(record) {
  model.take(record);
  if (record.history) {
    training.restore(record.history.steps);
    plots.restore(record.history.points);
  }
  for (const [at, name, state] of record.steps ?? []) training.step(name, state, at);
  const steps = (record.state ?? record.whole)?.training ?? {};
  for (const [name, state] of Object.entries(steps)) if (state) training.step(name, state, record.at);
}

// The time of what is shown: of a recording, that of its last record.
const shownTime = () => (byId("recording") ? model.at : Date.now() + clock);

function draw() {
  if (!model.layout || document.hidden) return;
  if (model.newLayout) layOut();
  const changes = model.takeChanges();
  fabric.refresh(changes);
  paths.refresh(changes);
  inspector.refresh();
  if (changes.jobs.size) drawJobs();
  story.draw(shownTime());
  byId("story").hidden = byId("training").hidden;
  drawEvents();
  drawFigures();
}

function layOut() {
  model.newLayout = false;
  const { layout } = model;
  document.title = `${layout.fabric} – MRC fabric`;
  byId("fabric-name").textContent = layout.fabric;
  const names = [...layout.links, ...layout.switches, ...layout.hosts].map((one) => html("option", { value: one.name }));
  byId("names").replaceChildren(...names);
  const hosts = () => layout.hosts.map((host) => html("option", { text: host.name, value: host.name }));
  byId("source").replaceChildren(...hosts());
  byId("destination").replaceChildren(...hosts());
  const far = layout.hosts.find((host) => host.t0 !== layout.hosts[0].t0) ?? layout.hosts.at(-1);
  byId("destination").value = far.name;
  fabric.build();
  plots.build();
}

function drawFigures() {
  const { received } = model.totals();
  const down = model.layout.links.filter((link) => !model.isUp(link.name)).length;
  const { usable, out } = model.pathCounts();
  const faults = model.state.faults.size;
  const figures = [
    ["throughput", showRate(received.reduce((sum, one) => sum + one, 0)), false],
    ["links down", `${down} of ${model.layout.links.length}`, down > 0],
    ["faults", String(faults), faults > 0],
  ];
  if (usable + out) figures.splice(2, 0, ["paths out of use", `${out} of ${usable + out}`, out > 0]);
  const problem = model.state.switches.get("controller");
  if (problem) figures.push(["controller", problem[0], true]);
  const key = JSON.stringify(figures);
  const root = byId("figures");
  if (root.dataset.key === key) return;
  root.dataset.key = key;
  root.replaceChildren(...figures.map(([term, value, bad]) => html("div", { class: bad ? "bad" : "" }, html("dt", { text: term }), html("dd", { text: value }))));
  byId("clear-all").disabled = faults === 0;
}

function drawEvents() {
  const last = model.events.at(-1);
  if (eventsShown === last) return;
  eventsShown = last;
  const items = [...model.events].reverse().sort((a, b) => b.at - a.at).slice(0, 150).map((event) => {
    const known = model.linkOf.has(event.name) || model.switchOf.has(event.name);
    const name = known ? html("button", { type: "button", class: "as-link", text: event.name, onclick: () => selectByName(event.name) }) : "";
    const text = event.kind === "action" ? html("code", { text: event.text }) : event.text === event.name ? "" : event.text;
    const kind = html("strong", { text: { paths: "paths lost", action: "" }[event.kind] ?? event.kind });
    return html("li", { "data-kind": event.kind }, html("time", { text: model.showTime(event.at) }), html("span", { class: "sign", "aria-hidden": "true", text: SIGNS[event.kind] ?? "·" }), html("span", {}, kind, " ", name, " ", text));
  });
  byId("events").replaceChildren(...items);
}

// The row of a job stays as long as it runs: a button that is replaced while it is pressed is not clicked.
function drawJobs() {
  const { jobs } = model.state;
  for (const id of [...jobRows.keys()].filter((id) => !jobs.has(id))) jobRows.delete(id);
  for (const [id, [text, running, result, share]] of jobs) {
    if (jobRows.get(id)?.running !== running) jobRows.set(id, { running, row: running ? runningJob(id, text) : endedJob(text, result) });
    if (running && share !== null) jobRows.get(id).row.querySelector("progress").value = share;
  }
  const rows = [...jobs.keys()].map((id) => jobRows.get(id).row);
  const shown = [...byId("jobs").children];
  if (rows.length !== shown.length || rows.some((row, index) => row !== shown[index])) byId("jobs").replaceChildren(...rows);
}

function runningJob(id, text) {
  const stop = html("button", { type: "button", text: "Stop", onclick: () => act({ do: "stop", job: id }) });
  return html("div", { class: "job running" }, html("span", { text }), html("progress", { max: 1, "aria-label": text }), stop);
}

function endedJob(text, result) {
  return html("div", { class: "job" }, html("span", { text: `${text}: ${result}` }));
}

function setUp() {
  for (const [key, measure] of Object.entries(MEASURES)) {
    const input = html("input", { type: "radio", name: "measure", value: key, checked: key === "load", onchange: () => setMeasure(measure) });
    byId("measure").append(html("label", { "data-measure": key }, input, html("span", { text: measure.name })));
  }
  setMeasure(MEASURES.load);
  const signs = [["ev ev-g", "", "good"], ["ev ev-g backup", "", "not in use now"], ["ev ev-s", "", "skipped"], ["ev ev-b", "✕", "assumed bad"], ["ev ev-d", "–", "denied"]];
  byId("path-legend").append(...signs.map(([look, sign, text]) => html("span", { class: "key" }, html("span", { class: look, text: sign, "aria-hidden": "true" }), text)));
  const sizes = (...mib) => mib.map((size) => html("option", { text: size >= 1024 ? `${size / 1024} GiB` : `${size} MiB`, value: size << 20 }));
  byId("write-size").append(...sizes(16, 64, 256, 1024));
  byId("write-size").value = String(64 << 20);
  byId("reduce-size").append(...sizes(1, 4, 16));
  byId("write").addEventListener("submit", (event) => {
    event.preventDefault();
    act({ do: "write", source: byId("source").value, destination: byId("destination").value, bytes: Number(byId("write-size").value) });
  });
  byId("all-reduce").addEventListener("submit", (event) => {
    event.preventDefault();
    act({ do: "all_reduce", bytes: Number(byId("reduce-size").value) });
  });
  byId("undo").addEventListener("click", () => act({ do: "undo" }));
  byId("clear-all").addEventListener("click", () => act({ do: "fault", words: ["clear", "all"] }));
  byId("find").addEventListener("change", (event) => selectByName(event.target.value.trim()) && (event.target.value = ""));
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select");
    if (event.key === "z" && (event.ctrlKey || event.metaKey) && !typing) {
      event.preventDefault();
      if (!byId("undo").disabled) act({ do: "undo" });
    } else if (event.key === "/" && !typing) {
      event.preventDefault();
      byId("find").focus();
    } else if (event.key === "Escape") select(null);
  });
  setUndo("");
}

function live() {
  liveRecords(take, status);
  setInterval(draw, DRAW_MS);
  setInterval(() => {
    if (!model.layout || document.body.classList.contains("lost")) return;
    plots.sample(shownTime());
    plots.draw(shownTime());
  }, 500);
}

function play(records) {
  document.body.classList.add("recorded");
  if (records.length < 2) {
    byId("status").textContent = "The recording ended before anything was recorded.";
    return;
  }
  byId("status").textContent = records[0].layout.run ? "recorded run" : "recording";
  const restart = () => {
    model.at = 0;
    plots.clear();
    training.clear();
  };
  const take = (record) => {
    takeOne(record);
    if (record.state) plots.sample(record.at);
  };
  takeOne(records[0]); // says what times are
  plots.spanMs = model.run?.end ?? null;
  if (model.run && !model.run.signals) document.body.classList.add("without-signals");
  const player = new Player(records, { take, restart, moved: redraw, showTime: (at) => model.showTime(at), sampled: !model.run });
  if (parent !== window) follow(player);
  else player.goToFirst(FAULTS); // before that nothing has happened that anybody wants to see
}

function redraw() {
  draw();
  plots.draw(shownTime());
}

// One of two recordings: the page around them has the slider. Of times that came while one was drawn only the last counts.
function follow(player) {
  let wanted = null;
  const go = () => {
    const at = wanted;
    wanted = null;
    player.go(at);
  };
  document.body.classList.add("followed");
  addEventListener("message", (event) => {
    if (event.source !== parent || !Number.isFinite(event.data?.at)) return;
    if (wanted === null) setTimeout(go);
    wanted = event.data.at;
  });
  parent.postMessage("ready", "*");
}

function setMeasure(measure) {
  fabric.setMeasure(measure);
  const key = (look, text, sign = "") => html("span", { class: "key" }, html("span", { class: `swatch ${look}`, text: sign, "aria-hidden": "true" }), text);
  const levels = [0, 2, 4, 6].map((level) => html("span", { class: `swatch level-${level}`, "aria-hidden": "true" }));
  byId("legend").replaceChildren(html("span", { class: "key" }, ...levels, `${measure.scale}, little to much`), key("down", "down", "✕"), key("faulty", "has a fault", "!"));
}

if (location.search) history.replaceState(null, "", location.pathname); // the token is in a cookie now
setUp();
if (byId("recording")) play(readRecording(byId("recording").textContent));
else live();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => model.layout && fabric.refreshAll());
