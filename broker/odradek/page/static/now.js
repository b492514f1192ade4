// What a cluster does now: everything that its brokers know, twice a second, and buttons for what the hub can do to it.
import { remember } from "./address.js";
import { element } from "./dom.js";
import { say, show } from "./keyed.js";
import { brokers, features } from "./now_brokers.js";
import { clock } from "./now_clock.js";
import { cluster, making } from "./now_clusters.js";
import { groups } from "./now_groups.js";
import { lostKey, partitions } from "./now_partitions.js";
import { rules } from "./now_rules.js";
import { transactions } from "./now_transactions.js";
import { waiting } from "./now_waiting.js";
import { Poll } from "./poll.js";
import { toolsOf } from "./tools.js";

const GONE = 404;
const FLASH_MS = 1600;
const KINDS = { transaction: "transactions", partition: "partitions", rule: "rules", group: "groups", broker: "brokers" };

export const now = {
  name: "now",
  title: "Now",
  withoutCluster: true,
  offered: (source) => source.live,
  show(main, source, asked) {
    const tools = toolsOf(source, () => poll?.soon());
    const found = { text: asked.get("find") ?? "" };
    const search = element("input", {
      type: "search", id: "find", value: found.text, placeholder: "a transactional id, partition, group, client, rule", autocomplete: "off", spellcheck: "false",
      input: () => look(search.value),
    });
    const trouble = element("p", { class: "trouble", role: "alert", hidden: true });
    const make = making(tools);
    const parts = { transactions, partitions, waiting, groups, clock, brokers, rules, features };
    const head = cluster(tools);
    const made = Object.fromEntries(Object.entries(parts).map(([name, part]) => [name, part(tools)]));
    const body = element("div", { class: "now" },
      element("div", { class: "wide" }, ...["waiting", "transactions", "partitions", "groups"].map((name) => made[name].node)),
      element("div", { class: "narrow" }, ...["clock", "brokers", "rules", "features"].map((name) => made[name].node)));
    const none = element("p", { class: "nobody" }, "This hub runs no cluster. It appears here when a test makes one; or make one here.");
    const shown = element("div", { hidden: true }, element("div", { class: "headline" }, head.node, element("div", { class: "finder" }, element("label", { for: "find" }, "Find "), search)), body);
    main.append(trouble, none, shown, make.node, tools.said);
    let wanted = asked.get("at");
    let poll = null;

    function look(text) {
      found.text = text;
      remember({ find: text || null });
      poll?.soon();
    }

    function told(view) {
      show(trouble, false);
      show(shown, true);
      body.classList.remove("old");
      head.update(view);
      for (const part of Object.values(made)) part.update(view);
      if (wanted !== null) point();
    }

    /** Go to the row that the address names; search for it if it is not among those that are shown. */
    function point() {
      const [kind, name] = split(wanted);
      const rows = made[KINDS[kind]]?.rows;
      const row = (rows?.get(name) ?? rows?.get(lostKey(name)))?.node;
      if (row === undefined && made[KINDS[kind]] !== undefined && found.text !== name) {
        search.value = name;
        look(name);
        return;
      }
      wanted = null;
      remember({ at: null });
      if (row === undefined) {
        tools.tell(`There is no ${kind} ${name} now.`, true);
        return;
      }
      row.scrollIntoView({ block: "center" });
      row.focus({ preventScroll: true });
      row.classList.add("pointed");
      setTimeout(() => row.classList.remove("pointed"), FLASH_MS);
    }

    function failed(error) {
      show(trouble, true);
      body.classList.add("old");
      say(trouble, error.status === GONE ? `The cluster ${source.cluster} is gone: it was removed, or its lease is over.` : `${error.message} What is below is as it was last; this page goes on asking.`);
    }

    show(none, source.cluster === null);
    if (source.cluster === null) make.open();
    else {
      const query = () => new URLSearchParams({ ...(found.text !== "" && { find: found.text }) });
      poll = new Poll(() => source.get(`${source.within("now")}?${query()}`), told, failed);
    }
    return {
      asked(next) {
        wanted = next.get("at");
        const text = next.get("find") ?? found.text;
        if (text !== found.text) search.value = found.text = text;
        poll?.soon();
      },
      leave: () => poll?.leave(),
    };
  },
};

function split(at) {
  const slash = at.indexOf("/");
  return [at.slice(0, slash), at.slice(slash + 1)];
}
