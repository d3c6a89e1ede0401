// Playback of a recording in the page that shows a live fabric: a slider over its time, play and pause, speed, and steps
// from one event to the next. Going back means taking all records again from the first one, which has the whole state.
// A simulated run is over in less than the blink of an eye, so it begins in slow motion: all of it in half a minute.

import { byId, html } from "./elements.js";
import { playRecords } from "./records.js";
import { showClock, showDuration } from "./format.js";

const EFFECT_MS = 300;
const SPEEDS = [0.1, 0.25, 1, 4, 16]; // times as fast as it was
const SHORT_MS = 5000; // what is shorter is played slower
const WHOLE_MS = 30000; // so long, all of it
const SLOWER = [0.1, 0.3, 1, 3, 10];

export class Player {
  // `take` gets the records, `restart` comes before the first one is given again, `moved` after each change of the time,
  // and `showTime` makes text of a time. In what was `sampled` an event's effect is known somewhat after the event.
  constructor(records, { take, restart, moved, showTime = showClock, sampled = true }) {
    this.take = take;
    this.restart = restart;
    this.moved = moved;
    this.showTime = showTime;
    this.effect = sampled ? EFFECT_MS : 0;
    this.speed = 1;
    this.playing = false;
    this.last = 0;
    this.#build();
    this.setRecords(records);
    requestAnimationFrame((now) => this.#frame(now));
  }

  // Play these from their begin.
  setRecords(records) {
    this.records = records;
    this.begin = records[0].at;
    this.end = records.at(-1).at;
    this.place = 0;
    this.slider.max = String(Math.max(1e-6, this.end - this.begin));
    this.slider.step = this.end - this.begin > SHORT_MS ? "10" : "any";
    this.#setSpeeds();
    this.go(this.begin);
  }

  go(at) {
    const wanted = Math.min(this.end, Math.max(this.begin, at));
    if (wanted < this.at || this.place === 0) {
      this.place = 0;
      this.restart();
    }
    this.at = wanted;
    this.place = playRecords(this.records, this.place, wanted, this.take);
    this.slider.value = String(wanted - this.begin);
    this.slider.setAttribute("aria-valuetext", this.showTime(wanted));
    this.clock.textContent = `${this.showTime(wanted)} of ${this.showTime(this.end)}`;
    this.moved(wanted);
  }

  // To the first event of these kinds, and a bit further; to where it is if there is none.
  goToFirst(kinds) {
    const first = this.records.find((record) => record.at >= this.begin && kinds.has(record.event?.[0]));
    if (first) this.#goPast(first.at);
  }

  // To the next event, or the one before, and a bit further: an event's effect is sampled somewhat after it.
  step(by) {
    const times = this.records.filter((record) => record.event && record.at >= this.begin).map((record) => record.at);
    const next = by > 0 ? times.find((at) => at > this.at) : times.findLast((at) => at < this.at - this.effect);
    if (next !== undefined) this.#goPast(next);
  }

  // To an event, and so far past it that its effect has been sampled.
  #goPast(at) {
    const effect = this.records.find((record) => record.state && record.at > at)?.at ?? at;
    this.go(this.effect ? Math.max(at + this.effect, effect) : at); // a busy machine samples late
  }

  #build() {
    this.button = html("button", { type: "button", id: "play", text: "Play", onclick: () => this.#play(!this.playing) });
    this.slider = html("input", { type: "range", id: "time", min: 0, step: 10, value: 0, "aria-label": "time", oninput: () => this.go(this.begin + Number(this.slider.value)) });
    this.clock = html("span", { id: "clock" });
    this.speeds = html("select", { id: "speed", "aria-label": "speed", onchange: () => (this.speed = Number(this.speeds.value)) });
    const back = html("button", { type: "button", text: "‹ event", onclick: () => this.step(-1) });
    const forth = html("button", { type: "button", id: "next-event", text: "event ›", onclick: () => this.step(1) });
    byId("player").replaceChildren(this.button, back, forth, this.slider, this.clock, this.speeds);
    byId("player").hidden = false;
  }

  #setSpeeds() {
    const length = this.end - this.begin;
    const short = length < SHORT_MS;
    const natural = short ? Number((length / WHOLE_MS).toPrecision(1)) : 1;
    const text = (speed) => (short ? `${showDuration(speed * 1000)} a second` : `${speed} ×`);
    const options = (short ? SLOWER.map((by) => by * natural) : SPEEDS).map((speed) => html("option", { value: speed, text: text(speed), selected: speed === natural }));
    this.speeds.replaceChildren(...options);
    this.speed = natural;
  }

  #play(on) {
    if (on && this.at >= this.end) this.go(this.begin);
    this.playing = on;
    this.button.textContent = on ? "Pause" : "Play";
  }

  #frame(now) {
    const elapsed = Math.min(200, now - this.last);
    this.last = now;
    if (this.playing) {
      this.go(this.at + elapsed * this.speed);
      if (this.at >= this.end) this.#play(false);
    }
    requestAnimationFrame((next) => this.#frame(next));
  }
}
