// A story of the KIPs, step by step: left what happened up to here, right what it means, and which message is the guilty one.
import { address, remember } from "./address.js";
import { element } from "./dom.js";
import { details } from "./details.js";
import { kipPage, kipTitle } from "./kips.js";
import { Lanes } from "./lanes.js";
import { of } from "./text.js";
import { PAUSE_MS, Told } from "./told.js";

const FIELDS = "input, select, textarea, [contenteditable]";

export const story = {
  name: "story",
  title: "Stories",
  withoutCluster: true,
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
      this.lesson.go(stepOf(wanted));
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
    element("p", { class: "quiet" }, "Situations that clients get wrong, each played step by step, with the KIP that rules it. Before the decisive step you are asked which message is the guilty one."),
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

/** A text in which `code` stands between backticks. */
const marked = (text) => text.split("`").map((part, index) => (index % 2 ? element("code", {}, part) : part));

/** One story. Its places are 0 (the scene), its steps from 1 on, and the end. */
class Lesson {
  constructor(main, source, view, place) {
    this.name = view.name;
    this.view = view;
    this.source = source;
    this.end = view.steps.length + 1;
    this.used = lanesOf(view);
    this.answered = place > view.guilty;
    this.wrong = new Set();
    this.lanes = new Lanes("What happened up to this step", { open: ({ step }) => this.open(step) });
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

  /** One step on or back. On the way to the guilty step the reader is asked first. */
  move(by) {
    if (this.asking) {
      if (by < 0) this.go(this.place);
      return;
    }
    const to = this.place + by;
    if (to < 0 || to > this.end) return;
    if (to === this.view.guilty && by > 0 && !this.answered) this.ask();
    else this.go(to);
  }

  go(place) {
    this.asking = false;
    this.place = Math.max(0, Math.min(this.end, place));
    remember({ story: this.name, step: this.place || null });
    this.draw(this.place === this.end ? this.end - 1 : this.place);
    this.text.replaceChildren(...(this.place === 0 ? this.scene() : this.place === this.end ? this.ending() : this.step(this.place)));
    this.tell();
  }

  tell() {
    const { length } = this.view.steps;
    this.where.textContent = this.place === 0 ? `${of(length, "step")}` : this.place === this.end ? "The end" : `Step ${this.place} of ${length}`;
    this.back.disabled = this.place === 0 && !this.asking;
    this.next.disabled = this.place === this.end || this.asking;
    this.panel.scrollTop = 0;
  }

  // -------------------------------------------------------------------- left: what happened

  draw(place) {
    const until = this.view.steps[place - 1]?.seq ?? 0;
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
    if (this.lanes.mark(until)) this.lanes.inView();
  }

  /** An event was clicked: its fields, its request and its response, as far as the story has come. */
  open(step) {
    const close = () => (this.opened.hidden = true);
    this.opened.replaceChildren(...details(step, this.told, { close, go: (partner) => this.lanes.mark(partner.seq) && this.open(partner) }));
    this.opened.hidden = false;
    this.opened.scrollIntoView({ block: "nearest" });
  }

  // -------------------------------------------------------------------- right: what it means

  scene() {
    return [
      element("p", {}, this.view.scene),
      element("section", { class: "symptom" }, element("h3", {}, "What somebody sees"), element("p", {}, this.view.symptom)),
      element("p", { class: "quiet" }, "Go on with Next or the key ", element("kbd", {}, "→"), ", back with ", element("kbd", {}, "←"), ". A click on an event shows what it says. The play is simulated: it is the same each time."),
    ];
  }

  step(number) {
    const { title, text, rule } = this.view.steps[number - 1];
    return [
      element("h3", {}, `${number}. ${title}`),
      number === this.view.guilty && this.answered ? element("p", { class: "verdict" }, "This is the guilty message. ", this.view.answer) : null,
      element("p", {}, text),
      rule ? ruleOf(rule) : null,
    ].filter(Boolean);
  }

  ask() {
    this.asking = true;
    this.wrong.clear();
    this.question();
    this.tell();
    this.text.querySelector("button")?.focus();
  }

  question(said = null) {
    const choices = this.view.steps.map(({ title }, index) => element("li", {},
      element("button", { type: "button", disabled: this.wrong.has(index + 1), click: () => this.choose(index + 1) }, `${index + 1}. ${title}`)));
    this.text.replaceChildren(
      element("h3", {}, "Which message is the guilty one?"),
      element("p", {}, this.view.symptom),
      element("p", { class: "quiet" }, "These are the steps of the story, those included that you have not seen yet. Take one of them away, and nothing goes wrong."),
      element("ol", { class: "choices" }, ...choices),
      element("p", { role: "status", class: "said-no" }, said ?? ""),
      element("p", {}, element("button", { type: "button", class: "plain", click: () => this.reveal() }, "Show me the answer")),
    );
  }

  choose(number) {
    if (number === this.view.guilty) {
      this.reveal("Right. ");
      return;
    }
    if (this.view.guilty_again.includes(number)) {
      this.reveal("Right: it is this message, which arrives later. ");
      return;
    }
    const { title, text } = this.view.steps[number - 1];
    this.wrong.add(number);
    this.question(number < this.view.guilty ? `Not “${title}”: ${text}` : `Not “${title}”: that comes later, and would do no harm without the guilty message.`);
    this.text.querySelector("button:not(:disabled)")?.focus();
  }

  reveal(word = "") {
    this.answered = true;
    this.asking = false;
    this.go(this.view.guilty);
    if (word) this.text.querySelector(".verdict")?.prepend(element("strong", {}, word));
    this.next.focus();
  }

  ending() {
    const { survive, clients, docs } = this.view;
    return [
      element("h3", {}, "What a client must do"),
      element("p", {}, ...marked(survive)),
      element("h3", {}, "What clients do"),
      element("table", { class: "clients" },
        element("thead", {}, element("tr", {}, ...["Client", "Here", "Apache Kafka 4.4.0"].map((text) => element("th", { scope: "col" }, text)))),
        element("tbody", {}, ...clients.map(({ client, outcome, meaning, how, real }) => element("tr", {},
          element("th", { scope: "row" }, client),
          element("td", {}, element("strong", {}, outcome), `: ${meaning}`, how ? [" (", ...marked(how), ")"] : ""),
          element("td", {}, real || "not played"))))),
      element("h3", {}, "Play it with your client"),
      ...this.playing(),
      element("p", { class: "quiet" }, "More about this story: ", element("code", {}, docs), " in the repository of Odradek."),
    ];
  }

  // -------------------------------------------------------------------- a cluster of the story

  playing() {
    const how = element("p", {}, "What the client has to do: ", ...marked(this.view.play));
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

/** The lanes that the story needs up to its last step, with their places in the History: the same all the time. */
function lanesOf({ history, steps }) {
  const until = steps.at(-1).seq;
  const used = new Set(history.steps.filter(({ seq }) => seq <= until).flatMap(({ source, target }) => [source, target]));
  return history.lanes.map((lane, index) => ({ ...lane, index })).filter(({ index }) => used.has(index));
}

function ruleOf({ kip, section, quote, says }) {
  const link = element("a", { href: kipPage(kip), target: "_blank", rel: "noopener noreferrer" }, kipTitle(kip));
  return element("figure", { class: "rule" }, quote ? element("blockquote", {}, quote) : element("p", {}, says),
    element("figcaption", {}, link, `, “${section}”${quote ? "" : " (in our words)"}`));
}
