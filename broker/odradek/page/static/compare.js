// Two runs side by side: what is the same in both lies in the same rows, and where they differ first is marked.
import { remember } from "./address.js";
import { details } from "./details.js";
import { element } from "./dom.js";
import { Lanes } from "./lanes.js";
import { Told, aligned } from "./told.js";
import { of, short } from "./text.js";

const LANE_MIN = 108;

export const compare = {
  name: "compare", title: "Two runs",
  offered: (source) => !source.live && source.data.histories.length > 1 && Boolean(source.data.difference),
  show: (main, source, asked) => new Compare(main, source, asked),
};

class Compare {
  constructor(main, source, asked) {
    const { histories, difference } = source.data;
    this.difference = difference;
    this.sides = [0, 1].map((index) => this.side(histories[index], index));
    this.panel = element("aside", { class: "details", "aria-label": "Details of the step", hidden: true });
    main.append(element("section", { class: "compare whole", "aria-label": "Two runs side by side" },
      element("p", { class: "difference" }, element("b", { "aria-hidden": "true" }, "≠ "), element("bdi", {}, short(difference.sentence, 1000))),
      element("div", { class: "tools" },
        element("button", { type: "button", class: "main", disabled: this.first === null, click: () => this.toDifference() }, "Go to the first difference"),
        element("span", { class: "state" }, `${of(difference.pairs.length, "step")} in both`)),
      element("div", { class: "stage" }, element("div", { class: "sides" }, ...this.sides.map(({ box }) => box)), this.panel)));
    const rows = aligned(this.sides[0].told, this.sides[1].told, difference);
    [rows.left, rows.right].forEach((its, index) => this.draw(this.sides[index], its));
    this.keys = (event) => this.pressed(event);
    document.addEventListener("keydown", this.keys);
    this.marked = rows.left.findIndex(({ mark }) => mark === "differs");
    requestAnimationFrame(() => this.open(asked));
  }

  get first() {
    return this.difference.left ?? this.difference.right;
  }

  leave() {
    for (const { lanes } of this.sides) lanes.leave();
    document.removeEventListener("keydown", this.keys);
  }

  asked(wanted) {
    this.open(wanted);
  }

  side(history, index) {
    const told = new Told(history);
    const lanes = new Lanes(`Steps of ${short(history.title, 60)}`, {
      select: ({ step }) => this.chosen(index, step), open: ({ step }) => this.opened(index, step),
    }, { least: LANE_MIN });
    lanes.box.addEventListener("scroll", () => this.scrolled(index), { passive: true });
    const box = element("section", { class: "side" }, element("h2", {}, element("bdi", {}, short(history.title, 120)), element("span", { class: "quiet" }, ` ${of(history.events, "event")}`)), lanes.box);
    return { told, lanes, box };
  }

  draw({ told, lanes }, rows) {
    const all = told.lanes.map((lane, index) => ({ ...lane, index }));
    lanes.show(rows, all, told.lanes, { partner: (step) => told.partner(step) });
  }

  /** Both scroll together. */
  scrolled(index) {
    const [from, to] = [this.sides[index].lanes.box, this.sides[1 - index].lanes.box];
    if (to.scrollTop !== from.scrollTop) to.scrollTop = from.scrollTop;
    if (to.scrollLeft !== from.scrollLeft) to.scrollLeft = from.scrollLeft;
  }

  toDifference() {
    const side = this.difference.left === null ? 1 : 0;
    this.sides[side].lanes.select(this.marked, { middle: true });
  }

  open(wanted) {
    const side = wanted.get("side") === "2" ? 1 : 0;
    const at = wanted.has("step") ? this.sides[side].lanes.at.get(`s${wanted.get("step")}`) : undefined;
    if (at !== undefined) this.sides[side].lanes.select(at, { open: true });
    else if (this.first !== null) this.toDifference();
  }

  chosen(index, step) {
    const other = this.sides[1 - index].lanes;
    const { lanes } = this.sides[index];
    const beside = other.rows[lanes.selected]?.step;
    if (beside) other.mark(beside.seq);
    else other.mark(-1);
    remember({ step: step.seq, side: index === 1 ? 2 : null });
    if (!this.panel.hidden) this.opened(index, step);
  }

  opened(index, step) {
    const { told, lanes } = this.sides[index];
    this.panel.hidden = false;
    this.panel.replaceChildren(...details(step, told, {
      close: () => this.close(lanes), go: (other) => lanes.select(lanes.at.get(`s${other.seq}`)),
    }));
    lanes.inView();
  }

  close(lanes) {
    this.panel.hidden = true;
    this.panel.replaceChildren();
    remember({ step: null, side: null });
    lanes?.list.focus({ preventScroll: true });
  }

  pressed(event) {
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape" && !this.panel.hidden) this.close(this.sides[0].lanes);
    else if (event.key === "d" && this.first !== null) this.toDifference();
  }
}
