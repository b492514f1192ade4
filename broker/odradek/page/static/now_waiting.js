// Requests that wait: what for, since when, and because of which rule.
import { deeds } from "./deeds.js";
import { element } from "./dom.js";
import { Keyed, say, show } from "./keyed.js";
import { chip, links, part, spaced, span } from "./parts.js";

const LISTENS = new Set(["FETCH", "SHARE_FETCH"]);
const TONES = { held: "ending", delayed: "busy", dropped: "bad" };

export function waiting(tools) {
  const listening = new Keyed(element("ul", { class: "things" }), keyOf, (each) => one(tools, each));
  const listeners = element("summary", {});
  const quiet = element("details", { class: "listening" }, listeners, listening.parent);
  const all = part({
    name: "waiting", title: "Requests that wait", key: keyOf, make: (each) => one(tools, each),
    empty: "No request waits for anything but records.",
  });
  all.node.append(quiet);
  return {
    ...all,
    update(now) {
      const views = now.waiting.map((each) => ({ ...each, now }));
      const listens = views.filter((each) => each.kept === null && LISTENS.has(each.api));
      all.update(views.filter((each) => !listens.includes(each)), now.left_out.waiting);
      show(quiet, listens.length > 0);
      say(listeners, `${listens.length} fetch${listens.length === 1 ? "" : "es"} wait${listens.length === 1 ? "s" : ""} for records`);
      if (quiet.open || listens.length === 0) listening.update(listens);
    },
  };
}

/** A connection has one request that waits, and its correlation ids go up. */
const keyOf = ({ broker, client_id: client, correlation_id: id, api, from_broker: inside, ids }) =>
  JSON.stringify([broker, client, id, api, inside, ids]);

function one(tools, first) {
  const { source, act, guarded } = tools;
  let seen = first;
  const state = chip();
  const why = element("span", {});
  const age = element("span", { class: "dim" });
  const transactions = links(tools, "transaction");
  const rule = links(tools, "rule");
  const heldAt = { method: "POST", path: first.rule === null ? "" : source.within("rules", first.rule, "release") };
  const wait = () => (seen.deadline_ms === null ? 0 : seen.deadline_ms - seen.now.time.now_ms);
  const calls = deeds(act, [
    { label: "Release", main: true, when: () => seen.kept === "held", call: () => ({ ...heldAt, body: {} }) },
    { label: "Release one", when: () => seen.kept === "held" && heldBy(seen) > 1, call: () => ({ ...heldAt, body: { count: 1 } }) },
    { label: "To its time", when: () => seen.kept !== "held", call: () => (wait() > 0 ? { method: "POST", path: source.within("time"), body: { advance_ms: wait() } } : null) },
    { label: "Remove the rule", when: () => seen.kept !== null, call: () => ({ method: "DELETE", path: source.within("rules", first.rule) }) },
  ], { guarded });
  const who = first.from_broker ? "another broker" : (first.client_id ?? "a client");
  const node = element("li", { class: "thing waiting", tabindex: "-1" },
    element("div", { class: "line" }, ...spaced([element("span", { class: "name" }, `${first.api} v${first.version}`), state.node,
      element("span", {}, `of ${who} at broker ${first.broker}`), transactions.node, why, rule.node, age])),
    calls.node);

  return {
    node,
    update(view) {
      seen = view;
      show(state.node, view.kept !== null);
      state.update(view.kept ?? "", TONES[view.kept] ?? "calm");
      say(why, view.kept === null ? `waits for ${view.what}` : view.kept === "dropped" ? "is never answered: it was dropped by rule" : `by rule`);
      rule.update(view.rule === null ? [] : [view.rule]);
      transactions.update((view.ids.transactional_id ?? []).map(String));
      say(age, `for ${span(view.age_ms)}${wait() > 0 ? `, ${span(wait())} longer at most` : ""}`);
      calls.update();
    },
  };
}

const heldBy = ({ now, rule }) => now.rules.find(({ name }) => name === rule)?.held ?? 0;
