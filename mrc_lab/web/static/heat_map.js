// A plane with very many links as heat maps, one for each tier of links: a row for each switch below (or for the T0 that
// hosts are at), a column for each end above (or for each of its hosts), and a cell for each link.

import { html, showTip } from "./elements.js";
import { describeLink } from "./measures.js";

const TITLES = { "t1-t2": "T1 to T2", "t0-t1": "T0 to T1", "nic-t0": "hosts to T0" };

export class HeatMap {
  constructor(model, links, switches, width, select) {
    this.model = model;
    this.tiers = Object.keys(TITLES)
      .map((kind) => this.#tier(kind, links.filter((link) => link.kind === kind), width, select))
      .filter(Boolean);
    this.root = html("div", { class: "heat" }, ...this.tiers.map((tier) => tier.figure));
  }

  #tier(kind, links, width, select) {
    if (!links.length) return null;
    const row = (link) => (kind === "nic-t0" ? link.upper : link.lower);
    const rows = [...new Set(links.map(row))];
    const cells = rows.map((name) => links.filter((link) => row(link) === name));
    const columns = Math.max(...cells.map((some) => some.length));
    const size = Math.max(3, Math.min(14, Math.floor(width / columns), Math.floor(260 / rows.length)));
    const canvas = html("canvas", { width: columns * size, height: rows.length * size, tabindex: "0", role: "img", "aria-label": `${TITLES[kind]}: ${links.length} links, a row for each ${kind === "t1-t2" ? "T1" : "T0"}; use Find to choose one` });
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return cells[Math.floor((event.clientY - box.y) / size)]?.[Math.floor((event.clientX - box.x) / size)];
    };
    canvas.addEventListener("click", (event) => at(event) && select({ kind: "link", name: at(event).name }));
    canvas.addEventListener("pointermove", (event) => showTip(at(event) ? describeLink(this.model, at(event)) : "", event.clientX, event.clientY));
    canvas.addEventListener("pointerleave", () => showTip(""));
    return { cells, size, canvas, figure: html("figure", {}, html("figcaption", { text: `${TITLES[kind]}, ${links.length} links` }), canvas) };
  }

  refresh(measure, selected) {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const levels = [0, 1, 2, 3, 4, 5, 6].map((level) => color(`--level-${level}`));
    for (const { cells, size, canvas } of this.tiers) {
      const draw = canvas.getContext("2d");
      draw.clearRect(0, 0, canvas.width, canvas.height);
      cells.forEach((links, y) =>
        links.forEach((link, x) => {
          const up = this.model.isUp(link.name);
          draw.fillStyle = up ? levels[measure.level(measure.value(this.model, link), link)] : color("--bad");
          draw.fillRect(x * size, y * size, size - 1, size - 1);
          if (!up || this.model.faultsOn(link.name).length) this.#cross(draw, x * size, y * size, size, color("--panel"));
          if (link.name === selected) {
            draw.strokeStyle = color("--text");
            draw.strokeRect(x * size + 0.5, y * size + 0.5, size - 2, size - 2);
          }
        }),
      );
    }
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
