// Progress of training over each transport, in words: how far it is, how long a step takes, and what links that went down
// did to it. Somebody who has never heard of either sees here what there is to see, and which curve is which.

import { html } from "./elements.js";
import { plural, showDuration } from "./format.js";

export const TRANSPORTS = { roce: "RoCE", mrc: "MRC" };
const ABOUT = { roce: "one path for each connection", mrc: "every packet may take another path" };
const SERIES = { mrc: 0, roce: 1 }; // the look of their curves, whichever comes first

export const seriesOf = (name, place) => SERIES[name] ?? place;

export class Story {
  constructor(model, training, root) {
    this.model = model;
    this.training = training;
    this.root = root;
    this.key = "";
  }

  draw(now) {
    const runs = [...this.training.runs.values()];
    this.root.hidden = !runs.length;
    if (!runs.length) return;
    const ofDemo = runs.every((run) => run.name in TRANSPORTS);
    const told = runs.map((run) => ({ run, cuts: this.training.cuts(run, now) }));
    const rows = told.map(({ run, cuts }, place) => [run.name, seriesOf(run.name, place), this.#progress(run), cuts.map((cut) => this.#effect(run, cut))]);
    if (ofDemo && runs.length === 1 && !this.model.ended) rows.push(["mrc", 0, "the same job, and the same cuts, when RoCE is done", []]);
    const texts = { heading: ofDemo ? "The same training job over two transports" : "Steps of the workload", intro: ofDemo ? this.#intro() : "", rows, result: told.length > 1 ? this.#result(told) : [] };
    const key = JSON.stringify(texts);
    if (key === this.key) return;
    this.key = key;
    this.root.replaceChildren(
      html("h2", { id: "story-heading", text: texts.heading }),
      ...(texts.intro ? [html("p", { class: "about", text: texts.intro })] : []),
      ...rows.map((row) => this.#row(...row)),
      ...texts.result.map((text) => html("p", { class: "result", text })),
    );
  }

  #intro() {
    return `${plural(this.model.layout.hosts.length, "host")} train one network together. After each step they exchange what they have learned, so a step takes as long as the slowest packet. In each run the same links are cut after the same steps.`;
  }

  #row(name, series, progress, effects) {
    const head = [html("span", { class: `curve series-${series}`, "aria-hidden": "true" }), html("strong", { text: TRANSPORTS[name] ?? name })];
    if (ABOUT[name]) head.push(html("span", { text: ABOUT[name] }));
    return html("div", { class: "run" }, html("p", {}, ...head), html("p", { class: "about", text: progress }), ...effects.map(([bad, text]) => html("p", { class: bad ? "bad" : "effect", text })));
  }

  #progress(run) {
    const [step, planned, loss] = run.state;
    return `step ${step} of ${planned}${loss === null ? "" : `, loss ${loss.toFixed(3)}`}, usually ${showDuration(Math.round(this.training.usual(run)) || this.training.usual(run))} a step`;
  }

  // What a cut did: whether it is bad, and the words for it.
  #effect(run, { name, longest, waiting }) {
    const link = this.#link(name);
    const what = `${link[0].toUpperCase()}${link.slice(1)} was cut`;
    const stall = this.training.stall(run);
    const it = run.name in TRANSPORTS ? "training" : "it";
    if (waiting) return [true, `✕ ${what}: ${it} has stood still for ${showDuration(Math.round(longest / 100) * 100 || longest)}`];
    if (!longest) return [false, `${what} …`];
    if (longest > stall) return [true, `✕ ${what}: ${it} stood still for ${showDuration(longest)}`];
    return [false, `✓ ${what}: ${it} went on, a step took at most ${showDuration(longest)}`];
  }

  // What the same cut cost both: how much longer than usual the longest step was.
  #result(told) {
    const [first, second] = told;
    const found = [];
    for (const cut of first.cuts) {
      const same = second.cuts.find((other) => other.name === cut.name);
      if (!same?.longest || same.waiting || !cut.longest) continue;
      const longer = ({ run }, one) => Math.max(0, Number((one.longest - this.training.usual(run)).toPrecision(2)));
      const cost = (of, one) => `${TRANSPORTS[of.run.name] ?? of.run.name} ${longer(of, one) ? showDuration(longer(of, one)) : "nothing"}`;
      found.push(`Cutting ${this.#link(cut.name)} cost ${cost(first, cut)} and ${cost(second, same)}.`);
    }
    return found;
  }

  #link(name) {
    const link = this.model.linkOf.get(name);
    if (!link) return name;
    const place = this.model.layout.planes > 1 ? ` in plane ${link.plane}` : "";
    const short = (node) => node.split("@")[0];
    return link.kind === "nic-t0" ? `the link of host ${link.lower}${place}` : `the link ${short(link.lower)} to ${short(link.upper)}${place}`;
  }
}
