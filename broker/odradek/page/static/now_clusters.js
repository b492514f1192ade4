// The cluster that is shown, and new ones.
import { remember } from "./address.js";
import { deeds } from "./deeds.js";
import { element } from "./dom.js";
import { say, show } from "./keyed.js";
import { of } from "./text.js";

/** Let the page show another cluster, or one that there still is; its frame looks which there are. */
function chosen(cluster) {
  remember({ cluster });
  dispatchEvent(new Event("clusters"));
}

/** The head of the view: which cluster it is, how clients reach it; reset and remove it. */
export function cluster({ source, act, guarded }) {
  const name = element("h2", { class: "cluster" });
  const bootstrap = element("code", {});
  const told = element("span", { class: "dim" });
  const calls = deeds(act, [
    { label: "Reset", sure: true, call: () => ({ method: "POST", path: source.within("reset") }) },
    { label: "Remove", sure: true, call: () => ({ method: "DELETE", path: source.within() }), done: () => chosen(null) },
  ], { guarded });
  return {
    node: element("div", { class: "clusterline" }, name, element("span", {}, "bootstrap ", bootstrap), told, calls.node),
    update(now) {
      say(name, now.id);
      say(bootstrap, now.bootstrap);
      say(told, `${of(now.last_event, "event")} so far`);
      calls.update();
    },
  };
}

/** A form for a new cluster. `stories` promises the names of stories. */
export function making({ act, guarded, attempt, source }) {
  const id = element("input", { id: "new-id", type: "text", pattern: "[A-Za-z0-9._\\-]{1,64}", placeholder: "a random one", input: changed });
  const brokers = element("input", { id: "new-brokers", type: "number", min: 1, max: 100, placeholder: "1", input: changed });
  const topics = element("input", { id: "new-topics", type: "text", placeholder: "orders:3 payments", input: changed });
  const story = element("select", { id: "new-story", change: changed }, element("option", { value: "" }, "none"));
  const about = element("p", { class: "dim", role: "status" });
  const keep = element("input", { id: "new-keep", type: "checkbox", checked: true, change: changed });
  const calls = deeds(act, [{ label: "Make the cluster", main: true, call: () => ({ method: "POST", path: "clusters", body: body() }), done: ({ id: made }) => chosen(made) }], { guarded });
  let stories = null;

  function body() {
    const names = topics.value.split(/[\s,]+/).filter(Boolean);
    return {
      ...(id.value !== "" && { id: id.value }),
      ...(brokers.value !== "" && { brokers: Number(brokers.value) }),
      ...(names.length > 0 && { topics: names }),
      ...(story.value !== "" && { story: story.value }),
      ...(keep.checked && { lease_s: 0 }),
    };
  }

  function changed() {
    say(about, stories?.find(({ name }) => name === story.value)?.about ?? "");
    show(about, about.textContent !== "");
    calls.update();
  }

  async function opened() {
    if (stories !== null) return;
    stories = await attempt(() => source.get("stories"));
    story.append(...(stories ?? []).map(({ name }) => element("option", { value: name }, name)));
  }

  const field = (input, label) => element("div", { class: "entry" }, element("label", { for: input.id }, label), input);
  changed();
  const node = element("details", { class: "form making", toggle: () => node.open && opened() }, element("summary", {}, "Make a cluster"),
    field(id, "Name"), field(brokers, "Brokers"), field(topics, "Topics, as NAME:PARTITIONS"), field(story, "From a story"), about,
    element("div", { class: "entry" }, element("label", {}, keep, " Keep it until it is removed")), calls.node);
  return { node, open: () => (node.open = true) };
}
