// A story of the KIPs, step by step: left what happened up to here, right what it means, and which message is the guilty one.
import { address, remember } from "./address.js";
import { element } from "./dom.js";
import { details } from "./details.js";
import { kipPage, kipTitle } from "./kips.js";
import { Lanes } from "./lanes.js";
import { of } from "./text.js";
import { PAUSE_MS, Told } from "./told.js";

/** So narrow may a lane be, in px: eight of them have room beside the text at 1400 px. */
const LANE_LEAST = 104;
const FIELDS = "input, select, textarea, [contenteditable]";

export const story = {
  name: "story",
  title: "Stories",
  withoutCluster: true,
  stays: true,
  offered: (source) => source.live || Boolean(source.data.lesson),
  show: (main, source, asked) => new Stories(main, source, asked),
};

/** The list of all stories, or one of them. */
class Stories {
  constructor(main, source, asked) {
    this.main = main;
    this.source = source;
    this.lesson = null;
    this.asked(asked);
  }

  leave() {
    this.lesson?.leave();
    this.gone = true;
  }

  /** The address has changed. */
  async asked(wanted) {
    const name = wanted.get("story") || this.source.data?.lesson.name || "";
    if (name !== "" && this.lesson?.name === name) {
      if (stepOf(wanted) !== this.lesson.place) this.lesson.go(stepOf(wanted));
      return;
    }
    this.lesson?.leave();
    this.lesson = null;
    this.wanted = name;
    this.main.replaceChildren(element("p", { class: "empty", role: "status" }, name === "" ? "The stories are being fetched." : "The story is being fetched."));
    try {
      const told = await (this.source.live ? this.source.get(name === "" ? "stories" : `stories/${encodeURIComponent(name)}`) : this.source.data.lesson);
      if (this.gone || this.wanted !== name) return;
      if (name === "") this.main.replaceChildren(listOf(told, this.source.cluster));
      else this.lesson = new Lesson(this.main, this.source, told, stepOf(wanted));
    } catch (error) {
      if (!this.gone) this.main.replaceChildren(element("p", { class: "empty", role: "alert" }, error.message, " ", element("a", { href: address({ story: "" }) }, "All stories")));
    }
  }
}

const stepOf = (wanted) => Number.parseInt(wanted.get("step") ?? "0", 10) || 0;

function listOf(stories, cluster) {
  const chapters = Map.groupBy ? Map.groupBy(stories, ({ chapter }) => chapter) : grouped(stories);
  return element("section", { class: "stories", "aria-label": "Stories" },
    element("h2", {}, "Stories"),
    element("p", { class: "quiet" }, "Situations that clients get wrong, each played step by step, with the KIP that rules it. At the end of each you are asked which message has caused the trouble."),
    ...[...chapters].sort(([one], [other]) => one - other).flatMap(([, told]) => [
      element("h3", {}, told[0].theme),
      element("ul", {}, ...told.map(({ name, title, symptom }) => element("li", {},
        element("a", { href: address({ story: name, cluster }) }, title), element("span", { class: "quiet" }, symptom)))),
    ]));
}

function grouped(stories) {
  const chapters = new Map();
  for (const each of stories) chapters.set(each.chapter, [...(chapters.get(each.chapter) ?? []), each]);
  return chapters;
}

/** A text in which `code` stands between backquotes; link(code) makes an element of a code that is to be a link, or null. */
const marked = (text, link) => text.split("`").map((part, index) => (index % 2 ? link(part) ?? element("code", {}, part) : part));

/** What the lanes show, and the steps do not explain. */
const READING = [
  ["■", "a step of the story"],
  ["●", "an event of a transaction; each transactional id has its colour"],
  ["▶", "the message of the question, when you have answered it"],
  ["an arrow", "a request or a response at the moment when it was read; where the text says that the network holds a request, it is held after that"],
  ["AddPartitionsToTxn of orders-0", "the leader wants to ask the coordinator; AddPartitionsToTxn v5 is the request that carries the question"],
  ["the batch goes on", "the leader has its answer, and appends the batch or refuses it"],
  ["LSO", "last stable offset: consumers of committed records read up to it"],
];

/** One story. Its places are 0 (the scene), its steps from 1 on, and the end. */
class Lesson {
  constructor(main, source, view, place) {
    this.name = view.name;
    this.view = view;
    this.source = source;
    this.end = view.steps.length + 1;
    this.used = lanesOf(view);
    this.answered = false;
    this.wrong = new Set();
    this.asked = element("section", { class: "asked" });
    this.lanes = new Lanes("What happened up to this step", { open: ({ step }) => this.open(step) }, { least: LANE_LEAST });
    this.opened = element("aside", { class: "details", "aria-label": "Details of the event", hidden: true });
    this.text = element("div", { class: "lesson-text", "aria-live": "polite" });
    this.back = element("button", { type: "button", title: "Previous step (←)", click: () => this.move(-1) }, "← Previous");
    this.next = element("button", { type: "button", class: "main", title: "Next step (→)", click: () => this.move(1) }, "Next →");
    this.where = element("span", { class: "quiet where" });
    this.panel = element("article", { class: "lesson", "aria-label": view.title },
      this.source.live ? element("p", { class: "up" }, element("a", { href: address({ story: "", cluster: source.cluster }) }, "All stories"), " · ", view.theme) : element("p", { class: "up quiet" }, view.theme),
      element("h2", {}, view.title),
      element("div", { class: "buttons" }, this.back, this.next, this.where),
      this.text, this.opened);
    main.replaceChildren(element("section", { class: "story whole", "aria-label": "Story" }, element("div", { class: "field" }, this.lanes.box), this.panel));
    this.keys = (event) => this.pressed(event);
    document.addEventListener("keydown", this.keys);
    this.go(place);
  }

  leave() {
    this.lanes.leave();
    document.removeEventListener("keydown", this.keys);
  }

  pressed(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.target.closest?.(FIELDS)) return;
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    this.move(by);
  }

  /** One step on or back. */
  move(by) {
    const to = this.place + by;
    if (to >= 0 && to <= this.end) this.go(to);
  }

  go(place) {
    this.place = Math.max(0, Math.min(this.end, place));
    remember({ story: this.name, step: this.place || null });
    this.draw();
    this.text.replaceChildren(...(this.place === 0 ? this.scene() : this.place === this.end ? this.ending() : this.step(this.place)));
    this.tell();
  }

  tell() {
    const { length } = this.view.steps;
    this.where.textContent = this.place === 0 ? `${of(length, "step")}` : this.place === this.end ? "The end" : `Step ${this.place} of ${length}`;
    this.back.disabled = this.place === 0;
    this.next.disabled = this.place === this.end;
    this.panel.scrollTop = 0;
  }

  // -------------------------------------------------------------------- left: what happened

  /** The rows up to the present step; at the last one all rows are drawn, with the answers that follow it. */
  draw() {
    const place = Math.min(this.place, this.end - 1);
    const here = this.view.steps[place - 1]?.seq ?? 0;
    const until = place === this.end - 1 ? Infinity : here;
    const own = new Map(this.view.steps.map(({ seq }, index) => [seq, index + 1]));
    const steps = this.view.history.steps.filter(({ seq }) => seq <= until);
    this.told = new Told({ ...this.view.history, steps });
    this.opened.hidden = true;
    const rows = steps.flatMap((step, index) => {
      const pause = index > 0 ? step.at_ms - steps[index - 1].at_ms : 0;
      const number = own.get(step.seq);
      const row = { step, key: `s${step.seq}`, ...(number && { mark: number === this.view.guilty && this.answered ? "told guilty" : "told", says: `Step ${number}` }) };
      return pause >= PAUSE_MS ? [{ pause, key: `p${step.seq}` }, row] : [row];
    });
    this.lanes.show(rows, this.used, this.told.lanes, { partner: (step) => this.told.partner(step) });
    if (this.lanes.mark(here)) this.lanes.inView();
  }

  /** An event was clicked: its fields, its request and its response, as far as the story has come. */
  open(step) {
    const close = () => (this.opened.hidden = true);
    this.opened.replaceChildren(...details(step, this.told, { close, unanswered: "not answered yet at this step", go: (partner) => this.lanes.mark(partner.seq) && this.open(partner) }));
    this.opened.hidden = false;
    this.opened.scrollIntoView({ block: "nearest" });
  }

  // -------------------------------------------------------------------- right: what it means

  /** A text of the lesson; names of other stories are links to them, where the hub has them. */
  marked(text) {
    const link = (name) => (this.source.live && this.view.stories.includes(name) ? element("a", { href: address({ story: name, cluster: this.source.cluster }) }, name) : null);
    return marked(text, link);
  }

  scene() {
    return [
      element("p", {}, ...this.marked(this.view.scene)),
      element("section", { class: "symptom" }, element("h3", {}, "What somebody sees"), element("p", {}, ...this.marked(this.view.symptom))),
      element("p", { class: "quiet" }, "Go on with Next or the key ", element("kbd", {}, "→"), ", back with ", element("kbd", {}, "←"), ". A click on an event shows what it says. The play is simulated: it is the same each time."),
      element("section", { class: "reading" }, element("h3", {}, "How to read the lanes"),
        element("dl", {}, ...READING.flatMap(([sign, says]) => [element("dt", {}, sign), element("dd", {}, says)]))),
    ];
  }

  step(number) {
    const { title, text, rule } = this.view.steps[number - 1];
    const last = number === this.view.steps.length;
    if (last) this.ask();
    return [
      element("h3", {}, `${number}. ${title}`),
      number === this.view.guilty && this.answered && !last ? this.verdict() : null,
      element("p", {}, ...this.marked(text)),
      rule ? ruleOf(rule) : null,
      last ? this.asked : null,
    ].filter(Boolean);
  }

  verdict(word = "") {
    const { title } = this.view.steps[this.view.guilty - 1];
    return element("p", { class: "verdict" }, word ? element("strong", {}, word) : null, `It is step ${this.view.guilty}, “${title}”. `, ...this.marked(this.view.answer));
  }

  // -------------------------------------------------------------------- the question, below the last step

  /** Draw the question anew, with a sentence about the last choice, or its answer. */
  ask(said = "") {
    this.asked.replaceChildren(element("h3", {}, this.view.question), ...(this.answered ? [this.verdict(said)] : this.choices(said)));
  }

  choices(said) {
    const offered = this.view.steps.map(({ choice }, index) => [choice, index + 1]).filter(([choice]) => choice !== "");
    return [
      element("ol", { class: "choices" }, ...offered.map(([choice, number]) => element("li", {},
        element("button", { type: "button", disabled: this.wrong.has(number), click: () => this.choose(number) }, `${number}. ${choice}`)))),
      element("p", { role: "status", class: "said-no" }, ...this.marked(said)),
      element("p", {}, element("button", { type: "button", class: "plain", click: () => this.reveal() }, "Show me the answer")),
    ];
  }

  choose(number) {
    if (number === this.view.guilty) {
      this.reveal("Right. ");
      return;
    }
    if (this.view.guilty_again.includes(number)) {
      this.reveal("Right: it belongs to the same message. ");
      return;
    }
    const { choice, not_guilty: why } = this.view.steps[number - 1];
    this.wrong.add(number);
    this.ask(`Not “${choice}”. ${why}`);
    this.asked.querySelector("button:not(:disabled)")?.focus();
  }

  reveal(word = "") {
    this.answered = true;
    this.draw();
    this.ask(word);
    this.asked.scrollIntoView({ block: "nearest" });
    this.next.focus({ preventScroll: true });
  }

  ending() {
    const { survive, clients, docs, not_played: why } = this.view;
    return [
      element("h3", {}, "What a client must do"),
      element("p", {}, ...this.marked(survive)),
      element("h3", {}, "What clients do"),
      element("table", { class: "clients" },
        element("thead", {}, element("tr", {}, ...["Client", "On Odradek", "On Apache Kafka 4.4.0"].map((text) => element("th", { scope: "col" }, text)))),
        element("tbody", {}, ...clients.map(({ client, outcome, meaning, how, real }) => element("tr", {},
          element("th", { scope: "row" }, client),
          element("td", {}, element("strong", {}, outcome), `: ${meaning}`, how ? [" (", ...this.marked(how), ")"] : ""),
          element("td", {}, real || "not played"))))),
      clients.every(({ real }) => real) ? null : element("p", { class: "quiet" }, why ? ["Not played on a Kafka 4.4.0: ", ...this.marked(why)] : "Not played: nobody has played the story with this client on a Kafka 4.4.0."),
      element("h3", {}, "Play it with your client"),
      ...this.playing(),
      element("p", { class: "quiet" }, "More about this story: ", element("code", {}, docs), " in the repository of Odradek."),
    ].filter(Boolean);
  }

  // -------------------------------------------------------------------- a cluster of the story

  playing() {
    const how = element("p", {}, "What the client has to do: ", ...this.marked(this.view.play));
    if (!this.source.live) return [how, element("pre", {}, `odradek serve --story ${this.name}`)];
    const place = element("div", { role: "status" });
    const button = element("button", { type: "button", class: "main", click: () => this.play(button, place) }, "Play it on this hub");
    return [how, element("p", {}, button), place];
  }

  async play(button, place) {
    button.disabled = true;
    try {
      const made = await this.source.call("POST", "clusters", { story: this.name });
      place.replaceChildren(...this.meeting(made));
    } catch (error) {
      place.replaceChildren(element("p", { class: "trouble" }, error.message));
    }
    button.disabled = false;
  }

  /** How a client meets the cluster. */
  meeting({ id, bootstrap }) {
    const hub = location.origin;
    const python = [
      "from confluent_kafka import Producer", "",
      `producer = Producer({"bootstrap.servers": "${bootstrap}", "transactional.id": "till-1"})`,
      "producer.init_transactions()", "producer.begin_transaction()", 'producer.produce("orders", "coffee")', "producer.commit_transaction()",
    ].join("\n");
    return [
      element("p", {}, "The cluster ", element("code", {}, id), " is there, and its rules are armed. Its brokers: ", element("code", {}, bootstrap), ". It is removed when nobody has used it for a minute."),
      element("p", {}, "A client meets it there, for example in Python:"),
      element("pre", {}, python),
      element("p", {}, "Whether the story has come about (an empty list: yes):"),
      element("pre", {}, `curl -X POST ${hub}/clusters/${id}/verify`),
      element("p", {}, element("a", { href: address({ now: "", cluster: id }) }, "What it does now"), " · ", element("a", { href: address({ then: "", cluster: id }) }, "What has happened in it")),
    ];
  }
}

/** The lanes that the story needs, with their places in the History: the same all the time. */
function lanesOf({ history }) {
  const used = new Set(history.steps.flatMap(({ source, target }) => [source, target]));
  return history.lanes.map((lane, index) => ({ ...lane, index })).filter(({ index }) => used.has(index));
}

function ruleOf({ kip, section, quote, says }) {
  const link = element("a", { href: kipPage(kip), target: "_blank", rel: "noopener noreferrer" }, kipTitle(kip));
  return element("figure", { class: "rule" }, quote ? element("blockquote", {}, quote) : element("p", {}, says),
    element("figcaption", {}, link, `, “${section}”${quote ? "" : " (in our words)"}`));
}
