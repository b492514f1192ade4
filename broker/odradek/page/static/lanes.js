// Draws rows of a History: lanes as columns, time downwards. Only the rows in view are in the document.
import { colourOf } from "./colours.js";
import { drawn, element } from "./dom.js";
import { duration, moment, short } from "./text.js";

const ROW = 36;
const OVERSCAN = 4;
const LANE_MIN = 116;
const LANE_MAX = 340;
/** Below this width of the box, in px, times have less room. */
const NARROW = 900;
/** The width of a digit of a time, in px. */
const DIGIT = 7.3;
const BAR_STEP = 5;
const BARS_DEEP = 4;
const LABEL_MAX = 460;
const EDGE = 6;
const TEXT_MAX = 120;
/** So much wider is a text in bold, at most. */
const BOLDER = 1.13;
const ANSWERS = new Set(["response", "verify_end"]);
const BOLD = new Set(["begins", "committed", "aborted", "failed"]);

/** What a chip shows before its text, by the kind of its event; the class gives it a colour. */
const SIGNS = {
  init_producer_id: ["★", "begins"], transaction_kept: ["★", "begins"], state_change: ["◆", "state"], partitions_added: ["+", "state"],
  fenced: ["✕", "failed"], parked: ["‖", "waits"], resumed: ["▸", "goes"], transaction_opened: ["[", "opens"], transaction_closed: ["]", "opens"],
  lso_moved: ["↥", "moved"], leadership_taken: ["▲", "leads"], leadership_given_up: ["▽", "leads"], controller_activated: ["▲", "leads"],
  broker_fenced: ["✕", "failed"], log_truncated: ["✕", "failed"], dead_letters_lost: ["✕", "failed"], metadata_fault: ["✕", "failed"], group_record_skipped: ["✕", "failed"],
  log_segment_dropped: ["✕", "failed"], metadata_transaction_aborted: ["⊘", "aborted"],
};

/** A drawing of its kind for each lane: nobody has to tell them apart by colour. */
const SHAPES = {
  client: () => drawn("circle", { cx: 8, cy: 8, r: 5.5 }),
  broker: () => drawn("rect", { x: 2.5, y: 2.5, width: 11, height: 11, rx: 1.5 }),
  coordinator: () => drawn("path", { d: "M8 1.5 14 5v6l-6 3.5L2 11V5Z" }),
  partition: () => drawn("path", { d: "M2.5 4.5c0-1.7 11-1.7 11 0v7c0 1.7-11 1.7-11 0Zm0 0c0 1.7 11 1.7 11 0" }),
};

export const shape = (kind) => drawn("svg", { class: "shape", viewBox: "0 0 16 16", "aria-hidden": "true" }, SHAPES[kind]?.() ?? SHAPES.broker());

const WIDTHS_MAX = 20_000;
const ruler = document.createElement("canvas").getContext("2d");
const widths = new Map();
let font = null;

/** The width of a text in px; the font is that of labels. */
function widthOf(text) {
  let width = widths.get(text);
  if (width === undefined) {
    if (widths.size > WIDTHS_MAX) widths.clear();
    font ??= `13px ${getComputedStyle(document.body).fontFamily}`;
    ruler.font = font;
    width = ruler.measureText(text).width;
    widths.set(text, width);
  }
  return width;
}

function place(made, box) {
  for (const [name, px] of Object.entries(box)) made.style[name] = `${px}px`;
  return made;
}

/** What a reader of the screen hears of a step. */
export function sentence(step, lanes) {
  const [from, to] = [lanes[step.source], lanes[step.target]].map((lane) => `${lane.kind} ${short(lane.name, TEXT_MAX)}`);
  const who = step.source === step.target ? `at ${from}` : `from ${from} to ${to}`;
  return [`${moment(step.at_ms)} s`, short(step.text, 300), who, step.error && `error ${step.error}`].filter(Boolean).join(", ");
}

/** Columns and rows in one scrolling box.
 *
 * on: {select(row), open(row), hide(lane), follow(id), scrolled()}, all of them optional.
 */
export class Lanes {
  constructor(label, on = {}, { least = LANE_MIN } = {}) {
    this.on = on;
    this.least = least;
    this.rows = [];
    this.lanes = [];
    this.all = [];
    this.bars = [];
    this.digits = 0;
    this.at = new Map();
    this.selected = -1;
    this.made = new Map();
    this.heads = element("div", { class: "heads" });
    this.lines = element("div", { class: "lines", "aria-hidden": "true" });
    this.list = element("div", { class: "rows", role: "listbox", tabindex: 0, "aria-label": label }, this.lines);
    this.box = element("div", { class: "lanes" }, this.heads, this.list);
    this.box.addEventListener("scroll", () => this.drawSoon(), { passive: true });
    this.list.addEventListener("click", (event) => this.clicked(event));
    this.list.addEventListener("pointerover", (event) => this.pointedAt(event), { passive: true });
    this.list.addEventListener("keydown", (event) => this.pressed(event));
    this.watch = new ResizeObserver(() => this.laidOut());
    this.watch.observe(this.box);
    this.uid = `l${++Lanes.count}`;
  }

  static count = 0;

  leave() {
    this.watch.disconnect();
    cancelAnimationFrame(this.frame);
  }

  /** Draw other rows. `all` are the lanes of the History, which steps point into; `lanes` those that are shown. */
  show(rows, lanes, all, { partner = () => undefined } = {}) {
    this.rows = rows;
    this.all = all;
    const same = lanes.length === this.lanes.length && lanes.every((lane, at) => lane.key === this.lanes[at].key && lane.index === this.lanes[at].index && lane.about === this.lanes[at].about);
    this.lanes = lanes;
    this.at = new Map(rows.map(({ key }, index) => [key, index]));
    this.bars = this.spans(partner);
    this.digits = moment(rows.findLast(({ step }) => step !== undefined)?.step.at_ms ?? 0).length;
    this.forget();
    if (same) this.laidOut();
    else {
      this.heads.replaceChildren(element("span", { class: "head gutter" }, "seconds"), ...lanes.map((lane) => this.head(lane)));
      this.lines.replaceChildren(...lanes.map(({ kind }) => element("i", { class: kind })));
      this.laidOut(true);
    }
  }

  /** The seq of the step that is selected, or null. */
  get current() {
    return this.rows[this.selected]?.step ?? null;
  }

  /** Select a step, without telling anybody; false if it is not among the rows. */
  mark(seq) {
    this.selected = this.at?.get(`s${seq}`) ?? -1;
    this.forget();
    this.draw();
    return this.selected >= 0;
  }

  /** Select a row as the reader does. */
  select(index, { open = false, middle = false } = {}) {
    if (this.rows[index]?.step === undefined) return;
    this.selected = index;
    this.forget();
    if (middle) this.box.scrollTop = index * ROW - (this.box.clientHeight - this.heads.offsetHeight) / 2;
    this.reveal(index);
    this.draw();
    this.on.select?.(this.rows[index]);
    if (open) this.on.open?.(this.rows[index]);
  }

  /** Scroll so that a row is well in view; in the middle if it was not in view at all. */
  reveal(index) {
    const top = index * ROW;
    const { scrollTop } = this.box;
    const high = this.box.clientHeight - this.heads.offsetHeight;
    if (top < scrollTop + ROW || top + 2 * ROW > scrollTop + high) {
      const near = top > scrollTop - 4 * ROW && top < scrollTop + high + 4 * ROW;
      this.box.scrollTop = near ? (top < scrollTop + ROW ? top - ROW : top + 2 * ROW - high) : top - high / 2;
    }
    this.across(this.rows[index].step);
  }

  /** Keep the selected step in view where the box has become smaller. */
  inView() {
    this.laidOut();
    if (this.selected >= 0) this.reveal(this.selected);
    this.draw();
  }

  across(step) {
    const xs = [step.source, step.target].map((lane) => this.xOf.get(lane)).filter((x) => x !== undefined);
    if (xs.length === 0) return;
    const [left, right] = [Math.min(...xs) - this.wide / 2, Math.max(...xs) + this.wide / 2];
    if (left < this.box.scrollLeft + this.gutter) this.box.scrollLeft = left - this.gutter;
    else if (right > this.box.scrollLeft + this.box.clientWidth) this.box.scrollLeft = Math.min(left - this.gutter, right - this.box.clientWidth);
  }

  get atEnd() {
    return this.box.scrollTop + this.box.clientHeight >= this.box.scrollHeight - 2 * ROW;
  }

  toEnd() {
    this.box.scrollTop = this.box.scrollHeight;
    this.draw();
  }

  /** Which row is at the top, to find it again among other rows. */
  get spot() {
    const index = Math.floor(this.box.scrollTop / ROW);
    return { seqs: this.rows.slice(index, index + 50).map(({ step }) => step?.seq), rest: this.box.scrollTop - index * ROW };
  }

  /** Bring it, or the first row after it that is still there, to the top again. */
  restore({ seqs, rest }) {
    const offset = seqs.findIndex((seq) => this.at.has(`s${seq}`));
    if (offset >= 0) this.box.scrollTop = (this.at.get(`s${seqs[offset]}`) - offset) * ROW + rest;
    this.draw();
  }

  // -------------------------------------------------------------------- columns

  head({ key, kind, name, about, index }) {
    const shown = short(name, TEXT_MAX);
    const inner = [
      element("span", { class: "kind" }, shape(kind), kind),
      element("bdi", { class: "name" }, shown),
      element("bdi", { class: "about" }, short(about ?? "", TEXT_MAX)),
    ];
    if (!this.on.hide) return element("div", { class: `head ${kind}`, title: name.length > TEXT_MAX ? shown : name }, ...inner);
    return element("button", {
      type: "button", class: `head ${kind}`, "aria-label": `Hide the ${kind} ${shown}`,
      title: `${shown}${about ? `, ${short(about, TEXT_MAX)}` : ""}: click to hide`, click: () => this.on.hide({ key, kind, name, index }),
    }, ...inner);
  }

  laidOut(anew = false) {
    const room = this.box.clientWidth;
    if (room === 0) return;
    const [least, fits] = room < NARROW ? [64, 5] : [84, 8];
    const gutter = Math.ceil(least + Math.max(0, this.digits - fits) * DIGIT);
    const wide = Math.max(this.least, Math.min(LANE_MAX, Math.floor((room - gutter) / Math.max(this.lanes.length, 1))));
    const total = Math.max(room, gutter + wide * this.lanes.length);
    if (anew || wide !== this.wide || total !== this.total || gutter !== this.gutter) {
      Object.assign(this, { wide, total, gutter });
      this.xOf = new Map(this.lanes.map(({ index }, at) => [index, gutter + wide * at + wide / 2]));
      this.box.style.setProperty("--gutter", `${gutter}px`);
      place(this.heads, { width: total });
      [...this.heads.children].forEach((head, at) => place(head, at === 0 ? { width: gutter } : { left: gutter + wide * (at - 1) + 5, width: wide - 10 }));
      [...this.lines.children].forEach((line, at) => place(line, { left: gutter + wide * at + wide / 2 }));
      this.forget();
    }
    place(this.list, { width: total, height: Math.max(this.rows.length * ROW + ROW, this.box.clientHeight - this.heads.offsetHeight - 1) });
    this.draw();
  }

  // -------------------------------------------------------------------- rows

  forget() {
    for (const made of this.made.values()) made.remove();
    this.made.clear();
  }

  drawSoon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.draw();
      this.on.scrolled?.();
    });
  }

  /** Put the rows in view into the document, and take the others out. */
  draw(all = false) {
    if (!this.xOf) return;
    const first = all ? 0 : Math.max(0, Math.floor(this.box.scrollTop / ROW) - OVERSCAN);
    const last = all ? this.rows.length : Math.min(this.rows.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / ROW) + OVERSCAN);
    const wanted = new Set();
    const fresh = [];
    const add = (key, make) => {
      wanted.add(key);
      if (!this.made.has(key)) {
        const made = make();
        this.made.set(key, made);
        fresh.push(made);
      }
    };
    for (const bar of this.bars) {
      if (bar.from < last && bar.to >= first) add(`b${bar.from}`, () => this.bar(bar));
    }
    for (let index = first; index < last; index++) add(index, () => this.row(this.rows[index], index));
    for (const [key, made] of this.made) {
      if (!wanted.has(key)) {
        made.remove();
        this.made.delete(key);
      }
    }
    this.list.append(...fresh);
    if (this.made.has(this.selected)) this.list.setAttribute("aria-activedescendant", this.made.get(this.selected).id);
    else this.list.removeAttribute("aria-activedescendant");
  }

  row(row, index) {
    if (row.step === undefined) return this.between(row, index);
    const { step } = row;
    const chosen = index === this.selected;
    const made = element("div", {
      class: ["row", colourOf(step.transactional_id), step.error && "error", row.faded && "faded", row.mark].filter(Boolean).join(" "),
      role: "option", id: `${this.uid}-${index}`, "aria-selected": String(chosen), "aria-label": [row.says, sentence(step, this.all)].filter(Boolean).join(": "),
      "aria-setsize": this.rows.length, "aria-posinset": index + 1, "data-index": index,
    }, element("span", { class: "gutter" }, step.transactional_id ? element("i", { class: "dot" }) : null, element("time", {}, moment(step.at_ms))), ...this.drawing(step));
    if (chosen) this.tag(made, step);
    return place(made, { top: index * ROW });
  }

  between({ pause, mark, text }, index) {
    const says = pause === undefined ? text : `${duration(pause)} later`;
    const made = element("div", { class: ["row between", mark].filter(Boolean).join(" "), role: "presentation" }, says && element("span", { class: pause === undefined ? "nothing" : "pause" }, says));
    return place(made, { top: index * ROW });
  }

  drawing(step) {
    const [from, to] = [this.xOf.get(step.source), this.xOf.get(step.target)];
    if (from === undefined || to === undefined) return [];
    return step.source === step.target ? this.chip(step, from) : this.arrow(step, from, to);
  }

  chip(step, x) {
    const [sign, look] = step.kind === "marker_written" ? (step.fields?.commit ? ["✓", "committed"] : ["⊘", "aborted"]) : (SIGNS[step.kind] ?? ["•", "other"]);
    const text = short(step.text, TEXT_MAX);
    const failed = step.error !== "";
    const wide = Math.min(LABEL_MAX, widthOf(text) * (failed || BOLD.has(look) ? BOLDER : 1) + 40);
    const made = element("span", { class: `chip ${failed ? "failed" : look}` }, element("b", { "aria-hidden": "true" }, failed ? "✕" : sign), element("bdi", {}, text));
    return [place(made, { left: this.within(x - wide / 2, wide) })];
  }

  arrow(step, from, to) {
    const text = short(step.text, TEXT_MAX);
    const answer = ANSWERS.has(step.kind) || (step.answer_to !== null && step.answer_to !== undefined);
    const wide = Math.min(LABEL_MAX, widthOf(text) * (step.error ? BOLDER : 1) + (step.error ? 34 : 14));
    return [
      place(element("span", { class: `wire ${to > from ? "right" : "left"}${answer ? " answer" : ""}` }), { left: Math.min(from, to), width: Math.abs(to - from) }),
      place(element("span", { class: "label" }, step.error ? element("b", { "aria-hidden": "true" }, "✕") : null, element("bdi", {}, text)), { left: this.within((from + to) / 2 - wide / 2, wide) }),
    ];
  }

  /** Put the transactional id beside the text of a row; a click on it follows it. Rows have it only while they are pointed at. */
  tag(row, { transactional_id: id }) {
    const label = row.querySelector(".label, .chip");
    if (!this.on.follow || !id || !label || row.querySelector(".tag")) return;
    const far = parseFloat(label.style.left) + label.textContent.length * 8 > this.total - 220;
    label.append(element("bdi", { class: far ? "tag before" : "tag", "data-follow": id, title: `Follow ${short(id, TEXT_MAX)}` }, short(id, 28)));
  }

  pointedAt(event) {
    const row = event.target.closest("[data-index]");
    if (row) this.tag(row, this.rows[Number(row.dataset.index)].step);
  }

  within(left, wide) {
    return Math.max(this.gutter + EDGE, Math.min(left, this.total - wide - EDGE));
  }

  // -------------------------------------------------------------------- how long a lane works on a request

  spans(partner) {
    const bars = [];
    const open = new Map();
    this.rows.forEach(({ step, faded }, index) => {
      if (step === undefined || step.source === step.target) return;
      const other = partner(step);
      const start = other === undefined ? undefined : this.at.get(`s${other.seq}`);
      if (start === undefined || start >= index || step.answer_to !== other.seq) return;
      bars.push({ from: start, to: index, lane: step.source, colour: colourOf(step.transactional_id), faded, failed: step.error !== "" });
    });
    bars.sort((one, other) => one.from - other.from);
    for (const bar of bars) {
      const busy = (open.get(bar.lane) ?? []).filter(({ to }) => to >= bar.from);
      const taken = new Set(busy.map(({ depth }) => depth));
      bar.depth = [0, 1, 2, 3].find((depth) => !taken.has(depth)) ?? BARS_DEEP - 1;
      open.set(bar.lane, [...busy, bar]);
    }
    return bars;
  }

  bar({ from, to, lane, depth, colour, faded }) {
    const x = this.xOf.get(lane);
    const made = element("i", { class: `bar ${colour}${faded ? " faded" : ""}`, "aria-hidden": "true" });
    return place(made, { left: (x ?? -100) - 4 + depth * BAR_STEP, top: from * ROW + 26, height: (to - from) * ROW });
  }

  // -------------------------------------------------------------------- mouse and keys

  clicked(event) {
    const followed = event.target.closest("[data-follow]");
    if (followed) {
      this.on.follow(followed.dataset.follow);
      return;
    }
    const row = event.target.closest("[data-index]");
    if (row) this.select(Number(row.dataset.index), { open: true });
  }

  /** The next row with a step, so many rows away where there are as many; from none it is the first one in view. */
  next(by) {
    const from = this.selected >= 0 ? this.selected : Number.isFinite(by) ? Math.ceil(this.box.scrollTop / ROW) - Math.sign(by) : 0;
    const last = this.rows.length - 1;
    let index = Math.max(0, Math.min(last, from + by));
    const way = index === 0 || (by > 0 && index < last) ? 1 : -1;
    while (this.rows[index] && this.rows[index].step === undefined) index += way;
    return index;
  }

  pressed(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.box.clientHeight / ROW) - 3);
    const moves = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in moves) this.select(this.next(moves[event.key]));
    else if (event.key === "Enter" && this.selected >= 0) this.on.open?.(this.rows[this.selected]);
    else return;
    event.preventDefault();
  }
}
