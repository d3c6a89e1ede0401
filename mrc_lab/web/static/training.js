// Runs of a training job, or of another workload that has steps, step by step, and what links that went down did to them.
// Times are the records', in ms.

export const LEAST_STALL_MS = 1000;
const MUCH_LONGER = 4; // times the usual: a step that stood still
const FIRST_STEPS = 2; // of a run: they connect
const MOST_STEPS = 4000;
const MOST_CUTS = 8; // of a run, the last ones: a link may flap

export class Training {
  constructor(model) {
    this.model = model;
    this.clear();
  }

  // Forget everything: a recording begins again.
  clear() {
    this.runs = new Map(); // name -> { name, state, rows: [{ at, step, took }], began, last }
  }

  // The past, as a server sends it to those who come later: of each step [time, name, state].
  restore(steps) {
    this.clear();
    for (const [at, name, state] of steps) this.step(name, state, at);
  }

  // A step that is done; one that is known already may come again.
  step(name, state, at) {
    const [step, , , took] = state;
    let run = this.runs.get(name);
    if (run && step === run.state[0]) return;
    if (!run || step < run.state[0]) run = { name, rows: [], began: at - took };
    run.state = state;
    run.last = at;
    run.rows.push({ at, step, took });
    if (run.rows.length > MOST_STEPS) run.rows.shift();
    this.runs.set(name, run);
  }

  // How long a step of a run takes usually: the median.
  usual(run) {
    if (run.counted !== run.rows.length) {
      const times = run.rows.map((row) => row.took).sort((a, b) => a - b);
      [run.median, run.counted] = [times[times.length >> 1], run.rows.length];
    }
    return run.median;
  }

  // Whether a run is the one that goes on now: the one that a step was done of last, and not its last one.
  goesOn(run) {
    return run.state[0] < run.state[1] && [...this.runs.values()].every((other) => other.last <= run.last);
  }

  // How long the step that is under way has taken; 0 if none is.
  underWay(run, now) {
    return this.goesOn(run) && !this.model.ended ? Math.max(0, now - run.last) : 0;
  }

  // A step that takes longer than this stands still.
  stall(run) {
    return Math.max(MUCH_LONGER * this.usual(run), this.model.run ? 0 : LEAST_STALL_MS);
  }

  // Links that went down in a run: each with the step that was under way, and the longest step until the next one did.
  cuts(run, now) {
    const end = this.goesOn(run) ? now : run.last;
    const events = this.model.events.filter((one) => one.kind === "link down" && one.at >= run.began && one.at <= end).slice(-MOST_CUTS);
    const waits = this.underWay(run, now);
    return events.map(({ at, name }, place) => {
      const next = events[place + 1]?.at ?? Infinity;
      const during = run.rows.filter((row, index) => index >= FIRST_STEPS && row.at >= at && row.at - row.took < next);
      const step = run.rows.findLast((row) => row.at < at)?.step ?? 0;
      const longest = Math.max(0, ...during.map((row) => row.took));
      const waiting = next === Infinity && waits > Math.max(longest, this.stall(run));
      return { at, name, step, longest: waiting ? waits : longest, waiting };
    });
  }
}
