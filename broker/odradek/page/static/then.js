// What happened: lanes, the steps between them, and what one of them was in all its fields.
import { remember } from "./address.js";
import { colourOf } from "./colours.js";
import { details } from "./details.js";
import { element } from "./dom.js";
import { Lanes, shape } from "./lanes.js";
import { Told, joined, lanesOf, rowsOf } from "./told.js";
import { counted, of, short } from "./text.js";

const EVERY_MS = 500;
const MOST = 500;
const KEPT_MAX = 20_000;
const LANES_APART = "\n";
const KEYS = [
  ["↑ ↓", "the step before, the next one"], ["Page ↑, Page ↓", "a page of steps"], ["Home, End", "the first step, the last one"],
  ["Enter", "what the step was, in all its fields"], ["→ ←", "from a request to its answer, and back"],
  ["e, E", "the next error, the one before"], ["f", "follow the transaction of the step, and stop following it"],
  ["/", "search"], ["Space", "live: pause, and follow the newest again"], ["Esc", "close the details, then stop following"], ["?", "these keys"],
];

export const then = { name: "then", title: "Then", offered: (source) => source.live || source.data.histories.length > 0, show: (main, source, asked) => new Then(main, source, asked) };

class Then {
  constructor(main, source, asked) {
    this.source = source;
    this.told = new Told({ lanes: [], steps: [], transactions: [], events: 0, left_out: 0, note: "", title: "" });
    this.look = { follow: null, only: true, hidden: new Set(), query: "" };
    this.known = new Set();
    this.running = source.live;
    this.shownEvents = 0;
    this.lanes = new Lanes("Steps", {
      select: ({ step }) => this.selected(step), open: ({ step }) => this.opened(step), hide: (lane) => this.hide(lane.key),
      follow: (id) => this.follow(id), scrolled: () => this.scrolled(),
    });
    this.panel = element("aside", { class: "details", "aria-label": "Details of the step", hidden: true, tabindex: -1 });
    this.build();
    main.append(this.view);
    this.keys = (event) => this.pressed(event);
    this.seen = () => this.poll();
    document.addEventListener("keydown", this.keys);
    document.addEventListener("visibilitychange", this.seen);
    this.print = () => this.lanes.draw(true);
    addEventListener("beforeprint", this.print);
    this.read(asked);
    if (!source.live) this.open();
    else if (this.wantedStep === null) this.poll();
    else this.lookBack(this.wantedStep + MOST / 2);
  }

  leave() {
    this.left = true;
    clearTimeout(this.timer);
    this.lanes.leave();
    document.removeEventListener("keydown", this.keys);
    document.removeEventListener("visibilitychange", this.seen);
    removeEventListener("beforeprint", this.print);
  }

  // -------------------------------------------------------------------- the address

  /** The address has changed, by a link or by hand. */
  asked(wanted) {
    const [before, run] = [this.look.follow, this.run];
    this.read(wanted);
    if (!this.source.live && this.run !== run) return this.open();
    const unknown = this.wantedStep !== null && !this.told.bySeq.has(this.wantedStep);
    if (this.source.live && (unknown || this.look.follow !== before)) return this.anew();
    this.drawn();
    if (this.wantedStep === null) this.close();
    return this.reopen();
  }

  /** Show one of the histories of a file. */
  async open() {
    this.take(await this.source.history({ index: this.run }));
  }

  read(wanted) {
    this.run = Math.min(Number(wanted.get("run") ?? 0) || 0, Math.max(0, (this.source.data?.histories.length ?? 1) - 1));
    this.runs.value = this.run;
    this.look.follow = wanted.get("id") ?? this.source.data?.transaction ?? null;
    this.look.only = wanted.get("others") !== "faded";
    this.look.query = wanted.get("q") ?? "";
    this.look.hidden = new Set((wanted.get("hide") ?? "").split(LANES_APART).filter(Boolean));
    this.wantedStep = wanted.has("step") ? Number(wanted.get("step")) : null;
    if (this.wantedStep !== null) this.pause();
    this.search.value = this.look.query;
  }

  remember(changes = {}) {
    remember({
      id: this.look.follow, others: this.look.follow !== null && !this.look.only ? "faded" : null, q: this.look.query || null,
      hide: [...this.look.hidden].join(LANES_APART) || null, ...changes,
    });
  }

  // -------------------------------------------------------------------- parts

  build() {
    const button = (text, attributes, ...more) => element("button", { type: "button", ...attributes }, text, ...more);
    const histories = this.source.data?.histories ?? [];
    this.runs = element("select", { "aria-label": "Run", hidden: histories.length < 2, change: () => this.choose(Number(this.runs.value)) },
      ...histories.map(({ title }, index) => element("option", { value: index }, short(title, 60))));
    this.ids = element("datalist", { id: "transactions" });
    this.picker = element("input", {
      type: "search", list: "transactions", "aria-label": "Follow a transactional id", placeholder: "Follow a transaction", autocomplete: "off", spellcheck: "false",
      change: () => this.follow(this.picker.value || null),
    });
    this.unfollow = button("✕", { class: "plain", "aria-label": "Follow no transactional id", title: "Stop following (f)", hidden: true, click: () => this.follow(null) });
    this.followed = element("span", { class: "followed" }, element("i", { class: "dot" }), this.picker, this.ids, this.unfollow);
    this.others = element("input", { type: "checkbox", id: "others", change: () => this.change({ only: !this.others.checked }) });
    this.othersLabel = element("label", { class: "others", hidden: true }, this.others, "Show others, faded");
    this.search = element("input", {
      type: "search", "aria-label": "Search", placeholder: "Search steps  ( / )", title: "Words of the text, the kind, the API, an error, an id, a lane", spellcheck: "false",
      input: () => this.change({ query: this.search.value }),
    });
    this.errors = element("span", { class: "count" });
    this.errorsBox = element("span", { class: "errors", role: "group", "aria-label": "Errors" },
      this.errors,
      button("↑", { "aria-label": "Previous error", title: "Previous error (E)", click: () => this.error(-1) }),
      button("↓", { "aria-label": "Next error", title: "Next error (e)", click: () => this.error(1) }));
    this.state = element("span", { class: "state" });
    this.earlier = button("Earlier events", { hidden: true, click: () => this.goBack() });
    this.pausing = button("Pause", { class: "pausing", hidden: !this.source.live, click: () => (this.running ? this.pause() : this.resume()) });
    this.help = button("?", { class: "plain", "aria-label": "Keys", title: "Keys (?)", click: () => this.showKeys() });
    this.hiddenBox = element("p", { class: "hidden-lanes", hidden: true });
    this.note = element("p", { class: "note", hidden: true });
    this.empty = element("p", { class: "empty", hidden: true });
    this.view = element("section", { class: "then whole", "aria-label": "What happened" },
      element("div", { class: "tools" }, this.runs, this.followed, this.othersLabel, this.search, this.errorsBox, element("span", { class: "space" }), this.state, this.earlier, this.pausing, this.help),
      this.note, this.hiddenBox,
      element("div", { class: "stage" }, element("div", { class: "field" }, this.lanes.box, this.empty), this.panel));
  }

  // -------------------------------------------------------------------- facts come in

  /** A window of what happened is there. */
  take(history, { events = history.events } = {}) {
    if (this.left) return;
    this.shownEvents = events;
    this.told = new Told(history);
    for (const id of history.transactions) this.known.add(id);
    const ids = [...this.known].slice(-MOST);
    if (ids.join() !== this.listed) {
      this.listed = ids.join();
      this.ids.replaceChildren(...ids.map((id) => element("option", { value: id })));
    }
    this.drawn();
    if (this.wantedStep !== null) this.reopen();
  }

  /** Draw anew what is to be seen, at the same place. */
  drawn() {
    const spot = this.lanes.spot;
    const current = this.lanes.current?.seq;
    const atEnd = this.running;
    const rows = rowsOf(this.told, this.look);
    this.lanes.show(rows, lanesOf(this.told, this.look, rows), this.told.lanes, { partner: (step) => this.told.partner(step) });
    if (current !== undefined) this.lanes.mark(current);
    if (atEnd) this.lanes.toEnd();
    else this.lanes.restore(spot);
    this.say(rows);
  }

  say(rows) {
    const { follow, hidden, query } = this.look;
    const steps = rows.filter(({ step }) => step !== undefined);
    const errors = steps.filter(({ step, faded }) => step.error && !faded).length;
    this.followed.className = `followed ${colourOf(follow)}${follow === null ? "" : " on"}`;
    if (document.activeElement !== this.picker) this.picker.value = follow ?? "";
    this.unfollow.hidden = this.othersLabel.hidden = follow === null;
    this.others.checked = !this.look.only;
    this.errors.textContent = errors === 0 ? "No errors" : `✕ ${of(errors, "error")}`;
    this.errorsBox.classList.toggle("some", errors > 0);
    for (const each of this.errorsBox.querySelectorAll("button")) each.disabled = errors === 0;
    this.pausing.textContent = this.running ? "Pause" : "Follow the newest";
    this.pausing.classList.toggle("main", !this.running);
    const { events, left_out: leftOut, note } = this.told.history;
    const total = this.total ?? events + leftOut;
    this.earlier.hidden = !this.source.live || this.shownEvents >= total || this.noneEarlier === true;
    const filtered = query || hidden.size > 0 || (follow !== null && this.look.only);
    const counts = total > this.shownEvents ? `${counted(this.shownEvents)} of ${of(total, "event")}` : of(total, "event");
    const shows = filtered ? `${of(steps.length, "step")} · ${counts}` : total > this.shownEvents ? `Shows ${counts}` : counts;
    this.state.textContent = `${shows}${this.source.live && !this.running ? " · paused" : ""}`;
    this.note.hidden = !note || this.source.live;
    this.note.textContent = note;
    this.state.title = note || "";
    this.empty.hidden = steps.length > 0;
    this.empty.textContent = this.nothing();
    this.hiddenBox.hidden = hidden.size === 0;
    this.hiddenBox.replaceChildren("Hidden: ", ...[...hidden].map((key) => this.bringBack(key)));
  }

  nothing() {
    const { follow, query } = this.look;
    if (this.told.steps.length === 0) return this.source.live ? "Nothing has happened yet." : "There are no events here.";
    if (query) return `No step has “${short(query, 80)}”.`;
    return follow === null ? "All lanes with steps are hidden." : `No step here is about ${short(follow, 80)}.`;
  }

  // -------------------------------------------------------------------- live

  /** Ask for the newest events, about twice a second, while somebody looks. */
  async poll() {
    clearTimeout(this.timer);
    if (this.left || this.asking || !this.running || document.hidden) return;
    this.asking = true;
    const follow = this.look.follow;
    try {
      const history = await this.source.history({ most: MOST, ...(follow !== null && { transaction: follow }) });
      if (this.running && follow === this.look.follow) {
        this.total = history.events + history.left_out;
        this.noneEarlier = false;
        this.fresh(history);
      }
    } catch (error) {
      this.newest = undefined;
      this.state.textContent = error.message;
    } finally {
      this.asking = false;
    }
    if (!this.left) this.timer = setTimeout(() => this.poll(), EVERY_MS);
  }

  /** Draw the newest window, if anything has happened since the last one. */
  fresh(history) {
    const mark = `${history.steps[0]?.seq} ${history.steps.at(-1)?.seq} ${this.total}`;
    if (mark === this.newest) return;
    this.newest = mark;
    this.take(history);
  }

  /** Ask once, while the view is paused: the events before a number, of the transaction that is followed. */
  async lookBack(before) {
    const follow = this.look.follow;
    try {
      const history = await this.source.history({ most: MOST, before, ...(follow !== null && { transaction: follow }) });
      if (this.running || follow !== this.look.follow) return;
      this.total = history.events + history.left_out;
      this.noneEarlier = false;
      this.take(history);
      if (this.wantedStep !== null) this.state.textContent = `Event ${counted(this.wantedStep)} is not kept any more.`;
    } catch (error) {
      this.state.textContent = error.message;
    }
  }

  /** What is followed has changed: ask for it, as far as the reader has come. */
  anew() {
    if (this.running) return this.again();
    const last = this.wantedStep === null ? this.told.steps.at(-1)?.seq : this.wantedStep + MOST / 2;
    return last === undefined ? this.again() : this.lookBack(last + 1);
  }

  again() {
    this.newest = undefined;
    this.running = true;
    this.asking = false;
    this.poll();
  }

  pause() {
    if (!this.source.live || !this.running) return;
    this.running = false;
    this.say(this.lanes.rows);
  }

  resume() {
    this.lanes.selected = -1;
    this.close();
    this.again();
    this.say(this.lanes.rows);
  }

  scrolled() {
    if (!this.source.live) return;
    if (this.running && !this.lanes.atEnd) this.pause();
    if (!this.running && this.lanes.box.scrollTop === 0 && !this.earlier.hidden) this.goBack();
  }

  /** What was before the window, put above it. */
  async goBack() {
    const [first] = this.told.steps;
    if (first === undefined || this.going) return;
    this.pause();
    this.going = true;
    const follow = this.look.follow;
    try {
      const before = await this.source.history({ most: MOST, before: first.seq, ...(follow !== null && { transaction: follow }) });
      const whole = joined(before, this.told.history);
      const more = whole.steps.length - this.told.steps.length;
      this.noneEarlier = more === 0 || whole.steps.length >= KEPT_MAX;
      if (!this.running) this.take(whole, { events: Math.min(this.total, this.shownEvents + before.events) });
    } catch (error) {
      this.state.textContent = error.message;
    } finally {
      this.going = false;
    }
  }

  // -------------------------------------------------------------------- what the reader does

  choose(run) {
    this.run = run;
    this.close();
    this.lanes.selected = -1;
    remember({ run: run || null });
    this.open();
  }

  change(look) {
    Object.assign(this.look, look);
    this.remember();
    this.drawn();
  }

  follow(id) {
    if (id === this.look.follow) return;
    this.look.follow = id;
    this.picker.value = id ?? "";
    this.remember();
    if (this.source.live) this.anew();
    this.drawn();
    const current = this.lanes.selected;
    if (current >= 0) this.lanes.reveal(current);
    else if (id !== null && !this.running) this.lanes.box.scrollTop = 0;
  }

  hide(key) {
    this.look.hidden.add(key);
    this.change({});
  }

  bringBack(key) {
    const lane = this.told.lanes.find((each) => each.key === key);
    const name = short(lane?.name ?? key, 60);
    return element("button", {
      type: "button", class: lane?.kind ?? "", "aria-label": `Show ${name} again`,
      click: () => {
        this.look.hidden.delete(key);
        this.change({});
      },
    }, shape(lane?.kind), element("bdi", {}, name), " +");
  }

  selected(step) {
    this.pause();
    this.remember({ step: step.seq });
    if (!this.panel.hidden) this.opened(step);
  }

  opened(step) {
    this.panel.hidden = false;
    this.panel.replaceChildren(...details(step, this.told, { close: () => this.close(true), go: (other) => this.go(other), follow: (id) => this.follow(id) }));
    this.panel.scrollTop = 0;
    this.lanes.inView();
  }

  /** Show the step that the address names. */
  reopen() {
    const step = this.told.bySeq.get(this.wantedStep);
    if (step === undefined) return;
    this.wantedStep = null;
    this.go(step, { open: true });
  }

  go(step, { open = false } = {}) {
    const index = this.lanes.at.get(`s${step.seq}`);
    if (index !== undefined) this.lanes.select(index, { open });
    else if (open || !this.panel.hidden) this.opened(step);
  }

  close(back = false) {
    this.panel.hidden = true;
    this.panel.replaceChildren();
    this.remember({ step: null });
    if (back) this.lanes.list.focus({ preventScroll: true });
  }

  error(way) {
    const { rows } = this.lanes;
    const start = this.lanes.selected < 0 ? (way > 0 ? -1 : rows.length) : this.lanes.selected;
    for (let tried = 1; tried <= rows.length; tried++) {
      const index = (((start + way * tried) % rows.length) + rows.length) % rows.length;
      if (rows[index].step?.error && !rows[index].faded) {
        this.lanes.select(index);
        return;
      }
    }
  }

  partner() {
    const step = this.lanes.current;
    const other = step && this.told.partner(step);
    if (other) this.go(other);
  }

  showKeys() {
    const dialog = element("dialog", { class: "keys", "aria-labelledby": "keys-title" },
      element("h2", { id: "keys-title" }, "Keys"),
      element("table", {}, element("tbody", {}, ...KEYS.map(([keys, what]) => element("tr", {}, element("th", { scope: "row" }, ...keys.split(", ").flatMap((key, at) => [at ? " " : "", element("kbd", {}, key)])), element("td", {}, what))))),
      element("form", { method: "dialog", class: "buttons" }, element("button", { class: "main" }, "Close")));
    dialog.addEventListener("close", () => dialog.remove());
    this.view.append(dialog);
    dialog.showModal();
  }

  pressed(event) {
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (typing) {
      if (event.key === "Escape") this.lanes.list.focus({ preventScroll: true });
      return;
    }
    const onButton = /^(BUTTON|A)$/.test(event.target.tagName);
    const act = {
      "/": () => this.search.select() || this.search.focus(), "?": () => this.showKeys(), e: () => this.error(1), E: () => this.error(-1),
      f: () => this.follow(this.look.follow === null ? (this.lanes.current?.transactional_id ?? null) : null),
      ArrowRight: () => this.partner(), ArrowLeft: () => this.partner(), Escape: () => this.escape(),
      ...(this.source.live && !onButton && { " ": () => (this.running ? this.pause() : this.resume()) }),
    }[event.key];
    if (act !== undefined) {
      event.preventDefault();
      act();
    } else if (!onButton) this.lanes.pressed(event);
  }

  escape() {
    if (!this.panel.hidden) this.close(true);
    else this.follow(null);
  }
}
