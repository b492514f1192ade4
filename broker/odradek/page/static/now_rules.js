// Rules: what they have seen, hit and hold; a plan to arm.
import { deeds } from "./deeds.js";
import { element } from "./dom.js";
import { Keyed, say, show } from "./keyed.js";
import { chip, facts, part, row } from "./parts.js";
import { counted } from "./text.js";

const EXAMPLES = {
  "Hold the markers of the next commit": { name: "markers", match: { api: "WRITE_TXN_MARKERS" }, act: { hold: true } },
  "Lose the answer to the next EndTxn": { name: "lost-answer", match: { api: "END_TXN", from: "client" }, act: { disconnect: "after" }, expect: { hits: 1 } },
  "Delay every Produce by 200 ms": { name: "slow-produce", match: { api: "PRODUCE", from: "client" }, when: { times: "all" }, act: { delay_ms: 200 } },
  "Refuse the next AddPartitionsToTxn": { name: "refused", match: { api: "ADD_PARTITIONS_TO_TXN", from: "client" }, act: { error: "COORDINATOR_NOT_AVAILABLE" } },
};

export function rules(tools) {
  const { source, act, guarded } = tools;
  const all = part({
    name: "rules", title: "Rules", key: (each) => each.name, make: (each) => one(tools, each),
    empty: "No rule is armed: requests are served as they come.",
  });
  const clear = deeds(act, [{ label: "Remove all rules", sure: true, call: () => ({ method: "DELETE", path: source.within("rules") }) }], { guarded });
  all.node.append(clear.node, arming(tools));
  return {
    ...all,
    update(now) {
      all.update(now.rules, now.left_out.rules);
      show(clear.node, now.rules.length > 1);
    },
  };
}

/** A rule, a list of rules or a plan, as JSON. */
function arming({ source, act, guarded }) {
  const text = element("textarea", { rows: 9, spellcheck: "false", id: "plan", "aria-describedby": "plan-wrong", input: check });
  const wrong = element("p", { id: "plan-wrong", class: "wrong", role: "status" });
  const example = element("select", { id: "example", change: fill }, ...Object.keys(EXAMPLES).map((name) => element("option", { value: name }, name)));
  const calls = deeds(act, [{ label: "Arm", main: true, call: () => (read() === undefined ? null : { method: "POST", path: source.within("rules"), body: read() }) }], { guarded });

  function read() {
    try {
      return JSON.parse(text.value);
    } catch {
      return undefined;
    }
  }

  function check() {
    say(wrong, read() === undefined ? "This is no JSON yet." : "");
    calls.update();
  }

  function fill() {
    text.value = JSON.stringify(EXAMPLES[example.value], null, 2);
    check();
  }

  fill();
  return element("details", { class: "form arming" }, element("summary", {}, "Arm a rule or a plan"),
    element("label", { for: "example" }, "Begin with"), example,
    element("label", { for: "plan" }, "A rule, a list of rules or a plan, as JSON"), text, wrong, calls.node);
}

/** What a rule says, in a line: END_TXN from client → disconnect after. */
function ruleText({ match = {}, when = {}, act = {}, expect }) {
  const { api = "any request", ...conditions } = match;
  const worded = (pairs) => Object.entries(pairs).map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`);
  const acts = Object.entries(act).map(([name, value]) => (value === true ? name : `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`));
  return [
    [Array.isArray(api) ? api.join(", ") : api, ...worded(conditions)].join(" · "),
    acts.length === 0 ? "watch" : acts.join(", "),
    ...(Object.keys(when).length === 0 ? [] : [worded(when).join(", ")]),
    ...(expect === undefined || expect === null ? [] : [`expects ${typeof expect === "object" ? worded(expect).join(" ") : expect}`]),
  ];
}

const requestText = ({ api, version, client_id: client, sender, broker, ids = {} }) =>
  `${api} v${version} of ${client ?? sender} at broker ${broker}${Object.entries(ids).map(([kind, values]) => ` ${kind}=${values.join(",")}`).join("")}`;

function one({ source, act, guarded }, { name, rule }) {
  let seen = null;
  const held = chip();
  const counts = element("span", { class: "dim" });
  const lacks = chip();
  const unmet = element("p", { class: "unmet" });
  const requests = new Keyed(element("ul", { class: "plainlist" }), ({ key }) => key, textRow);
  const near = new Keyed(element("ul", { class: "plainlist" }), ({ key }) => key, textRow);
  const requestsTitle = element("h3", {}, "Its last requests");
  const nearTitle = element("h3", {}, "Near misses");
  const told = facts();
  const [match, does, ...rest] = ruleText(rule);
  told.update([["Matches", match], ["Does", does], ["When", rest.join("; ")]]);
  const calls = deeds(act, [
    { label: "Release", main: true, when: () => seen?.held > 0, call: () => ({ method: "POST", path: source.within("rules", name, "release"), body: {} }) },
    { label: "Remove", call: () => ({ method: "DELETE", path: source.within("rules", name) }) },
  ], { guarded });
  const made = row({
    kind: "rule",
    line: [element("span", { class: "name" }, name), held.node, lacks.node, counts, element("span", { class: "dim ruletext" }, `${match} → ${does}`)],
    more: [told.node, unmet, requestsTitle, requests.parent, nearTitle, near.parent], acts: [calls.node],
  });

  return {
    node: made.node,
    update(view) {
      seen = view;
      show(held.node, view.held > 0);
      held.update(`holds ${counted(view.held)}`, "ending");
      say(counts, `${counted(view.hits)} hit${view.hits === 1 ? "" : "s"} of ${counted(view.matched)}`);
      show(lacks.node, view.unmet !== null);
      lacks.update("lacks what it expects", "ending");
      show(unmet, view.unmet !== null);
      say(unmet, view.unmet ?? "");
      const reasons = view.requests.map((each) => ({ text: requestText(each) + (each.passed ? `: passed because of ${each.passed}` : ""), key: `${each.at_ms} ${each.broker} ${each.correlation_id} ${each.client_id}` }));
      const misses = view.near_misses.map((each) => ({ text: `${requestText(each.request)}: ${each.failed.join("; ")}`, key: `${each.request.at_ms} ${each.request.broker} ${each.request.correlation_id} ${each.request.client_id}` }));
      requests.update(reasons.reverse());
      near.update(misses.reverse());
      show(requestsTitle, reasons.length > 0);
      show(nearTitle, misses.length > 0);
      calls.update();
    },
  };
}

function textRow({ text }) {
  return { node: element("li", {}, text), update() {} };
}
