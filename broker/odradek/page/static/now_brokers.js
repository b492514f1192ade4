// Brokers, what they do, and the features of the cluster.
import { deeds } from "./deeds.js";
import { element } from "./dom.js";
import { put, say, show } from "./keyed.js";
import { chip, part, row, spaced } from "./parts.js";
import { of } from "./text.js";

const TONES = { running: "good", paused: "ending", stopped: "bad" };

export function brokers(tools) {
  const { source, act, guarded } = tools;
  const all = part({ name: "brokers", title: "Brokers", key: (each) => String(each.id), make: (each) => one(tools, each), empty: "There is no broker." });
  const calls = deeds(act, [{ label: "Disconnect all clients", call: () => ({ method: "POST", path: source.within("disconnect") }) }], { guarded });
  all.node.append(calls.node);
  return { ...all, update: (now) => all.update(now.brokers) };
}

function one({ source, act, guarded }, { id }) {
  let seen = null;
  const state = chip();
  const fenced = chip();
  const controller = element("span", { class: "badge" }, "controller");
  const told = element("span", { class: "dim" });
  const address = element("span", { class: "dim" });
  const deed = (name, body) => () => ({ method: "POST", path: source.within("brokers", id, name), ...(body && { body }) });
  const is = (...states) => () => states.includes(seen?.state);
  const calls = deeds(act, [
    { label: "Start", main: true, when: is("stopped"), call: deed("start") },
    { label: "Resume", main: true, when: is("paused"), call: deed("resume") },
    { label: "Pause", when: is("running"), call: deed("pause") },
    { label: "Stop", when: is("running", "paused"), call: deed("stop", { cleanly: true }) },
    { label: "Crash", when: is("running", "paused"), call: deed("stop", {}) },
  ], { guarded });
  const node = element("li", { class: "thing broker", tabindex: "-1" },
    element("div", { class: "line" }, ...spaced([element("span", { class: "name" }, `Broker ${id}`), state.node, fenced.node, controller, address, told])), calls.node);
  return {
    node,
    update(view) {
      seen = view;
      state.update(view.state, TONES[view.state]);
      fenced.update("fenced", "bad");
      show(fenced.node, view.fenced && view.state !== "stopped");
      show(controller, view.controller);
      say(address, `${view.host}:${view.port}`);
      say(told, view.state === "stopped" ? "" : `leads ${view.leads}, ${of(view.connections, "client connection")}`);
      put(node, "data-state", view.state);
      calls.update();
    },
  };
}

export function features(tools) {
  const all = part({ name: "features", title: "Features", key: (each) => each.name, make: (each) => feature(tools, each), empty: "This Kafka has no features." });
  return { ...all, update: (now) => all.update(now.features) };
}

function feature({ source, act, guarded }, { name }) {
  let seen = null;
  const level = element("span", { class: "dim" });
  const wanted = element("input", { type: "number", "aria-label": `Level of ${name}`, input: () => calls.update() });
  const calls = deeds(act, [{
    label: "Finalize", call: () => ({ method: "POST", path: source.within("features", name), body: { level: Number(wanted.value) } }),
    when: () => seen !== null && wanted.value !== "" && Number(wanted.value) !== seen.level,
  }], { guarded });
  const range = element("span", { class: "dim" });
  const made = row({
    kind: "feature", line: [element("span", { class: "name" }, name), level],
    more: [element("div", { class: "inputs" }, element("label", {}, "Level ", wanted), range, calls.node)],
  });
  return {
    node: made.node,
    update(view) {
      if (seen === null || (seen.level !== view.level && Number(wanted.value) === seen.level)) wanted.value = view.level;
      seen = view;
      put(wanted, "min", view.lowest);
      put(wanted, "max", view.highest);
      say(level, `level ${view.level}`);
      say(range, `brokers support ${view.lowest} to ${view.highest}`);
      calls.update();
    },
  };
}
