// Curves over the last two minutes: what hosts receive, and what switches mark, trim and drop. Times are the records'.

import uPlot from "./uplot/uPlot.esm.js";
import { byId } from "./elements.js";
import { TRANSPORTS } from "./story.js";
import { showDuration, showRate } from "./words.js";

const SPAN_S = 120;
const SHORTEST_S = 30;
const STEPS_SPAN_S = 600;
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]];

export class Plots {
  constructor(model) {
    this.model = model;
    this.points = []; // [seconds, total, plane 0, ..., marks, trims, drops]
    this.charts = [];
    this.steps = []; // [seconds, ms of a step by transport, ...]
    this.transports = [];
    this.spanMs = null; // of a recorded run: all of it is shown
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.build());
    new ResizeObserver(() => this.#resize()).observe(byId("plots"));
  }

  build() {
    for (const chart of this.charts) chart.destroy();
    const planes = this.model.layout.planes;
    const names = planes > 1 ? Array.from({ length: planes }, (_, plane) => `plane ${plane}`) : [];
    this.charts = [
      this.#chart("throughput", "Received by all hosts", ["total", ...names], showRate, names.length + 1),
      this.#losses(),
    ];
    byId("steps").hidden = !this.transports.length;
    if (this.transports.length) {
      const names = this.transports.map((name) => TRANSPORTS[name] ?? name);
      this.charts.push(this.#chart("steps", "Time of each step", names, showDuration, names.length, STEPS_SPAN_S));
    }
    this.draw();
  }

  // Forget all points: a recording begins again.
  clear() {
    this.points = [];
    this.steps = [];
  }

  // One more point, of now.
  sample(atMs) {
    const seconds = atMs / 1000;
    const last = this.points.at(-1);
    if (last && seconds - last[0] < (this.spanMs === null ? 0.2 : this.spanMs / 4e6)) return;
    const { received, signals } = this.model.totals();
    const total = received.reduce((sum, one) => sum + one, 0);
    this.points.push([seconds, total, ...received, ...signals]);
    while (this.spanMs === null && this.points.length && this.points[0][0] < seconds - SPAN_S) this.points.shift();
  }

  // Steps of a training job that are done since the last call; their time, by transport.
  train(changed) {
    for (const name of changed) {
      const state = this.model.state.training.get(name);
      if (!state) continue;
      const unknown = !this.transports.includes(name);
      if (unknown) this.transports.push(name);
      const row = [this.model.at / 1000];
      row[1 + this.transports.indexOf(name)] = state[3];
      this.steps.push(row);
      if (this.steps.length > 4000) this.steps.shift();
      if (unknown && this.model.layout) this.build();
    }
  }

  draw() {
    if (!this.charts.length || document.hidden) return;
    const planes = this.model.layout.planes;
    const times = this.points.map((point) => point[0]);
    const column = (index) => this.points.map((point) => point[index]);
    const per = planes > 1 ? Array.from({ length: planes }, (_, plane) => column(2 + plane)) : [];
    this.charts[0].setData([times, column(1), ...per]);
    const signals = this.spanMs === null ? [0, 1, 2] : [2];
    this.charts[1].setData([times, ...signals.map((index) => column(2 + planes + index))]);
    if (this.charts[2]) this.charts[2].setData([this.steps.map((row) => row[0]), ...this.transports.map((_, index) => this.steps.map((row) => row[1 + index] ?? undefined))]);
    for (const chart of this.charts) if (!(chart.cursor.left >= 0) && chart.data[0].length) chart.setLegend({ idx: chart.data[0].length - 1 });
  }

  // The tables of a run have what was lost in each time bin, and of marks and trims only the sums.
  #losses() {
    const show = (count) => String(Math.round(count));
    if (this.spanMs !== null) return this.#chart("losses", "Frames lost a second, on all links", ["lost"], show, 1);
    return this.#chart("losses", "Packets a second, at all switches", ["ECN marks", "trims", "drops"], show, 3);
  }

  #chart(id, title, names, show, count, span = SPAN_S) {
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
    const when = (seconds) => (this.spanMs === null ? this.model.showTime(seconds * 1000).slice(0, 8) : this.model.showTime(seconds * 1000));
    const faults = (chart) => this.#faultLines(chart, color("--bad"));
    return new uPlot(
      {
        title, ...this.#size(id), legend: { live: true }, cursor: { drag: { setScale: false } },
        scales: { x: { time: this.spanMs === null, range: (_, low, high) => (this.spanMs === null ? [Math.max(high - span, Math.min(low, high - SHORTEST_S)), high] : [0, this.spanMs / 1000]) }, y: { range: (_, low, high) => [0, Math.max(high ?? 0, 1) * 1.08] } },
        axes: [{ ...axis, values: (_, values) => values.map(when), space: 90 }, { ...axis, size: 78, values: (_, values) => values.map(show) }],
        series: [{ label: "time", value: (_, seconds) => (seconds === null || seconds === undefined ? "" : when(seconds)) }, ...series],
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
    this.charts[2]?.setSize(this.#size("steps"));
  }
}
