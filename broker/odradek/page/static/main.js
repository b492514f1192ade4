// The frame of the page: its views, which of them the address names (#now, #then, #why, #story=NAME …), the cluster, the token.
import { address, asked, remember } from "./address.js";
import { element } from "./dom.js";
import { source } from "./source.js";
import { short } from "./text.js";
import { VIEWS } from "./views.js";

const CLUSTERS_EVERY_MS = 3000;
const main = document.querySelector("main");
const nav = document.querySelector("nav");
const bar = document.querySelector("#bar");
let shown = { view: null, cluster: null, running: null };

// ---------------------------------------------------------------------- views

function route() {
  const wanted = asked();
  const [first] = wanted.keys();
  const offered = VIEWS.filter((view) => view.offered(source));
  const view = offered.find(({ name }) => name === first) ?? offered[0] ?? null;
  nav.replaceChildren(...offered.map((each) => link(each, view)));
  document.title = [view?.title, source.cluster, "Odradek"].filter(Boolean).join(" · ");
  if (view !== null && view === shown.view && (view.stays || source.cluster === shown.cluster) && shown.running?.asked) {
    shown.cluster = source.cluster;
    shown.running.asked(wanted);
    return;
  }
  shown.running?.leave?.();
  main.replaceChildren();
  shown = { view, cluster: source.cluster, running: null };
  if (source.live && source.cluster === null && !view?.withoutCluster) nobody();
  else if (view === null) main.append(element("p", { class: "empty" }, "There is nothing to show in this page."));
  else shown.running = view.show(main, source, wanted) ?? null;
}

const link = ({ name, title }, current) =>
  element("a", {
    href: address({ [name]: "", cluster: source.cluster }),
    ...(name === current?.name && { "aria-current": "page" }),
  }, title);

function nobody() {
  main.append(
    element("section", { class: "empty" },
      element("h2", {}, "No cluster yet"),
      element("p", {}, "This hub runs no cluster. One appears here as soon as a test makes it, or with ",
        element("code", {}, "odradek ctl make --topic orders"), ".")),
  );
}

// ---------------------------------------------------------------------- the cluster

const picker = element("select", { "aria-label": "Cluster", change: () => choose(picker.value) });

function choose(cluster) {
  remember({ cluster });
  source.cluster = cluster;
  picker.value = cluster ?? "";
  route();
}

async function clusters() {
  const ids = (await source.get("clusters")).map(({ id }) => id);
  const named = asked().get("cluster");
  if (named !== null && !ids.includes(named)) ids.push(named);
  const before = [...picker.options].map(({ value }) => value);
  if (before.join("\n") !== ids.join("\n")) picker.replaceChildren(...ids.map((id) => element("option", { value: id }, id)));
  picker.hidden = ids.length === 0;
  const chosen = named ?? (ids.includes(source.cluster) ? source.cluster : ids[0] ?? null);
  picker.value = chosen ?? "";
  return chosen;
}

let later;

/** Look which clusters there are, and show the chosen one. */
async function look() {
  try {
    const chosen = await clusters();
    trouble(null);
    if (chosen !== source.cluster || shown.running === null) {
      source.cluster = chosen;
      route();
    }
  } catch (error) {
    trouble(error.message);
  }
}

async function watchClusters() {
  await look();
  later = setTimeout(() => (document.hidden ? document.addEventListener("visibilitychange", watchClusters, { once: true }) : watchClusters()), CLUSTERS_EVERY_MS);
}

const said = element("p", { id: "trouble", role: "status" });

function trouble(sentence) {
  giving.hidden = !source.declined;
  if (said.textContent !== (sentence ?? "")) said.textContent = sentence ?? "";
}

const giving = element("button", {
  type: "button", hidden: true,
  click: () => {
    source.declined = false;
    clearTimeout(later);
    watchClusters();
  },
}, "Give the token");

// ---------------------------------------------------------------------- the token

function askForToken(wasWrong) {
  const input = element("input", { type: "password", id: "token", autocomplete: "off", required: true });
  const dialog = element("dialog", { "aria-labelledby": "token-title" },
    element("form", { method: "dialog" },
      element("h2", { id: "token-title" }, "This hub wants a token"),
      element("p", {}, wasWrong ? "It has refused that one." : "It is what the hub was started with (--token). This tab keeps it until it is closed."),
      element("label", { for: "token" }, "Token"), input,
      element("div", { class: "buttons" },
        element("button", { type: "button", click: () => dialog.close("") }, "Not now"),
        element("button", { value: "give", class: "main" }, "Go on"))));
  document.body.append(dialog);
  dialog.showModal();
  input.focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "give" ? input.value : null);
    });
  });
}

// ---------------------------------------------------------------------- from here on it runs

addEventListener("hashchange", () => {
  const named = asked().get("cluster");
  if (source.live && named !== null) source.cluster = picker.value = named;
  route();
});
bar.append(said, giving);
if (source.live) {
  source.askForToken = askForToken;
  bar.prepend(picker);
  addEventListener("clusters", look);
  watchClusters();
} else {
  bar.prepend(element("bdi", { class: "quiet" }, short(source.data.histories.map(({ title }) => title).join(" · "), 100)));
  route();
}
