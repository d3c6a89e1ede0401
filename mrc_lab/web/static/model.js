// Model of the page: the layout, and the state as records have changed it. Views read it, and learn by `changed` which
// names of which sections are different since they last looked. Times are those of the records, never the browser's, so
// that a recording plays like a live fabric.

const SECTIONS = ["links", "queues", "signals", "faults", "routes", "pairs", "switches", "hosts", "jobs", "training"];

import { elapsedTimes, showClock } from "./format.js";

export const LINK = { up: 0, upward: 1, downward: 2 };
export const SIGNAL = { marked: 0, trimmed: 1, dropped: 2, drops: 3 };
export const FAULT = { kind: 0, text: 1, links: 2, switches: 3, state: 4 };

export class Model {
  constructor() {
    this.at = 0;
    this.layout = null;
    this.state = Object.fromEntries(SECTIONS.map((name) => [name, new Map()]));
    this.changed = Object.fromEntries(SECTIONS.map((name) => [name, new Set()]));
    this.events = [];
    this.newLayout = false;
    this.ended = ""; // why the server has ended
    this.showTime = showClock;
  }

  take(record) {
    this.at = Math.max(this.at, record.at);
    if (record.layout) this.#setLayout(record.layout);
    else if (record.whole) this.#replace(record.whole);
    else if (record.state) this.#merge(record.state);
    else if (record.event) {
      const [kind, name, text] = record.event;
      this.events.push({ at: record.at, kind, name, text });
      if (kind === "ended") this.ended = text;
      if (this.events.length > 300) this.events.splice(0, this.events.length - 300);
    }
  }

  // What has changed since the last call, by section.
  takeChanges() {
    const found = this.changed;
    this.changed = Object.fromEntries(SECTIONS.map((name) => [name, new Set()]));
    return found;
  }

  #setLayout(layout) {
    const links = layout.links.map(([name, plane, kind, lower, upper, rate]) => ({ name, plane, kind, lower, upper, rate }));
    const switches = layout.switches.map(([name, tier, plane, index, pod]) => ({ name, tier, plane, index, pod }));
    const hosts = layout.hosts.map(([name, t0]) => ({ name, t0 }));
    if (JSON.stringify(layout) !== this.layout?.text) this.newLayout = true;
    // A recorded run has times since its beginning; [its end in ms, its times over those in its file, marks and trims known].
    this.run = layout.run ? { end: layout.run[0], scale: layout.run[1], signals: Boolean(layout.run[2]) } : null;
    this.showTime = this.run ? elapsedTimes(this.run.end) : showClock;
    this.layout = { fabric: layout.fabric, planes: layout.planes, links, switches, hosts, text: JSON.stringify(layout) };
    this.linkOf = new Map(links.map((link) => [link.name, link]));
    this.switchOf = new Map(switches.map((one) => [one.name, one]));
    this.between = new Map(links.map((link) => [`${link.lower}|${link.upper}`, link.name]));
    this.events = []; // what is kept comes again after the layout
    this.ended = "";
  }

  #replace(sections) {
    for (const name of SECTIONS) {
      const now = new Map(Object.entries(sections[name] ?? {}));
      for (const key of this.state[name].keys()) this.changed[name].add(key);
      for (const key of now.keys()) this.changed[name].add(key);
      this.state[name] = now;
    }
  }

  #merge(sections) {
    for (const [name, values] of Object.entries(sections)) {
      for (const [key, value] of Object.entries(values)) {
        if (value === null) this.state[name].delete(key);
        else this.state[name].set(key, value);
        this.changed[name].add(key);
      }
    }
  }

  isUp(link) {
    return this.state.links.get(link)?.[LINK.up] ?? true;
  }

  // Faults on a link or switch that have begun.
  faultsOn(name) {
    const found = [];
    for (const [id, fault] of this.state.faults) {
      if (fault[FAULT.links].includes(name) || fault[FAULT.switches].includes(name)) found.push({ id, fault });
    }
    return found;
  }

  // Names of the links that a path from one host to another takes over some switches.
  linksOf(source, over, destination) {
    const nodes = [source, ...over, destination];
    const found = [];
    for (let i = 1; i < nodes.length; i++) {
      const plane = over[0].split("@p")[1];
      const name =
        this.between.get(`${nodes[i - 1]}|${nodes[i]}`) ??
        this.between.get(`${nodes[i]}|${nodes[i - 1]}`) ??
        this.layout.links.find((l) => l.lower === nodes[i] && l.upper === nodes[i - 1] && String(l.plane) === plane)?.name;
      if (name) found.push(name);
    }
    return found;
  }

  // Sums over the fabric: what hosts receive in bit/s by plane, and packets a second that were marked, trimmed, dropped.
  totals() {
    const received = new Array(this.layout.planes).fill(0);
    for (const link of this.layout.links) {
      if (link.kind === "nic-t0") received[link.plane] += this.state.links.get(link.name)?.[LINK.downward] ?? 0;
    }
    const signals = [0, 0, 0];
    for (const values of this.state.signals.values()) for (let i = 0; i < 3; i++) signals[i] += values[i];
    return { received, signals };
  }

  // Paths in use and out of use, over all pairs of hosts.
  pathCounts() {
    let usable = 0;
    let out = 0;
    for (const [states] of this.state.pairs.values()) {
      for (const letter of states) {
        if ("bdBD".includes(letter)) out++;
        else usable++;
      }
    }
    return { usable, out };
  }
}
