// What is stuck, since when, who or what holds it, and what ends it.
import { deeds } from "./deeds.js";
import { element } from "./dom.js";
import { Keyed, say, show } from "./keyed.js";
import { chip, clockText, pastOf, placeOf, span } from "./parts.js";
import { Poll } from "./poll.js";
import { toolsOf } from "./tools.js";

const EVERY_MS = 1000;
const GONE = 404;
const SHOWN = 200;
const PLACES = new Set(["rule", "partition", "transaction", "group", "broker"]);

export const why = {
  name: "why",
  title: "Why",
  offered: (source) => source.live || Boolean(source.data?.why),
  show(main, source, asked) {
    const tools = toolsOf(source, () => poll?.soon());
    const about = asked.get("about");
    const trouble = element("p", { class: "trouble", role: "alert", hidden: true });
    const stuck = new Keyed(element("ul", { class: "reasons" }), keyOf, (each) => one(tools, each));
    const notes = new Keyed(element("ul", { class: "reasons" }), keyOf, (each) => one(tools, each));
    const listening = new Keyed(element("ul", { class: "reasons" }), keyOf, (each) => one(tools, each));
    const listeners = element("summary", {});
    const quiet = element("details", { class: "newest" }, listeners, listening.parent);
    const rest = element("p", { class: "rest" });
    const calm = element("p", { class: "calm" }, "Nothing is stuck: no rule keeps a request, and all transactions, groups and partitions are at rest.");
    const stuckTitle = element("h2", {}, "What is stuck");
    const notesTitle = element("h2", {}, "Worth knowing");
    const events = element("pre", { tabindex: "0", "aria-label": "The newest events" });
    const newest = element("details", { class: "newest" }, element("summary", {}, "The newest events"), events);
    const only = element("p", {}, `Only what concerns ${about}. `, element("a", { href: "#why" }, "Show all"));
    show(only, about !== null);
    main.append(trouble, only, stuckTitle, calm, stuck.parent, rest, notesTitle, notes.parent, quiet, newest, tools.said);

    function told(view) {
      show(trouble, false);
      const of = (wanted) => keyed(view.reasons.filter((each) => each.stuck === wanted)).map((each) => ({ ...each, now_ms: view.now_ms }));
      // Consumers wait for records most of the time: what comes and goes so often is shown to those who ask.
      const held = of(true);
      const known = of(false).filter(({ about: kind }) => kind !== "request");
      const listens = of(false).filter(({ about: kind }) => kind === "request");
      stuck.update(held.slice(0, SHOWN));
      notes.update(known.slice(0, SHOWN));
      const left = Math.max(0, held.length - SHOWN) + Math.max(0, known.length - SHOWN);
      show(rest, left > 0);
      say(rest, `There is more to say: ${left} sentences are not shown.`);
      show(quiet, listens.length > 0);
      say(listeners, listens.length === 1 ? "1 request waits for records" : `${listens.length} requests wait for records`);
      if (quiet.open || listens.length === 0) listening.update(listens.slice(0, SHOWN));
      show(calm, held.length === 0);
      show(notesTitle, known.length > 0);
      say(events, view.events.join("\n"));
      show(newest, view.events.length > 0);
    }

    function failed(error) {
      show(trouble, true);
      say(trouble, error.status === GONE && about === null ? `The cluster ${source.cluster} is gone: it was removed, or its lease is over.` : error.message);
    }

    let poll = null;
    if (source.live) {
      const query = about === null ? "" : `?${new URLSearchParams({ about })}`;
      poll = new Poll(() => source.get(`${source.within("why")}${query}`), told, failed, EVERY_MS);
    } else told(source.data.why);
    return { leave: () => poll?.leave() };
  },
};

/** Several reasons may be about one thing: the key has which of them it is. */
function keyed(reasons) {
  const counts = new Map();
  return reasons.map((each) => {
    const name = JSON.stringify([each.about, each.name]);
    counts.set(name, (counts.get(name) ?? 0) + 1);
    return { ...each, nth: counts.get(name) };
  });
}

const keyOf = ({ about, name, nth }) => JSON.stringify([about, name, nth]);

function one(tools, first) {
  const { source, act, guarded } = tools;
  const kind = chip();
  const sentence = element("p", { class: "sentence" });
  const since = element("span", { class: "dim" });
  const places = new Keyed(element("span", { class: "links" }), ([about, name]) => `${about} ${name}`, ([about, name]) => ({
    node: element("a", { href: placeOf(source.cluster, about, name) }, `${about} ${name}`), update() {},
  }));
  const past = first.about === "transaction" && source.live
    ? element("a", { href: pastOf(source.cluster, first.name) }, "what happened in it") : null;
  const buttons = element("div", { class: "remedies" });
  const node = element("li", { class: `reason ${first.stuck ? "stuck" : "note"}`, tabindex: "-1" },
    element("div", { class: "line" }, kind.node, since), sentence, element("p", { class: "where" }, places.parent, past), buttons);
  let seen = first;
  let made = null;
  let labels = "";

  /** The buttons are made anew only if there are others; what a button does is looked up when it is pressed. */
  function remedies(view) {
    const next = JSON.stringify(view.remedies.map(({ method, path }) => [method, path]));
    if (next !== labels) {
      labels = next;
      made = deeds(act, view.remedies.map((_, at) => ({
        label: view.remedies[at].label, main: at === 0,
        title: () => seen.remedies[at].label,
        call: () => {
          const { method, path, body } = seen.remedies[at];
          return { method, path: source.within() + path, body };
        },
      })), { guarded });
      buttons.replaceChildren(made.node);
    }
    made.update();
  }

  return {
    node,
    update(view) {
      seen = view;
      kind.update(view.about, view.stuck ? "ending" : "calm");
      say(sentence, view.sentence);
      say(since, view.since_ms === null ? "" : `since ${clockText(view.since_ms)}, for ${span(Math.max(0, view.now_ms - view.since_ms))}`);
      if (!source.live) return;
      const named = [[view.about, view.name], ...view.held_by.map(({ about, name }) => [about, name])];
      places.update([...new Map(named.filter(([about]) => PLACES.has(about)).map((each) => [each.join(" "), each])).values()]);
      remedies(view);
    },
  };
}
