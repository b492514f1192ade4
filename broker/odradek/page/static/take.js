// Take it along: the events as a page, a picture, a diagram, or a log for other programs.
import { asked, remember } from "./address.js";
import { element } from "./dom.js";

const SHIVIZ = "https://bestchai.bitbucket.io/shiviz/";
const PERFETTO = "https://ui.perfetto.dev";
const KNOWN_MAX = 500;
const FORMS = [
  { form: "html", ending: ".html", title: "Page", about: ["This page with its events in one file: it opens in any browser, without a network."] },
  { form: "svg", ending: ".svg", title: "Picture", about: ["One transaction as an SVG, for a document."] },
  { form: "mermaid", ending: ".mmd", title: "Mermaid", about: ["One transaction as the text of a diagram, which code hosts draw in Markdown."] },
  { form: "shiviz", ending: ".shiviz", title: "ShiViz", about: ["A log with vector clocks: who can have known of what. Open it in ", link(SHIVIZ), "."], compares: true },
  { form: "perfetto", ending: ".pftrace", title: "Perfetto", about: ["A trace with slices, arrows and counters. Open it in ", link(PERFETTO), "."] },
  { form: "events", ending: ".jsonl", title: "Events", about: ["All events that are kept, as an event file: for ", code("odradek show"), ", ", code("odradek sim check"), " or a report of a bug."], whole: true },
];

function link(address) {
  return () => element("a", { href: address, rel: "noreferrer", target: "_blank" }, address.replace(/^https:\/\/|\/$/g, ""));
}

function code(text) {
  return () => element("code", {}, text);
}

const sentence = (about) => about.map((part) => (typeof part === "function" ? part() : part));

export const take = {
  name: "take",
  title: "Take it along",
  offered: (source) => source.live || source.data.histories.length > 0,
  show(main, source, wanted) {
    const view = source.live ? new FromHub(source, wanted) : new FromFile(source);
    main.append(view.node);
    return view;
  },
};

const rows = (cells) =>
  element("table", { class: "take" },
    element("tbody", {}, FORMS.map((form) =>
      element("tr", { "data-form": form.form },
        element("th", { scope: "row" }, form.title), element("td", { class: "about" }, sentence(form.about)), element("td", {}, cells(form))))));

/** Downloads from the hub; a download by a link would not send the token. */
class FromHub {
  constructor(source, wanted) {
    this.source = source;
    const known = element("datalist", { id: "take-known" });
    this.id = element("input", {
      id: "take-id", type: "search", list: "take-known", placeholder: "all", autocomplete: "off", value: wanted.get("id") ?? "",
      change: () => remember({ id: this.id.value || null }),
    });
    this.said = element("p", { class: "trouble", role: "alert", hidden: true });
    this.node = element("section", { class: "taking" },
      element("h2", {}, "Take it along"),
      element("p", {}, "The newest events that the hub keeps of this cluster; name a transactional id to take its events alone. Without a name a picture shows the transaction that ended last."),
      element("p", {}, element("label", { for: "take-id" }, "Transactional id "), this.id, known),
      this.said,
      rows((form) => element("button", { "aria-label": `Download: ${form.title}`, click: (event) => this.save(form, event.currentTarget) }, `Download ${form.ending}`)));
    source.get(source.within("transactions"))
      .then((found) => known.replaceChildren(...found.slice(0, KNOWN_MAX).map(({ transactional_id: id }) => element("option", { value: id }))))
      .catch(() => {}); // The field takes any name, and a hub that is gone is told by the frame.
  }

  asked() {
    this.id.value = asked().get("id") ?? "";
  }

  async save({ form, whole }, button) {
    const id = this.id.value;
    const query = id && !whole ? `?${new URLSearchParams({ transaction: id })}` : "";
    button.disabled = true;
    this.said.hidden = true;
    try {
      const { blob, name } = await this.source.file(`${this.source.within("exports", form)}${query}`);
      const address = URL.createObjectURL(blob);
      element("a", { href: address, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(address), 0);
    } catch (error) {
      this.said.textContent = error.message;
      this.said.hidden = false;
    } finally {
      button.disabled = false;
    }
  }
}

/** The commands that make the same from the event file that this page was made of. */
class FromFile {
  constructor(source) {
    const names = source.data.histories.map(({ title }) => title);
    const id = source.data.transaction ?? null;
    const files = (compares) => (compares ? names : names.slice(0, 1)).map(quoted).join(" ");
    const only = id === null ? "" : ` --transaction ${quoted(id)}`;
    this.node = element("section", { class: "taking" },
      element("h2", {}, "Take it along"),
      element("p", {}, "This page is a file already: send it to whoever is to see it. The other forms are made of the event file by these commands."),
      rows(({ form, ending, whole, compares }) => {
        if (form === "html") return element("span", {}, "this file");
        if (whole) return element("span", {}, names.flatMap((name, at) => [at ? " and " : "", element("code", {}, name)]));
        return element("code", { tabindex: 0 }, `odradek show ${files(compares)}${only} -o ${quoted(`${names[0]}${ending}`)}`);
      }));
  }
}

/** A word of a shell. */
const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
