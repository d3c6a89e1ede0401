// The fabric: a panel for each plane, a row for each tier, links between them. A panel is drawn once for its width and
// then only has attributes of its links and switches changed. One element of a panel is in the order of Tab; the arrow
// keys move among the panel's switches, hosts and links. Planes with very many links are drawn as heat maps.

import { html, showTip, svg } from "./elements.js";
import { HeatMap } from "./heat_map.js";
import { describeLink, MEASURES } from "./measures.js";
import { plural } from "./format.js";

const MOST_LINKS = 400; // of a plane that is drawn link by link
const NODE_HEIGHT = 22;
const LETTER = 6.7; // px of a letter of the labels

// How the nodes of a row are labelled, all alike: by name, by number, or not, as there is space.
function labelling(nodes, space) {
  const forms = [(one) => one.name.split("@")[0], (one) => one.name.split("@")[0].replace(/^[a-z]+\d*-|^[a-z]+/, "")];
  return forms.find((form) => nodes.every((one) => form(one).length * LETTER + 3 <= space)) ?? (() => "");
}

export class FabricView {
  constructor(model, root, select) {
    this.model = model;
    this.root = root;
    this.select = select;
    this.measure = MEASURES.load;
    this.selected = "";
    this.onPath = new Set();
    this.links = new Map(); // name -> { group, wire, mark }
    this.nodes = new Map(); // name -> group
    this.heat = [];
    this.width = 0;
    new ResizeObserver(() => this.#resized()).observe(root);
  }

  setMeasure(measure) {
    this.measure = measure;
    this.refreshAll();
  }

  build() {
    const { layout } = this.model;
    if (!layout) return;
    this.links.clear();
    this.nodes.clear();
    this.heat = [];
    this.width = this.root.clientWidth;
    const columns = this.#columns(layout);
    this.root.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    const width = Math.floor((this.width - 10 * (columns - 1)) / columns) - 2;
    const panels = [];
    for (let plane = 0; plane < layout.planes; plane++) panels.push(this.#panel(plane, width));
    this.root.replaceChildren(...panels);
    this.refreshAll();
  }

  #columns(layout) {
    const widest = Math.max(...[0, 1, 2].map((tier) => layout.switches.filter((s) => s.plane === 0 && s.tier === tier).length), layout.hosts.length);
    const wanted = Math.max(230, Math.min(470, widest * 17));
    const fit = Math.max(1, Math.floor((this.width + 10) / (wanted + 10)));
    const columns = Math.min(fit, layout.planes);
    return Math.ceil(layout.planes / Math.ceil(layout.planes / columns)); // rows of equal length
  }

  #resized() {
    if (Math.abs(this.root.clientWidth - this.width) > 8) this.build();
  }

  #panel(plane, width) {
    const { layout } = this.model;
    const links = layout.links.filter((link) => link.plane === plane);
    const switches = layout.switches.filter((one) => one.plane === plane);
    const title = html("h3", { text: `Plane ${plane}` });
    const note = html("span", { class: "plane-note" });
    const head = html("div", { class: "plane-head" }, title, note);
    const panel = html("div", { class: "plane", "data-plane": plane }, head);
    panel.note = note;
    if (links.length > MOST_LINKS) {
      const map = new HeatMap(this.model, links, switches, width - 16, this.select);
      this.heat.push(map);
      panel.append(map.root);
    } else {
      panel.append(this.#diagram(plane, switches, links, width - 16));
    }
    return panel;
  }

  #diagram(plane, switches, links, width) {
    const { layout } = this.model;
    const tiers = Math.max(...switches.map((one) => one.tier)) + 1;
    const step = links.length > 60 ? 74 : 92;
    const height = tiers * step + 34;
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": `Plane ${plane}: ${plural(switches.length, "switch").replace(/switchs$/, "switches")}, ${plural(links.length, "link")}` });
    const wires = svg("g", { class: links.length > 60 ? "dense" : "" });
    const nodes = svg("g");
    const at = new Map();
    const row = (some, y, kind) => {
      const space = width / some.length;
      const label = labelling(some, space);
      some.forEach((one, index) => {
        const x = space * (index + 0.5);
        at.set(one.name, { x, y });
        nodes.append(this.#node(one, kind, x, y, space, label(one), plane));
      });
    };
    const hosts = new Set(links.filter((link) => link.kind === "nic-t0").map((link) => link.lower));
    row(layout.hosts.filter((host) => hosts.has(host.name)), height - NODE_HEIGHT / 2 - 2, "host");
    for (let tier = 0; tier < tiers; tier++) {
      row(switches.filter((one) => one.tier === tier), height - 34 - (tier + 0.62) * step, "switch");
    }
    for (const link of links) wires.append(this.#link(link, at.get(link.lower), at.get(link.upper)));
    root.append(wires, nodes);
    root.addEventListener("keydown", (event) => this.#moveFocus(event, root));
    nodes.firstElementChild?.setAttribute("tabindex", "0");
    return root;
  }

  #node(one, kind, x, y, space, label, plane) {
    const width = Math.max(4, Math.min(space - 2, Math.max(label.length * LETTER + 12, 30)));
    const target = one.name;
    const group = svg("g", { class: `node ${kind}`, role: "button", tabindex: "-1", "data-name": target, "aria-label": `${kind} ${one.name}` });
    group.append(svg("rect", { x: x - width / 2, y: y - NODE_HEIGHT / 2, width, height: NODE_HEIGHT, rx: kind === "host" ? Math.min(11, width / 2) : 4 }));
    if (label) group.append(svg("text", { x, y: y + 4, text: label }));
    this.#interactive(group, () => ({ kind, name: target }), () => this.#describeNode(kind, one.name));
    if (kind === "switch") this.nodes.set(one.name, group);
    else this.nodes.set(`${one.name}|${plane}`, group);
    return group;
  }

  #link(link, from, to) {
    const ends = { x1: from.x, y1: from.y - NODE_HEIGHT / 2, x2: to.x, y2: to.y + NODE_HEIGHT / 2 };
    const group = svg("g", { class: "link", role: "button", tabindex: "-1", "data-name": link.name, "aria-label": `link ${link.name}` });
    const wire = svg("line", { class: "wire", ...ends });
    const share = link.kind === "nic-t0" ? 0.5 : 0.3; // off the middle, where links cross
    const mark = svg("text", { class: "mark", x: ends.x1 + share * (ends.x2 - ends.x1), y: ends.y1 + share * (ends.y2 - ends.y1) + 4 });
    group.append(svg("line", { class: "hit", ...ends }), svg("line", { class: "halo", ...ends }), wire, mark);
    this.#interactive(group, () => ({ kind: "link", name: link.name }), () => describeLink(this.model, link));
    this.links.set(link.name, { link, group, wire, mark, key: "" });
    return group;
  }

  #interactive(group, what, describe) {
    group.addEventListener("click", () => this.select(what()));
    group.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        this.select(what(), true);
      }
    });
    group.addEventListener("pointermove", (event) => showTip(describe(), event.clientX, event.clientY));
    group.addEventListener("pointerleave", () => showTip(""));
    group.addEventListener("focus", () => {
      group.setAttribute("aria-label", describe());
      if (!group.matches(":focus-visible")) return;
      const box = group.getBoundingClientRect();
      showTip(describe(), box.x + box.width / 2, box.y + box.height / 2);
    });
    group.addEventListener("blur", () => showTip(""));
  }

  #moveFocus(event, root) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const all = [...root.querySelectorAll("[data-name]")];
    const now = all.indexOf(event.target.closest("[data-name]"));
    const next = all[(now + by + all.length) % all.length];
    all[now]?.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }

  #describeNode(kind, name) {
    if (kind === "host") {
      const problem = this.model.state.hosts.get(name)?.[0];
      return problem ? `${name} · ${problem}` : `${name} · a host with a port in every plane`;
    }
    const faults = this.model.faultsOn(name).map(({ fault }) => fault[1]);
    const problem = this.model.state.switches.get(name)?.[0];
    return [name, ...faults, problem ?? ""].filter(Boolean).join(" · ");
  }

  refreshAll() {
    for (const entry of this.links.values()) this.#refreshLink(entry);
    for (const map of this.heat) map.refresh(this.measure, this.selected);
    this.#refreshNodes();
    this.#refreshNotes();
  }

  refresh(changes) {
    const names = new Set([...changes.links, ...changes.queues, ...changes.signals]);
    if (changes.faults.size || changes.switches.size || changes.hosts.size) {
      this.refreshAll();
      return;
    }
    for (const name of names) {
      const entry = this.links.get(name);
      if (entry) this.#refreshLink(entry);
    }
    if (names.size) for (const map of this.heat) map.refresh(this.measure, this.selected);
    if (changes.links.size) this.#refreshNotes();
  }

  // The links on a path, to be made visible; none with an empty list.
  showPath(names) {
    this.onPath = new Set(names);
    for (const entry of this.links.values()) this.#refreshLink(entry);
  }

  setSelected(name) {
    this.selected = name;
    this.refreshAll();
  }

  #refreshLink(entry) {
    const { link, group, mark } = entry;
    const up = this.model.isUp(link.name);
    const faulty = this.model.faultsOn(link.name).length > 0;
    const level = up ? this.measure.level(this.measure.value(this.model, link), link) : 0;
    const classes = ["link", `level-${level}`];
    if (!up) classes.push("down");
    else if (faulty) classes.push("faulty");
    if (this.selected === link.name) classes.push("selected");
    if (this.onPath.has(link.name)) classes.push("on-path");
    const key = classes.join(" ");
    if (key === entry.key) return;
    entry.key = key;
    group.setAttribute("class", key);
    const shownFirst = !up || faulty || this.selected === link.name || this.onPath.has(link.name);
    if (shownFirst && document.activeElement !== group) group.parentElement.append(group); // over the others
    mark.textContent = !up ? "✕" : faulty ? "!" : "";
  }

  #refreshNodes() {
    for (const [name, group] of this.nodes) {
      const plain = name.split("|")[0];
      const faults = group.classList.contains("switch") ? this.model.faultsOn(name) : [];
      const own = faults.some(({ fault }) => ["blackhole", "power_off"].includes(fault[0]));
      const problem = this.model.state.switches.has(plain) || this.model.state.hosts.has(plain);
      group.classList.toggle("faulty", own);
      group.classList.toggle("problem", problem);
      group.classList.toggle("selected", this.selected === plain);
    }
  }

  #refreshNotes() {
    for (const panel of this.root.children) {
      const plane = Number(panel.dataset.plane);
      const links = this.model.layout.links.filter((link) => link.plane === plane);
      const down = links.filter((link) => !this.model.isUp(link.name)).length;
      panel.note.textContent = down ? `✕ ${plural(down, "link")} down` : `${links.length} links up`;
      panel.note.classList.toggle("bad", down > 0);
    }
  }
}
