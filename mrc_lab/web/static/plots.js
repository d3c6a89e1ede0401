// Curves over the last two minutes: what hosts receive, and what switches mark, trim and drop. Times are the records'.

import uPlot from "./uplot/uPlot.esm.js";
import { byId } from "./elements.js";
import { showClock, showRate } from "./words.js";

const SPAN_S = 120;
const SHORTEST_S = 30;
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]];

export class Plots {
  constructor(model) {
    this.model = model;
    this.points = []; // [seconds, total, plane 0, ..., marks, trims, drops]
    this.charts = [];
    this.marks = [];
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.build());
    new ResizeObserver(() => this.#resize()).observe(byId("plots"));
  }

  build() {
    for (const chart of this.charts) chart.destroy();
    const planes = this.model.layout.planes;
    const names = planes > 1 ? Array.from({ length: planes }, (_, plane) => `plane ${plane}`) : [];
    this.charts = [
      this.#chart("throughput", "Received by all hosts", ["total", ...names], showRate, names.length + 1),
      this.#chart("losses", "Packets a second, at all switches", ["ECN marks", "trims", "drops"], (v) => String(Math.round(v)), 3),
    ];
    this.draw();
  }

  // One more point, of now.
  sample(atMs) {
    const seconds = atMs / 1000;
    const last = this.points.at(-1);
    if (last && seconds - last[0] < 0.2) return;
    const { received, signals } = this.model.totals();
    const total = received.reduce((sum, one) => sum + one, 0);
    this.points.push([seconds, total, ...received, ...signals]);
    while (this.points.length && this.points[0][0] < seconds - SPAN_S) this.points.shift();
  }

  draw() {
    if (!this.charts.length || document.hidden) return;
    const planes = this.model.layout.planes;
    const times = this.points.map((point) => point[0]);
    const column = (index) => this.points.map((point) => point[index]);
    const per = planes > 1 ? Array.from({ length: planes }, (_, plane) => column(2 + plane)) : [];
    this.charts[0].setData([times, column(1), ...per]);
    this.charts[1].setData([times, ...[0, 1, 2].map((index) => column(2 + planes + index))]);
    for (const chart of this.charts) if (!(chart.cursor.left >= 0) && times.length) chart.setLegend({ idx: times.length - 1 });
  }

  #chart(id, title, names, show, count) {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const font = `11px ${getComputedStyle(document.body).fontFamily}`;
    const axis = { stroke: color("--muted"), font, grid: { stroke: color("--grid"), width: 1 }, ticks: { stroke: color("--grid"), width: 1 } };
    const series = names.map((label, index) => ({
      label,
      stroke: color(`--series-${index % 5}`),
      width: index === 0 && count > 3 ? 2 : 1.5,
      dash: DASHES[Math.floor(index / 5) + (index % 5 ? index % 4 : 0)] ?? [],
      value: (_, value) => (value === null || value === undefined ? "" : show(value)),
      points: { show: false },
    }));
    const faults = (chart) => this.#faultLines(chart, color("--bad"));
    return new uPlot(
      {
        title, ...this.#size(id), legend: { live: true }, cursor: { drag: { setScale: false } },
        scales: { x: { time: true, range: (_, low, high) => [Math.max(high - SPAN_S, Math.min(low, high - SHORTEST_S)), high] }, y: { range: (_, low, high) => [0, Math.max(high ?? 0, 1) * 1.08] } },
        axes: [{ ...axis, values: (_, values) => values.map((seconds) => showClock(seconds * 1000).slice(0, 8)), space: 80 }, { ...axis, size: 78, values: (_, values) => values.map(show) }],
        series: [{ label: "time", value: (_, seconds) => (seconds ? showClock(seconds * 1000).slice(0, 8) : "") }, ...series],
        hooks: { draw: [faults] },
      },
      [[], ...names.map(() => [])],
      byId(id),
    );
  }

  // A vertical line where a link went down or came up.
  #faultLines(chart, color) {
    const draw = chart.ctx;
    draw.save();
    draw.strokeStyle = color;
    draw.setLineDash([3, 3]);
    for (const event of this.model.events) {
      if (event.kind !== "link down" && event.kind !== "link up") continue;
      const x = chart.valToPos(event.at / 1000, "x", true);
      if (x < chart.bbox.left || x > chart.bbox.left + chart.bbox.width) continue;
      draw.globalAlpha = event.kind === "link down" ? 0.9 : 0.35;
      draw.beginPath();
      draw.moveTo(x, chart.bbox.top);
      draw.lineTo(x, chart.bbox.top + chart.bbox.height);
      draw.stroke();
    }
    draw.restore();
  }

  #size(id) {
    return { width: Math.max(240, byId(id).clientWidth), height: 170 };
  }

  #resize() {
    this.charts[0]?.setSize(this.#size("throughput"));
    this.charts[1]?.setSize(this.#size("losses"));
  }
}
