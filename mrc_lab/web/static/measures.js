// Measures by which links are coloured and drawn wide: load, queue, marks, trims or drops, each as a level from 0 (nothing) to 6.

import { LINK, SIGNAL } from "./model.js";
import { showCount, showRate, showSize } from "./format.js";

const level = (value, bounds) => bounds.reduce((found, bound) => (value >= bound ? found + 1 : found), 0);

// Counts a second as shares of the packets that a link carries at its rate; what happens at all is never nothing.
const PACKET_BITS = 8 * 4096;
const bySignal = (value, link) => (value > 0 ? Math.max(1, level((value * PACKET_BITS) / link.rate, [0.001, 0.005, 0.02, 0.08, 0.3, 0.9])) : 0);

function load(model, link) {
  const state = model.state.links.get(link.name);
  return state ? Math.max(state[LINK.upward], state[LINK.downward]) : 0;
}
const queue = (model, link) => Math.max(0, ...(model.state.queues.get(link.name) ?? []));
const signal = (index) => (model, link) => model.state.signals.get(link.name)?.[index] ?? 0;

export const MEASURES = {
  load: { name: "load", share: true, value: load, level: (v, link) => level(v / link.rate, [0.005, 0.1, 0.25, 0.5, 0.75, 0.9]), show: showRate, scale: "share of the rate" },
  queue: { name: "queue", value: queue, level: (v) => level(v, [64, 4096, 16384, 32768, 65536, 131072]), show: showSize, scale: "bytes waiting" },
  marks: { name: "marks", value: signal(SIGNAL.marked), level: bySignal, show: (v) => `${showCount(v)} marks/s`, scale: "ECN marks a second" },
  trims: { name: "trims", value: signal(SIGNAL.trimmed), level: bySignal, show: (v) => `${showCount(v)} trims/s`, scale: "trims a second" },
  drops: { name: "drops", value: signal(SIGNAL.dropped), level: bySignal, show: (v) => `${showCount(v)} drops/s`, scale: "drops a second" },
};

// A link in a few words: for tooltips, screen readers and the inspector.
export function describeLink(model, link) {
  const state = model.state.links.get(link.name) ?? [true, 0, 0];
  const faults = model.faultsOn(link.name).map(({ fault }) => fault[0]);
  const parts = [link.name, state[LINK.up] ? "up" : "DOWN"];
  if (faults.length) parts.push(`fault: ${faults.join(", ")}`);
  parts.push(`${showRate(state[LINK.upward])} up, ${showRate(state[LINK.downward])} down of ${showRate(link.rate)}`);
  const waiting = queue(model, link);
  if (waiting) parts.push(`${showSize(waiting)} waiting`);
  for (const [index, word] of [[0, "marks"], [1, "trims"], [2, "drops"]]) {
    const count = model.state.signals.get(link.name)?.[index] ?? 0;
    if (count) parts.push(`${showCount(count)} ${word}/s`);
  }
  return parts.join(" · ");
}
