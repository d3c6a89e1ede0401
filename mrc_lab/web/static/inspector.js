// The selected link, switch, host or path as it is now, and what can be done to it.

import { html } from "./elements.js";
import { LINK, SIGNAL } from "./model.js";
import { describePath } from "./paths_view.js";
import { act } from "./requests.js";
import { showCount, showEv, showRate, showSize } from "./format.js";

const LOSSES = ["1%", "5%", "20%"];
const SLOWER = [["half", 2], ["a tenth", 10], ["a hundredth", 100]];

export class Inspector {
  constructor(model, root) {
    this.model = model;
    this.root = root;
    this.what = null;
    this.key = "";
    this.show(null);
  }

  show(what) {
    this.what = what;
    this.key = "";
    this.refresh();
  }

  // Draw again what is different; buttons stay as they are, so that focus does too.
  refresh() {
    const { what } = this;
    if (!what || !this.model.layout) {
      if (this.key !== "none") this.root.replaceChildren(html("p", { class: "empty", text: "Click a link, switch, host or path, or find one by name." }));
      this.key = "none";
      return;
    }
    const key = JSON.stringify([what.kind, what.name, what.index]);
    if (key !== this.key) {
      this.key = key;
      this.title = html("h3", { text: this.#title() });
      this.facts = html("dl", { class: "facts" });
      this.faults = html("div", { class: "faults" });
      this.onlyWhile = []; // of buttons that make sense in some states only: [button, whether it does now]
      this.root.replaceChildren(this.title, this.facts, this.faults, this.#actions());
      this.factsKey = this.faultsKey = "";
    }
    this.#refreshFacts();
    this.#refreshFaults();
    for (const [button, sensible] of this.onlyWhile) button.disabled = !sensible();
  }

  #title() {
    const { kind, name, index } = this.what;
    if (kind !== "path") return `${kind} ${name}`;
    return `path ${showEv(this.model.state.routes.get(name)?.[0][index]?.[0] ?? 0)}, ${name.replace(">", " to ")}`;
  }

  #refreshFacts() {
    const facts = { link: () => this.#linkFacts(), switch: () => this.#switchFacts(), host: () => this.#hostFacts(), path: () => this.#pathFacts() }[this.what.kind]();
    const key = JSON.stringify(facts);
    if (key === this.factsKey) return;
    this.factsKey = key;
    this.facts.replaceChildren(...facts.flatMap(([term, value, bad]) => [html("dt", { text: term }), html("dd", { text: value, class: bad ? "bad" : "" })]));
  }

  #linkFacts() {
    const { name } = this.what;
    const link = this.model.linkOf.get(name);
    const state = this.model.state.links.get(name) ?? [true, 0, 0];
    const queue = this.model.state.queues.get(name) ?? [0, 0];
    const signal = this.model.state.signals.get(name) ?? [0, 0, 0, {}];
    const drops = Object.entries(signal[SIGNAL.drops]).map(([reason, count]) => `${reason} ${showCount(count)}`);
    return [
      ["state", state[LINK.up] ? "up" : "✕ down", !state[LINK.up]],
      ["ends", `${link.lower} and ${link.upper}`],
      [`to ${link.upper.split("@")[0]}`, `${showRate(state[LINK.upward])} of ${showRate(link.rate)}${queue[0] ? `, ${showSize(queue[0])} waiting` : ""}`],
      [`to ${link.lower.split("@")[0]}`, `${showRate(state[LINK.downward])} of ${showRate(link.rate)}${queue[1] ? `, ${showSize(queue[1])} waiting` : ""}`],
      ["marks, trims", `${showCount(signal[0])}/s, ${showCount(signal[1])}/s`],
      ["drops", `${showCount(signal[2])}/s${drops.length ? `; so far ${drops.join(", ")}` : ""}`],
    ];
  }

  #switchFacts() {
    const { name } = this.what;
    const links = this.model.layout.links.filter((link) => link.lower === name || link.upper === name);
    const down = links.filter((link) => !this.model.isUp(link.name)).length;
    const rate = links.reduce((sum, link) => sum + (this.model.state.links.get(link.name)?.[link.lower === name ? LINK.downward : LINK.upward] ?? 0), 0);
    const problem = this.model.state.switches.get(name)?.[0];
    const facts = [["links", `${links.length}, ${down} down`, down > 0], ["receives", showRate(rate)]];
    if (problem) facts.push(["problem", problem, true]);
    return facts;
  }

  #hostFacts() {
    const { name } = this.what;
    const ports = this.model.layout.links.filter((link) => link.lower === name);
    const sum = (index) => ports.reduce((total, link) => total + (this.model.state.links.get(link.name)?.[index] ?? 0), 0);
    const down = ports.filter((link) => !this.model.isUp(link.name)).length;
    const problem = this.model.state.hosts.get(name)?.[0];
    const facts = [["ports", `${ports.length}, ${down} down`, down > 0], ["sends", showRate(sum(LINK.upward))], ["receives", showRate(sum(LINK.downward))]];
    if (problem) facts.push(["problem", problem, true]);
    return facts;
  }

  #pathFacts() {
    const [, ...parts] = describePath(this.model, this.what.name, this.what.index).split(" · ");
    return parts.map((part, index) => [index === 0 ? "state" : "", part, part === "assumed bad" || part === "denied"]);
  }

  #refreshFaults() {
    const { kind, name, index } = this.what;
    let found = kind === "host" ? [] : this.model.faultsOn(name);
    if (kind === "path") {
      const ev = this.model.state.routes.get(name)?.[0][index]?.[0];
      const words = [`ev ${showEv(ev ?? -1)}`, showEv(ev ?? -1), `0x${(ev ?? 0).toString(16)}`];
      found = [...this.model.state.faults].map(([id, fault]) => ({ id, fault })).filter(({ fault }) => fault[0] === "path" && words.some((word) => fault[1].includes(word)));
    }
    const key = JSON.stringify(found);
    if (key === this.faultsKey) return;
    this.faultsKey = key;
    this.faults.replaceChildren(
      ...found.map(({ id, fault }) =>
        html("p", {}, html("span", { text: fault[1] }), " ", html("button", { type: "button", text: `Clear ${id}`, onclick: () => act({ do: "fault", words: ["clear", id] }) })),
      ),
    );
  }

  #actions() {
    const box = html("div", { class: "actions" });
    const button = (text, words, attributes = {}) => html("button", { type: "button", text, onclick: () => act({ do: "fault", words: typeof words === "function" ? words() : words }), ...attributes });
    const { kind, name, index } = this.what;
    if (kind === "link") this.#linkActions(box, button, name);
    if (kind === "switch") {
      box.append(button("Black hole", [name, "blackhole"]), button("Power off", [name, "power_off"]));
      box.append(html("button", { type: "button", class: "good", text: "Bring back", onclick: () => this.#clearSwitch(name) }));
    }
    if (kind === "host") this.#hostActions(box, name);
    if (kind === "path") {
      const ev = this.model.state.routes.get(name)?.[0][index]?.[0] ?? 0;
      const [source, destination] = name.split(">");
      box.append(button("Lose everything on it", ["path", String(ev), "100%", source, destination]));
      box.append(button("Lose 5 %", ["path", String(ev), "5%", source, destination]));
    }
    return box;
  }

  #linkActions(box, button, name) {
    const link = this.model.linkOf.get(name);
    const loss = select("loss", LOSSES.map((share) => [share, share]));
    const slower = select("rate", SLOWER.map(([text, by]) => [text, String(Math.max(1000, Math.round(link.rate / by)))]));
    const down = button("Take down", [name, "down"], { class: "danger", id: "take-down" });
    const back = button("Bring back", [name, "up"], { class: "good", id: "bring-back" });
    this.onlyWhile.push([down, () => this.model.isUp(name)], [back, () => !this.#isWell(name)]);
    box.append(
      down,
      back,
      html("span", { class: "pair-of" }, button("Lossy", () => [name, "loss", loss.value]), loss),
      html("span", { class: "pair-of" }, button("Slow", () => [name, "rate", slower.value]), slower),
      button("Black hole", [name, "loss", "100%"], { title: "Both ends stay up and every frame is lost" }),
      button("Flap", [name, "flap", "2s", "50%"], { title: "Down for a second, up for a second" }),
    );
  }

  #hostActions(box, name) {
    const others = this.model.layout.hosts.map((host) => host.name).filter((other) => other !== name);
    const to = select("destination", others.map((other) => [other, other]));
    box.append(html("span", { class: "pair-of" }, html("button", { type: "button", text: "Write 64 MiB to", onclick: () => act({ do: "write", source: name, destination: to.value, bytes: 64 << 20 }) }), to));
    const ports = this.model.layout.links.filter((link) => link.lower === name);
    for (const link of ports) {
      const down = html("button", { type: "button", text: `Port p${link.plane} down`, onclick: () => act({ do: "fault", words: [link.name, "down"] }) });
      this.onlyWhile.push([down, () => this.model.isUp(link.name)]);
      box.append(down);
    }
    const back = html("button", { type: "button", class: "good", text: "Bring back", onclick: async () => {
      for (const link of ports) if (!this.#isWell(link.name)) await act({ do: "fault", words: [link.name, "up"] });
    } });
    this.onlyWhile.push([back, () => ports.some((link) => !this.#isWell(link.name))]);
    box.append(back);
  }

  #isWell(link) {
    return this.model.isUp(link) && !this.model.faultsOn(link).length;
  }

  async #clearSwitch(name) {
    const ids = this.model.faultsOn(name).filter(({ fault }) => ["blackhole", "power_off"].includes(fault[0])).map(({ id }) => id);
    if (ids.length) await act({ do: "fault", words: ["clear", ...ids] });
  }
}

function select(label, options) {
  return html("select", { "aria-label": label }, ...options.map(([text, value]) => html("option", { text, value })));
}
