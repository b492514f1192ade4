// What the parts of *now* have in common: a titled list of rows that open, words for times, links between them.
import { address } from "./address.js";
import { element } from "./dom.js";
import { Keyed, say, show } from "./keyed.js";
import { counted, duration } from "./text.js";

const TENTH_MS = 100;

/** How long something takes or took, calm enough to be read while it grows. */
export const span = (ms) => duration(ms < 1000 ? Math.round(ms) : Math.round(ms / TENTH_MS) * TENTH_MS);

/** A time of the brokers' clock: 2026-11-26 18:54:13.120. */
export function clockText(ms) {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? `${counted(ms)} ms` : date.toISOString().replace("T", " ").replace("Z", "");
}

/** The name of a partition. */
export const partitionName = ({ topic, partition }) => `${topic}-${partition}`;

/** A link to a row of *now*: placeOf(cluster, "transaction", "till-1"). */
export const placeOf = (cluster, kind, name) => address({ now: "", cluster, at: `${kind}/${name}` });

/** A link to what happened with a transactional id. */
export const pastOf = (cluster, id) => address({ then: "", cluster, id });

/** Links to things of a kind, updated in place; so many at most, and how many more there are. */
export function links(tools, kind, most = 6) {
  const node = element("span", { class: "links" });
  const list = element("span", {});
  const rest = element("span", { class: "dim" });
  node.append(list, rest);
  const rows = new Keyed(list, (name) => name, (name) => {
    const link = element("a", { href: placeOf(tools.source.cluster, kind, name) }, name);
    return { node: link, update() {} };
  });
  return {
    node,
    update(names) {
      rows.update([...new Set(names.slice(0, most))]);
      say(rest, names.length > most ? ` and ${counted(names.length - most)} more` : "");
    },
  };
}

/** A mark with a word: a state, in a colour that only repeats it. */
export function chip() {
  const node = element("span", { class: "state" });
  return {
    node,
    update(word, tone) {
      say(node, word);
      if (node.dataset.tone !== tone) node.dataset.tone = tone;
    },
  };
}

/** A section of the view: {node, update(items, leftOut)}. `make(item)` gives a row {node, update(item)}. */
export function part({ name, title, key, make, empty, tools = [] }) {
  const id = `part-${name}`;
  const count = element("span", { class: "total" });
  const list = element("ul", { class: "things" });
  const nothing = element("p", { class: "nothing" }, empty);
  const rest = element("p", { class: "rest" });
  const node = element("section", { class: `part ${name}`, "aria-labelledby": id },
    element("h2", { id }, title, " ", count), ...tools, list, nothing, rest);
  const rows = new Keyed(list, key, make);
  return {
    node,
    rows,
    update(items, leftOut = 0) {
      rows.update(items);
      say(count, items.length + leftOut === 0 ? "" : counted(items.length + leftOut));
      show(nothing, items.length === 0);
      show(rest, leftOut > 0);
      say(rest, leftOut > 0 ? `${counted(leftOut)} more are not shown here: search for what you look for.` : "");
    },
  };
}

/** Things side by side: the spaces between them are not seen, but read and copied. */
export const spaced = (nodes) => nodes.flatMap((node, at) => (at === 0 ? [node] : [" ", node]));

/** A row: a line that opens, with more below, and buttons beside it. `more` is filled when it is open. */
export function row({ kind, line, more = [], acts = [], opened = () => {} }) {
  const below = element("div", { class: "more" }, ...more);
  const details = element("details", { toggle: () => details.open && opened() }, element("summary", {}, ...spaced(line)), below);
  return { node: element("li", { class: `thing ${kind}`, tabindex: "-1" }, details, ...acts), details };
}

/** Words in two columns, updated in place: facts(["State", "Ongoing"], …). */
export function facts() {
  const node = element("dl", { class: "words" });
  const rows = new Keyed(node, ([name]) => name, ([name]) => {
    const value = element("dd", {});
    const made = element("div", {}, element("dt", {}, name), value);
    return {
      node: made,
      update([, text]) {
        if (text instanceof Node) {
          if (value.firstChild !== text) value.replaceChildren(text);
        } else say(value, text);
      },
    };
  });
  return { node, update: (pairs) => rows.update(pairs.filter(([, text]) => text !== null && text !== undefined && text !== "")) };
}
