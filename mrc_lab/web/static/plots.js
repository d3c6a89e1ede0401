// Curves over the last two minutes: what hosts receive, and what switches mark, trim and drop. Times are the records'.

import uPlot from "./uplot/uPlot.esm.js";
import { byId } from "./elements.js";
import { seriesOf, TRANSPORTS } from "./story.js";
import { showCount, showDuration, showRate } from "./format.js";

const SPAN_S = 120;
const SHORTEST_S = 30;
const GAP_S = 3; // points come twice a second while anybody watches
// Steps between an axis' labels that are whole numbers, as labels are.
export const WHOLE = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]];

// Points ([seconds, values ...]) with an empty one wherever nobody watched for a while: nothing is known of that time.
export function withGaps(points) {
  return points.flatMap((point, index) => {
    const before = points[index - 1];
    if (!before || point[0] - before[0] <= GAP_S) return [point];
    return [[before[0] + 0.001, ...new Array(point.length - 1).fill(null)], point];
  });
}

export class Plots {
  constructor(model, training) {
    this.model = model;
    this.training = training;
    this.points = []; // [seconds, total, plane 0, ..., marks, trims, drops]
    this.charts = [];
    this.runs = ""; // names of those that have a curve
    this.spanMs = null; // of a recorded run: all of it is shown
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.build());
    for (const id of ["plots", "story"]) new ResizeObserver(() => this.#resize()).observe(byId(id));
  }

  build() {
    for (const chart of this.charts) chart.destroy();
    const planes = this.model.layout.planes;
    const names = planes > 1 ? Array.from({ length: planes }, (_, plane) => `plane ${plane}`) : [];
    this.charts = [
      this.#chart("throughput", "Received by all hosts", ["total", ...names], showRate),
      this.#losses(),
    ];
    const runs = [...this.training.runs.keys()];
    this.runs = runs.join(" ");
    if (runs.length) this.charts.push(this.#chart("steps", `Time of each ${this.#byStep() ? "training " : ""}step: lower is better`, runs.map((name) => TRANSPORTS[name] ?? name), showDuration, { looks: runs.map(seriesOf), byStep: this.#byStep() }));
    this.draw();
  }

  // Forget all points: a recording begins again.
  clear() {
    this.points = [];
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

  // What the server has sampled before this page was there: of each point [ms, received by plane ..., signals ...].
  restore(points) {
    const planes = this.model.layout.planes;
    this.points = points.map(([at, ...values]) => [at / 1000, values.slice(0, planes).reduce((sum, one) => sum + one, 0), ...values]);
  }

  draw(now = 0) {
    if (!this.charts.length || document.hidden) return;
    if ([...this.training.runs.keys()].join(" ") !== this.runs) this.build();
    const planes = this.model.layout.planes;
    const points = document.body.classList.contains("recorded") ? this.points : withGaps(this.points);
    const times = points.map((point) => point[0]);
    const column = (index) => points.map((point) => point[index]);
    const per = planes > 1 ? Array.from({ length: planes }, (_, plane) => column(2 + plane)) : [];
    this.charts[0].setData([times, column(1), ...per]);
    const signals = this.#signals() ? [0, 1, 2] : [2];
    this.charts[1].setData([times, ...signals.map((index) => column(2 + planes + index))]);
    if (this.charts[2]) this.charts[2].setData(this.#steps(now));
    queueMicrotask(() => this.#showNewest()); // new data takes the legend's values away, when it is drawn
  }

  #showNewest() {
    for (const chart of this.charts) if (!(chart.cursor.left >= 0) && chart.data[0].length) chart.setLegend({ idx: this.#newest(chart) });
  }

  // Where a chart's legend is while nobody points at it: at the last point, or at the step that was done last.
  #newest(chart) {
    const last = chart.data[0].length - 1;
    if (chart !== this.charts[2] || !this.#byStep()) return last;
    const newest = [...this.training.runs.values()].reduce((found, run) => (run.last >= found.last ? run : found));
    return Math.min(last, Math.max(0, newest.state[0] - 1));
  }

  // A training job goes over each transport in turn, so its steps are compared by their number; the steps of workloads
  // that ran at the same time, by their time.
  #byStep() {
    return !this.model.run;
  }

  // The data of the steps' curves; the step that is under way, if it takes longer than usual, is the last point.
  #steps(now) {
    const runs = [...this.training.runs.values()];
    if (!this.#byStep()) {
      const rows = runs.flatMap((run, place) => run.rows.map((row) => ({ ...row, place }))).sort((a, b) => a.at - b.at);
      return [rows.map((row) => row.at / 1000), ...runs.map((_, place) => rows.map((row) => (row.place === place ? row.took : undefined)))];
    }
    const last = Math.max(0, ...runs.map((run) => run.state[0])) + 1;
    const data = [Array.from({ length: last }, (_, index) => index + 1)];
    for (const run of runs) {
      const column = new Array(last).fill(undefined);
      for (const { step, took } of run.rows) column[step - 1] = took;
      const waits = this.training.underWay(run, now);
      if (waits > 2 * this.training.usual(run)) column[run.state[0]] = waits;
      data.push(column);
    }
    return data;
  }

  // A run that was not asked to measure marks and trims over time has only what was lost in each time bin.
  #signals() {
    return this.model.run?.signals ?? true;
  }

  #losses() {
    const show = (count) => showCount(count);
    if (!this.#signals()) return this.#chart("losses", "Frames lost a second, on all links", ["lost"], show);
    const [title, last] = this.model.run ? ["Packets a second, on all links", "lost"] : ["Packets a second, at all switches", "drops"];
    return this.#chart("losses", title, ["ECN marks", "trims", last], show);
  }

  // `looks` are the numbers of the curves' colours and dashes; with `byStep` the x axis counts steps.
  #chart(id, title, names, show, { looks = names.map((_, index) => index), byStep = false } = {}) {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const font = `11px ${getComputedStyle(document.body).fontFamily}`;
    const axis = { stroke: color("--muted"), font, grid: { stroke: color("--grid"), width: 1 }, ticks: { stroke: color("--grid"), width: 1 } };
    const series = names.map((label, index) => ({
      label,
      stroke: color(`--series-${looks[index] % 5}`),
      width: byStep || (index === 0 && names.length > 3) ? 2 : 1.5,
      dash: DASHES[Math.floor(looks[index] / 5) + (looks[index] % 5 ? looks[index] % 4 : 0)] ?? [],
      value: (_, value) => (value === null || value === undefined ? "" : show(value)),
      points: { show: false },
    }));
    const byTime = (seconds) => (this.spanMs === null ? this.model.showTime(seconds * 1000).slice(0, 8) : this.model.showTime(seconds * 1000));
    const when = byStep ? (step) => `step ${Math.round(step)}` : byTime;
    const faults = (chart) => this.#faultLines(chart, color("--bad"), byStep);
    const live = (_, low, high) => [Math.max(high - SPAN_S, Math.min(low, high - SHORTEST_S)), high];
    const range = byStep ? () => [1, Math.max(2, ...[...this.training.runs.values()].map((run) => run.state[1]))] : this.spanMs === null ? live : () => [0, this.spanMs / 1000];
    return new uPlot(
      {
        title, ...this.#size(id), legend: { live: true }, cursor: { drag: { setScale: false } },
        scales: { x: { time: !byStep && this.spanMs === null, range }, y: { range: (_, low, high) => [0, Math.max(high ?? 0, 1) * 1.08] } },
        axes: [{ ...axis, values: (chart, values) => values.map((value) => (byStep || chart.data[0].length ? when(value) : "")), space: 90 }, { ...axis, size: 78, values: (_, values) => values.map(show), ...(show === showDuration ? {} : { incrs: WHOLE }) }],
        series: [{ label: byStep ? "step" : "time", value: (_, seconds) => (seconds === null || seconds === undefined ? "" : when(seconds)) }, ...series],
        hooks: { draw: [faults] },
      },
      [[], ...names.map(() => [])],
      byId(id),
    );
  }

  // A vertical line where a link went down or came up; by step, where one went down in any of the runs.
  #faultLines(chart, color, byStep) {
    const draw = chart.ctx;
    draw.save();
    draw.strokeStyle = color;
    draw.setLineDash([3, 3]);
    const shown = this.model.events.filter((event) => event.kind === "link down" || event.kind === "link up");
    const lines = byStep
      ? [...new Set([...this.training.runs.values()].flatMap((run) => this.training.cuts(run, run.last).map((cut) => cut.step)))].map((step) => [step + 0.5, 0.9])
      : shown.map((event) => [event.at / 1000, event.kind === "link down" ? 0.9 : 0.35]);
    for (const [at, alpha] of lines) {
      const x = chart.valToPos(at, "x", true);
      if (x < chart.bbox.left || x > chart.bbox.left + chart.bbox.width) continue;
      draw.globalAlpha = alpha;
      draw.beginPath();
      draw.moveTo(x, chart.bbox.top);
      draw.lineTo(x, chart.bbox.top + chart.bbox.height);
      draw.stroke();
    }
    draw.restore();
  }

  #size(id) {
    return { width: Math.max(240, byId(id).clientWidth), height: id === "steps" ? 230 : 170 };
  }

  #resize() {
    this.charts[0]?.setSize(this.#size("throughput"));
    this.charts[1]?.setSize(this.#size("losses"));
    this.charts[2]?.setSize(this.#size("steps"));
  }
}
