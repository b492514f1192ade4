// Groups as their coordinators have them, with members and committed offsets.
import { deeds } from "./deeds.js";
import { element } from "./dom.js";
import { Keyed, say, show } from "./keyed.js";
import { choices } from "./now_transactions.js";
import { chip, facts, part, partitionName, row } from "./parts.js";
import { counted, of } from "./text.js";

const TONES = { Stable: "good", Empty: "calm", Dead: "calm" };
const MOST = 200;

export function groups(tools) {
  const all = part({ name: "groups", title: "Groups", key: (each) => each.group_id, make: (each) => one(tools, each), empty: "There is no group." });
  return { ...all, update: (now) => all.update(now.groups.map((each) => ({ ...each, now })), now.left_out.groups) };
}

function cells(count) {
  const made = Array.from({ length: count }, () => element("td", {}));
  return { node: element("tr", {}, ...made), update: (texts) => texts.forEach((text, at) => say(made[at], text)) };
}

function table(names, rows, key) {
  const node = element("table", {}, element("thead", {}, element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name)))), element("tbody", {}));
  const keyed = new Keyed(node.tBodies[0], key, (item) => {
    const made = cells(names.length);
    return { node: made.node, update: (next) => made.update(rows(next)), item };
  });
  return { node, keyed };
}

function one(tools, { group_id: id }) {
  const { source, act, guarded } = tools;
  const state = chip();
  const size = element("span", { class: "dim" });
  const told = facts();
  const rest = element("p", { class: "rest" });
  const members = table(["Member", "Client", "Host", "Instance"], (each) => [each.member_id, each.client_id, each.client_host, each.group_instance_id ?? ""], (each) => each.member_id);
  const offsets = table(["Partition", "Offset", "Behind", "Metadata"], (each) => [partitionName(each), each.offset, each.behind, each.metadata ?? ""], partitionName);
  const to = element("select", { "aria-label": `Broker that coordinates group ${id}`, change: () => calls.update() });
  const calls = deeds(act, [{
    label: "Move coordinator",
    call: () => ({ method: "POST", path: source.within("coordinators", "group", id, "move"), body: to.value === "" ? {} : { to: Number(to.value) } }),
  }], { guarded });
  const made = row({
    kind: "group",
    line: [element("span", { class: "name" }, id), state.node, size],
    more: [told.node, members.node, offsets.node, rest, element("div", { class: "inputs" }, element("label", {}, "Coordinator ", to), calls.node)],
  });

  return {
    node: made.node,
    update(view) {
      const ends = new Map(view.now.partitions.map((each) => [partitionName(each), each.high_watermark]));
      const committed = view.offsets.map((each) => {
        const end = ends.get(partitionName(each));
        return { ...each, behind: end === undefined ? "" : Math.max(0, end - each.offset) };
      });
      const behind = committed.reduce((sum, each) => sum + (each.behind || 0), 0);
      state.update(view.state, TONES[view.state] ?? "ending");
      say(size, `${of(view.members.length, "member")}${committed.length > 0 ? `, ${counted(behind)} behind` : ""}`);
      told.update([["Type", view.type], ["Protocol", view.protocol_type], ["Coordinator", `broker ${view.coordinator}`]]);
      show(members.node, view.members.length > 0);
      show(offsets.node, committed.length > 0);
      members.keyed.update(view.members.slice(0, MOST));
      offsets.keyed.update(committed.slice(0, MOST));
      const left = Math.max(0, view.members.length - MOST) + Math.max(0, committed.length - MOST);
      show(rest, left > 0);
      say(rest, `${counted(left)} more members and offsets are not shown: GET ${source.within("groups", id)} has all.`);
      choices(to, view.now.brokers, "the next in sync");
      calls.update();
    },
  };
}
