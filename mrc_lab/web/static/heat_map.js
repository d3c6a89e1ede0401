// A plane with very many links as heat maps, one for each tier of links: a row for each switch below (or for the T0 that
// hosts are at), a column for each end above (or for each of its hosts), and a cell for each link. A tier with more links
// than can be told apart has a cell for each switch instead, with the most that any of its links has; a click on it shows
// the switch's links below. The arrow keys move among cells, and Enter selects.

import { html, showTip } from "./elements.js";
import { describeLink } from "./measures.js";
import { plural } from "./format.js";

const TITLES = { "t1-t2": "T1 to T2", "t0-t1": "T0 to T1", "nic-t0": "hosts to T0" };
const HEIGHT = 260; // px of a map, at most
const LARGEST = 14; // px of a cell
const SMALLEST = 5; // below, a tier is shown by switch

const short = (name) => name.split("@")[0];
const range = (names) => (names.length > 1 ? `${short(names[0])} to ${short(names.at(-1))}` : short(names[0]));

export class HeatMap {
  constructor(model, links, switches, width, select) {
    this.model = model;
    this.select = select;
    this.width = width;
    this.grids = [];
    this.root = html("div", { class: "heat" });
    for (const kind of Object.keys(TITLES)) this.#tier(kind, links.filter((link) => link.kind === kind));
  }

  #tier(kind, links) {
    if (!links.length) return;
    const row = (link) => (kind === "nic-t0" ? link.upper : link.lower);
    const rows = [...new Set(links.map(row))];
    const cells = rows.map((name) => links.filter((link) => row(link) === name));
    const columns = Math.max(...cells.map((some) => some.length));
    const size = Math.min(LARGEST, Math.floor(this.width / columns), Math.floor(HEIGHT / rows.length));
    const title = `${TITLES[kind]}, ${plural(links.length, "link")}`;
    if (size < SMALLEST) this.#bySwitch(title, rows, cells);
    else {
      const above = kind === "nic-t0" ? "" : `, columns ${range(cells[0].map((link) => link.upper))}`;
      this.#grid(`${title}: rows ${range(rows)}${above}`, cells.map((some) => some.map((link) => [link])), size, ([link]) => ({ kind: "link", name: link.name }));
    }
  }

  // A cell for each switch, and below them the links of the one that was chosen last.
  #bySwitch(title, rows, cells) {
    const across = Math.max(1, Math.floor(this.width / LARGEST));
    const lines = [];
    for (let first = 0; first < rows.length; first += across) lines.push(cells.slice(first, first + across));
    const place = html("div", { class: "heat" });
    let chosen = null;
    const name = (some) => rows[cells.indexOf(some)];
    this.#grid(`${title}, a cell for each of ${range(rows)} with the most of its links`, lines, LARGEST, (some) => {
      this.grids = this.grids.filter((grid) => grid !== chosen);
      place.replaceChildren();
      const wide = [];
      for (let first = 0; first < some.length; first += across) wide.push(some.slice(first, first + across).map((link) => [link]));
      chosen = this.#grid(`links of ${short(name(some))} to ${range(some.map((link) => (link.upper === name(some) ? link.lower : link.upper)))}`, wide, LARGEST, ([link]) => ({ kind: "link", name: link.name }), place);
      return { kind: "switch", name: name(some) };
    });
    this.root.append(place);
  }

  // A map of cells, each of some links. `what` says what a click on a cell selects.
  #grid(title, cells, size, what, place = this.root) {
    const columns = Math.max(...cells.map((line) => line.length));
    const canvas = html("canvas", { width: columns * size, height: cells.length * size, tabindex: "0", role: "img", "aria-label": `${title}. Arrow keys move, Enter selects.` });
    const grid = { cells, size, canvas, x: -1, y: -1 };
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return cells[Math.floor((event.clientY - box.y) / size)]?.[Math.floor((event.clientX - box.x) / size)];
    };
    canvas.addEventListener("click", (event) => at(event) && this.select(what(at(event))));
    canvas.addEventListener("pointermove", (event) => showTip(at(event) ? this.#describe(at(event)) : "", event.clientX, event.clientY));
    canvas.addEventListener("pointerleave", () => showTip(""));
    canvas.addEventListener("keydown", (event) => this.#key(event, grid, what));
    canvas.addEventListener("blur", () => {
      grid.x = grid.y = -1;
      showTip("");
      this.#draw(grid);
    });
    place.append(html("figure", {}, html("figcaption", { text: title }), canvas));
    this.grids.push(grid);
    if (this.measure) this.#draw(grid);
    return grid;
  }

  #key(event, grid, what) {
    const by = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (by) {
      grid.y = Math.min(grid.cells.length - 1, Math.max(0, grid.y + by[1]));
      grid.x = Math.min(grid.cells[grid.y].length - 1, Math.max(0, grid.x + by[0]));
      const box = grid.canvas.getBoundingClientRect();
      const text = this.#describe(grid.cells[grid.y][grid.x]);
      grid.canvas.setAttribute("aria-label", text);
      showTip(text, box.x + (grid.x + 1) * grid.size, box.y + grid.y * grid.size);
      this.#draw(grid);
    } else if (event.key === "Enter" && grid.y >= 0) this.select(what(grid.cells[grid.y][grid.x]), true);
    else return;
    event.preventDefault();
  }

  #describe(links) {
    const most = this.#most(links);
    if (links.length === 1) return describeLink(this.model, most);
    const down = links.filter((link) => !this.model.isUp(link.name)).length;
    return `${plural(links.length, "link")}, ${down} down · most: ${describeLink(this.model, most)}`;
  }

  // The link with the most of what is shown.
  #most(links) {
    const value = (link) => this.measure.value(this.model, link) / (this.measure.share ? link.rate : 1);
    return links.reduce((found, link) => (value(link) > value(found) ? link : found));
  }

  refresh(measure, selected) {
    this.measure = measure;
    this.selected = selected;
    for (const grid of this.grids) this.#draw(grid);
  }

  #draw({ cells, size, canvas, x: cursorX, y: cursorY }) {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const levels = [0, 1, 2, 3, 4, 5, 6].map((level) => color(`--level-${level}`));
    const faulty = new Set([...this.model.state.faults.values()].flatMap((fault) => fault[2]));
    const draw = canvas.getContext("2d");
    draw.clearRect(0, 0, canvas.width, canvas.height);
    cells.forEach((line, y) =>
      line.forEach((links, x) => {
        const most = this.#most(links);
        const down = links.some((link) => !this.model.isUp(link.name));
        draw.fillStyle = down ? color("--bad") : levels[this.measure.level(this.measure.value(this.model, most), most)];
        draw.fillRect(x * size, y * size, size - 1, size - 1);
        if (down || (faulty.size && links.some((link) => faulty.has(link.name)))) this.#cross(draw, x * size, y * size, size, color("--panel"));
        if ((links.length === 1 && links[0].name === this.selected) || (x === cursorX && y === cursorY)) {
          draw.strokeStyle = color("--text");
          draw.strokeRect(x * size + 0.5, y * size + 0.5, size - 2, size - 2);
        }
      }),
    );
  }

  #cross(draw, x, y, size, color) {
    draw.strokeStyle = color;
    draw.beginPath();
    draw.moveTo(x + 1, y + 1);
    draw.lineTo(x + size - 2, y + size - 2);
    draw.moveTo(x + size - 2, y + 1);
    draw.lineTo(x + 1, y + size - 2);
    draw.stroke();
  }
}
