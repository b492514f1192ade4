// Transactional ids as their coordinators have them.
import { colourOf } from "./colours.js";
import { deeds } from "./deeds.js";
import { element } from "./dom.js";
import { put, say, show } from "./keyed.js";
import { chip, clockText, facts, links, part, partitionName, pastOf, row, span } from "./parts.js";

const TONES = {
  Ongoing: "busy", PrepareCommit: "ending", PrepareAbort: "ending", PrepareEpochFence: "ending",
  CompleteCommit: "good", CompleteAbort: "bad", Empty: "calm", Dead: "calm",
};
const RESTING = new Set(["Empty", "CompleteCommit", "CompleteAbort", "Dead"]);

export function transactions(tools) {
  const all = part({
    name: "transactions", title: "Transactions", key: (each) => each.transactional_id, make: (each) => one(tools, each),
    empty: "No coordinator knows a transactional id.",
  });
  return { ...all, update: (now) => all.update(now.transactions.map((each) => ({ ...each, now })), now.left_out.transactions) };
}

function one(tools, { transactional_id: id }) {
  const { source, act, guarded } = tools;
  let seen = null;
  const wait = () => (seen === null || seen.aborted_at_ms === null ? 0 : seen.aborted_at_ms - seen.now.time.now_ms);
  const state = chip();
  const producer = element("span", { class: "dim" });
  const age = element("span", {});
  const left = element("progress", { "aria-label": `Time that ${id} has left`, max: 1 });
  const leftText = element("span", { class: "dim" });
  const places = links(tools, "partition");
  const owed = links(tools, "partition");
  const owedText = element("span", { class: "owed" }, "owes markers to ", owed.node);
  const told = facts();
  const epoch = element("input", { type: "number", min: 0, max: 32767, value: 0, "aria-label": `Producer epoch of ${id}`, input: () => calls.update() });
  const to = element("select", { "aria-label": `Broker that coordinates ${id}`, change: () => calls.update() });
  const timeout = deeds(act, [{
    label: "To its timeout", call: () => (wait() > 0 ? { method: "POST", path: source.within("time"), body: { advance_ms: wait() } } : null),
  }], { guarded });
  const calls = deeds(act, [
    { label: "Move coordinator", call: () => ({ method: "POST", path: source.within("coordinators", "transaction", id, "move"), body: to.value === "" ? {} : { to: Number(to.value) } }) },
    { label: "Set epoch", call: () => ({ method: "POST", path: source.within("producers", id, "epoch"), body: { epoch: Number(epoch.value) } }), when: () => RESTING.has(seen?.state) },
  ], { guarded });
  const epochLabel = element("label", {}, "Epoch ", epoch);

  const made = row({
    kind: "transaction",
    line: [element("span", { class: `name ${colourOf(id)}` }, id), state.node, producer, age],
    more: [told.node, element("div", { class: "inputs" }, element("label", {}, "Coordinator ", to), epochLabel), calls.node,
      element("p", {}, element("a", { href: pastOf(source.cluster, id) }, "What happened in it"))],
    acts: [element("div", { class: "beside" }, element("span", { class: "where" }, places.node, owedText), element("span", { class: "wait" }, left, leftText), timeout.node)],
  });

  function update(view) {
    seen = view;
    const { now } = view;
    const rests = RESTING.has(view.state);
    state.update(view.state, TONES[view.state] ?? "calm");
    say(producer, `producer ${view.producer_id}, epoch ${view.producer_epoch}`);
    say(age, view.start_ms >= 0 && !rests ? `open for ${span(now.time.now_ms - view.start_ms)}` : "");
    places.update(view.partitions.map(partitionName));
    owed.update(view.owed_markers.map(partitionName));
    show(owedText, view.owed_markers.length > 0);
    show(left.parentNode, wait() > 0);
    if (wait() > 0) {
      put(left, "value", Math.min(1, wait() / view.timeout_ms).toFixed(3));
      say(leftText, `aborted in ${span(wait())}`);
    }
    told.update([
      ["Coordinator", `broker ${view.coordinator}`],
      ["Timeout", span(view.timeout_ms)],
      ["Began", view.start_ms >= 0 ? clockText(view.start_ms) : ""],
      ["Last change", clockText(view.last_update_ms)],
      ["Partitions", view.partitions.map(partitionName).join(", ")],
    ]);
    choices(to, now.brokers, "the next in sync");
    show(epochLabel, rests);
    calls.update();
    timeout.update();
  }

  return { node: made.node, update };
}

/** The brokers as choices of a select, and none of them. */
export function choices(select, brokers, none) {
  const ids = ["", ...brokers.map(({ id }) => String(id))];
  if ([...select.options].map(({ value }) => value).join() === ids.join()) return;
  const chosen = select.value;
  select.replaceChildren(...ids.map((id) => element("option", { value: id }, id === "" ? none : `broker ${id}`)));
  select.value = ids.includes(chosen) ? chosen : "";
}
