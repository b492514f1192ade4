// Partitions as their leaders have them, each as a strip of its newest batches.
import { colourOf } from "./colours.js";
import { deeds } from "./deeds.js";
import { element } from "./dom.js";
import { say, show } from "./keyed.js";
import { choices } from "./now_transactions.js";
import { chip, clockText, facts, links, part, partitionName, row } from "./parts.js";
import { fates, strip } from "./strip.js";
import { counted } from "./text.js";

const ALL = 1000;

/** The key of a partition that nobody leads: it has another row than one that has a leader. */
export const lostKey = (name) => `${name} without a leader`;

export function partitions(tools) {
  const legend = element("p", { class: "legend" },
    ...["committed", "open", "aborted", "plain"].map((fate) => element("span", { class: `key ${fate}` }, fate === "plain" ? "no transaction" : fate)),
    element("span", { class: "key lso" }, "last stable offset"), element("span", { class: "key hw" }, "high watermark"));
  const all = part({
    name: "partitions", title: "Partitions", key: (each) => (each.lost ? lostKey(partitionName(each)) : partitionName(each)), make: (each) => (each.lost ? lost(tools, each) : one(tools, each)),
    empty: "There is no topic yet.", tools: [legend],
  });
  return {
    ...all,
    update(now) {
      const ids = new Map(now.transactions.map((each) => [each.producer_id, each.transactional_id]));
      const led = now.partitions.map((each) => ({ ...each, now, ids }));
      const leaderless = now.leaderless.map((each) => ({ ...each, now, lost: true }));
      show(legend, led.length > 0);
      all.update([...leaderless, ...led], (now.left_out.partitions ?? 0) + (now.left_out.leaderless ?? 0));
    },
  };
}

/** A partition that nobody leads. */
function lost(tools, view) {
  const state = chip();
  state.update("no leader", "bad");
  const line = [element("span", { class: "name" }, partitionName(view)), state.node];
  return { ...row({ kind: "partition", line, more: [element("p", {}, "No broker that is in sync runs.")] }), update() {} };
}

function one(tools, first) {
  const { source, act, guarded } = tools;
  const name = partitionName(first);
  let drawnOf = "";
  let whole = null;
  let seen = null;
  const leader = element("span", { class: "dim" });
  const offsets = element("span", { class: "offsets" });
  const lag = chip();
  const picture = element("div", { class: "track" });
  const open = links(tools, "transaction");
  const told = facts();
  const table = element("tbody", {});
  const to = element("select", { "aria-label": `Broker that leads ${name}`, change: () => calls.update() });
  const unclean = element("input", { type: "checkbox", change: () => calls.update() });
  const calls = deeds(act, [{
    label: "Move leader",
    call: () => ({
      method: "POST", path: source.within("partitions", first.topic, first.partition, "leader"),
      body: { ...(to.value !== "" && { to: Number(to.value) }), ...(unclean.checked && { unclean: true }) },
    }),
  }], { guarded });
  const more = element("button", { type: "button", class: "quiet", click: all }, `Show up to ${counted(ALL)} batches`);

  const made = row({
    kind: "partition",
    line: [element("span", { class: "name" }, name), leader, offsets, lag.node],
    more: [
      told.node,
      element("div", { class: "inputs" }, element("label", {}, "Leader ", to), element("label", {}, unclean, " unclean"), calls.node),
      element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Batches of ${name}` },
        element("table", {}, element("thead", {}, element("tr", {}, ...["Offsets", "Records", "Producer", "Epoch", "Sequence", "What"].map((each) => element("th", { scope: "col" }, each)))), table)),
      more,
    ],
    acts: [picture],
    opened: () => rows(),
  });

  async function all() {
    whole = await tools.attempt(() => source.get(`${source.within("partitions", first.topic, first.partition)}?batches=${ALL}`));
    rows();
  }

  const whoOf = (batch) => (batch.producer_id < 0 ? null : (seen.ids.get(batch.producer_id) ?? `producer ${batch.producer_id}`));
  const classOf = (batch) => (batch.producer_id < 0 ? "" : colourOf(whoOf(batch)));

  function rows() {
    const view = whole ?? seen;
    const fate = fates(view.last_batches, view.open_transactions);
    table.replaceChildren(...[...view.last_batches].reverse().map((batch) => element("tr", {},
      ...[
        batch.base_offset === batch.last_offset ? batch.base_offset : `${batch.base_offset} – ${batch.last_offset}`,
        batch.records, whoOf(batch) ?? "", batch.producer_id < 0 ? "" : batch.producer_epoch,
        batch.base_sequence < 0 ? "" : batch.base_sequence,
        batch.marker !== null ? `${batch.marker} marker` : batch.records === 0 ? "no records" : fate.get(batch) === "plain" ? "" : fate.get(batch),
      ].map((text) => element("td", {}, String(text))))));
  }

  function update(view) {
    seen = view;
    const { log_start_offset: start, last_stable_offset: lso, high_watermark: hw, log_end_offset: end } = view;
    say(leader, `broker ${view.leader}, epoch ${view.leader_epoch}`);
    say(offsets, `start ${start} · LSO ${lso} · HW ${hw}${end === hw ? "" : ` · end ${end}`}`);
    show(lag.node, lso < hw);
    if (lso < hw) lag.update(`read_committed stops at ${lso}`, "ending");
    const key = JSON.stringify([view.last_batches, view.open_transactions, lso, hw, [...new Set(view.last_batches.map(whoOf))]]);
    if (key !== drawnOf) {
      drawnOf = key;
      show(picture, view.last_batches.length > 0);
      picture.replaceChildren(strip(view, whoOf, classOf));
      if (made.details.open && whole === null) rows();
    }
    choices(to, view.now.brokers.filter(({ id }) => view.replicas.includes(id)), "the next in sync");
    open.update(view.open_transactions.map((each) => view.ids.get(each.producer_id)).filter(Boolean));
    const unknown = view.open_transactions.filter((each) => !view.ids.has(each.producer_id)).map((each) => `producer ${each.producer_id} since offset ${each.first_offset}`);
    told.update([
      ["Open here", view.open_transactions.length > unknown.length ? open.node : ""],
      ["Open, not shown above", unknown.join(", ")],
      ["Verified now (KIP-890)", view.guards.map((each) => `producer ${each.producer_id}, epoch ${each.producer_epoch}, since ${clockText(each.since_ms)}`).join(", ")],
      ["Replicas", view.replicas.join(", ")],
      ["In sync", view.isr.join(", ")],
      ["Log", `offsets ${start} to ${end}`],
    ]);
    calls.update();
  }

  return { node: made.node, update };
}
