// The frame of the page: its views, and which of them the address names (#now, #then, #why, #story=NAME …).
import { source } from "./source.js";
import { element } from "./dom.js";
import { VIEWS } from "./views.js";

const main = document.querySelector("main");
const nav = document.querySelector("nav");
let shown = null;

function route() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const [first] = asked.keys();
  const offered = VIEWS.filter((view) => view.offered(source));
  const view = offered.find(({ name }) => name === first) ?? offered[0];
  shown?.leave?.();
  main.replaceChildren();
  nav.replaceChildren(
    ...offered.map(({ name, title }) =>
      element("a", { href: `#${name}`, ...(name === view.name && { "aria-current": "page" }) }, title)),
  );
  shown = view.show(main, source, asked);
}

addEventListener("hashchange", route);
route();
