// How training goes over each transport, in words: how far it is, how long a step takes, and what links that went down
// did to it. Somebody who has never heard of either sees here what there is to see.

import { byId, html } from "./elements.js";
import { showDuration } from "./words.js";

export const TRANSPORTS = { roce: "RoCE", mrc: "MRC" };
const ABOUT = { roce: "one path for each connection", mrc: "every connection over all paths" };
const MUCH_LONGER = 4; // times the usual: a step that stood still
const LEAST_STALL_MS = 1000;
const MOST_STEPS = 2000; // that say what is usual

export class Story {
  constructor(model, root) {
    this.model = model;
    this.root = root;
    this.clear();
  }

  // Forget everything: a recording begins again.
  clear() {
    this.runs = new Map(); // transport -> { state, times, began, last, longest, longestAt }
    this.key = "";
  }

  // A step that is done, at a time in ms.
  step(name, state, at) {
    const took = state[3];
    const run = this.runs.get(name) ?? { times: [], began: at - took, longest: 0, longestAt: 0 };
    run.state = state;
    run.last = at;
    run.times.push(took);
    if (run.times.length > MOST_STEPS) run.times.shift();
    if (took > run.longest && run.times.length > 2) [run.longest, run.longestAt] = [took, at]; // the first ones connect
    this.runs.set(name, run);
  }

  draw(now) {
    this.root.hidden = !this.runs.size;
    if (!this.runs.size) return;
    const rows = [...this.runs].map(([name, run], place) => [name, ...this.#words(run, now, place === this.runs.size - 1)]);
    const key = JSON.stringify(rows);
    if (key === this.key) return;
    this.key = key;
    const training = [...this.runs.keys()].every((name) => name in TRANSPORTS);
    byId("story-heading").textContent = training ? "The same training job over each transport" : "Steps of the workload";
    this.root.replaceChildren(
      ...rows.map(([name, progress, effect, bad]) =>
        html("p", {}, html("strong", { text: TRANSPORTS[name] ?? name }), html("span", { class: "about", text: ABOUT[name] ?? "" }), html("span", { text: progress }), html("span", { class: bad ? "bad" : "effect", text: effect })),
      ),
    );
  }

  // How far a run is, what happened to it, and whether that is bad.
  #words(run, now, runs) {
    const [step, planned, loss] = run.state;
    const usual = [...run.times].sort((a, b) => a - b)[run.times.length >> 1];
    const progress = `step ${step} of ${planned}${loss === null ? "" : `, loss ${loss.toFixed(4)}`}, usually ${showDuration(usual)} a step`;
    const cuts = this.model.events.filter((one) => one.kind === "link down" && one.at >= run.began && one.at <= (runs ? now : run.last));
    const still = now - run.last;
    const stall = Math.max(MUCH_LONGER * usual, this.model.run ? 0 : LEAST_STALL_MS);
    if (runs && step < planned && still > stall) {
      const cut = cuts.filter((one) => one.at >= run.last - usual).at(-1);
      return [progress, `✕ has stood still for ${showDuration(Math.round(still / 100) * 100 || still)}${cut ? ` since ${cut.name} went down` : ""}`, true];
    }
    if (!cuts.length) return [progress, "", false];
    const times = `${cuts.length === 1 ? "A link" : `${cuts.length} links`} went down:`;
    if (run.longest > stall) return [progress, `✕ ${times} the longest step took ${showDuration(run.longest)}`, true];
    return [progress, `✓ ${times} the longest step took ${showDuration(Math.max(run.longest, usual))}`, false];
  }
}
