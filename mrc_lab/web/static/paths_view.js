// Paths between hosts: a row for each pair, with one cell for each entropy value, by plane. A state has a shape besides
// its colour: good is a full cell, skipped a half one, assumed bad a cross, denied a bar. A path that is not in use now, as a
// backup is or one in a plane that is avoided, is hollow.

import { html, showTip } from "./elements.js";
import { plural, showEv, showRate } from "./format.js";

const WORDS = { g: "good", s: "skipped for a turn", b: "assumed bad", d: "denied" };
const SIGNS = { g: "", s: "", b: "✕", d: "–" };
const MOST_ROWS = 60;

export class PathsView {
  constructor(model, root, select, showPath) {
    this.model = model;
    this.root = root;
    this.select = select;
    this.showPath = showPath;
    this.rows = new Map(); // pair -> { row, cells, note, shape }
  }

  refresh(changes) {
    if (!changes.pairs.size && !changes.routes.size) return;
    const names = [...this.model.state.pairs.keys()].filter((name) => this.model.state.routes.has(name));
    names.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const shown = names.slice(0, MOST_ROWS);
    for (const name of [...this.rows.keys()]) {
      if (!shown.includes(name) || this.rows.get(name).shape !== this.#shape(name)) this.rows.delete(name);
    }
    for (const name of shown) {
      if (!this.rows.has(name)) this.rows.set(name, this.#row(name));
      this.#refreshRow(name);
    }
    const rows = shown.map((name) => this.rows.get(name).row);
    if (!rows.length) rows.push(html("p", { class: "empty", text: "No connection with several paths now: start a transfer. A RoCE connection has only one." }));
    if (names.length > shown.length) rows.push(html("p", { class: "empty", text: `and ${names.length - shown.length} more pairs` }));
    if (rows.length !== this.root.children.length || rows.some((row, i) => row !== this.root.children[i])) this.root.replaceChildren(...rows);
  }

  #shape(name) {
    return this.model.state.routes.get(name)[0].map(([ev]) => ev).join(",");
  }

  #row(name) {
    const [source, destination] = name.split(">");
    const routes = this.model.state.routes.get(name)[0];
    const cells = routes.map((route, index) => this.#cell(name, route, index));
    const strip = html("div", { class: "strip", role: "group", "aria-label": `Paths ${source} to ${destination}` });
    let plane = null;
    let box = null;
    routes.forEach((route, index) => {
      if (route[1] !== plane) {
        plane = route[1];
        box = html("div", { class: "strip-plane" }, html("span", { class: "strip-label", text: `p${plane}` }));
        strip.append(box);
      }
      box.append(cells[index]);
    });
    cells[0]?.setAttribute("tabindex", "0");
    strip.addEventListener("keydown", (event) => this.#moveFocus(event, cells));
    const note = html("span", { class: "pair-note" });
    const row = html("div", { class: "pair" }, html("span", { class: "pair-name", text: `${source} → ${destination}` }), strip, note);
    return { row, cells, note, shape: this.#shape(name) };
  }

  #cell(name, route, index) {
    const [source, destination] = name.split(">");
    const cell = html("button", { type: "button", class: "ev", tabindex: "-1" });
    const show = (x, y) => {
      this.showPath(route[2].length ? this.model.linksOf(source, route[2], destination) : []);
      showTip(this.#describe(name, index), x, y);
    };
    const hide = () => {
      this.showPath([]);
      showTip("");
    };
    cell.addEventListener("click", () => this.select({ kind: "path", name, index }));
    cell.addEventListener("pointerenter", (event) => show(event.clientX, event.clientY));
    cell.addEventListener("pointerleave", hide);
    cell.addEventListener("focus", () => {
      cell.setAttribute("aria-label", this.#describe(name, index));
      const box = cell.getBoundingClientRect();
      if (cell.matches(":focus-visible")) show(box.x, box.y + box.height / 2);
    });
    cell.addEventListener("blur", hide);
    return cell;
  }

  #moveFocus(event, cells) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const now = cells.indexOf(event.target);
    const next = cells[(now + by + cells.length) % cells.length];
    event.target.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }

  #describe(name, index) {
    return describePath(this.model, name, index);
  }

  #refreshRow(name) {
    const { cells, note } = this.rows.get(name);
    const [states, , , sent, lost, again, received] = this.model.state.pairs.get(name);
    cells.forEach((cell, index) => {
      const letter = states[index] ?? "g";
      const state = letter.toLowerCase();
      const key = `ev ev-${state}${letter === state ? " backup" : ""}`;
      if (cell.className !== key) {
        cell.className = key;
        cell.textContent = SIGNS[state];
      }
    });
    const out = [...states].filter((letter) => "bdBD".includes(letter)).length;
    const words = [out ? `${out} of ${plural(states.length, "path")} out of use` : states.length ? `${plural(states.length, "path")} usable` : "one path, which a hash has chosen"];
    if (received !== null && received !== undefined) words.unshift(showRate(received));
    if (lost || again) words.push(`${lost} of ${sent} packets lost, ${again} sent again`);
    note.textContent = words.join(" · ");
    note.classList.toggle("bad", out > 0);
    note.classList.toggle("no-paths", !states.length);
  }
}

// A path in a few words.
export function describePath(model, name, index) {
  const route = model.state.routes.get(name)?.[0][index];
  const pair = model.state.pairs.get(name);
  if (!route || !pair) return name;
  const [ev, plane, over] = route;
  const letter = pair[0][index] ?? "g";
  const parts = [`${name.replace(">", " to ")}, EV ${showEv(ev)}, plane ${plane}`, WORDS[letter.toLowerCase()]];
  if (letter === letter.toLowerCase()) parts.push("not in use now");
  if (over.length) parts.push(`over ${over.map((one) => one.split("@")[0]).join(", ")}`);
  if (pair[1].length) parts.push(`${pair[1][index] ?? 0} lost`);
  if (pair[2][index]) parts.push(`round trip ${pair[2][index]} us`);
  return parts.join(" · ");
}
