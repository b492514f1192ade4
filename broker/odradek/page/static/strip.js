// A partition as a strip: its newest batches in the order of their offsets, oldest on the left.
import { drawn } from "./dom.js";
import { counted } from "./text.js";

const HEIGHT = 22;
const TOP = 4;
const MARK = 14;
const GAP = 3;
const HOLE = 12;

const widthOf = ({ records }) => Math.min(44, 10 + 6 * Math.log2(1 + records));

/** What became of each batch: data is open, committed or aborted, by the next marker of its producer. */
export function fates(batches, openTransactions) {
  const open = new Map(openTransactions.map((each) => [each.producer_id, each.first_offset]));
  const next = new Map();
  const found = new Map();
  for (const batch of [...batches].reverse()) {
    if (batch.marker !== null) next.set(batch.producer_id, batch.marker);
    else if (!batch.transactional) found.set(batch, "plain");
    else if (batch.base_offset >= (open.get(batch.producer_id) ?? Infinity)) found.set(batch, "open");
    else found.set(batch, next.get(batch.producer_id) === "ABORT" ? "aborted" : "committed");
  }
  return found;
}

const offsets = ({ base_offset: first, last_offset: last }) => (first === last ? `offset ${first}` : `offsets ${first} to ${last}`);

/** A batch in words. */
export function batchText(batch, fate, who) {
  const by = who === null ? "" : ` of ${who}`;
  if (batch.marker !== null) return `${batch.marker} marker${by}, ${offsets(batch)}`;
  if (batch.records === 0) return `a batch without records${by}, ${offsets(batch)}`;
  const what = fate === "plain" ? "" : `, ${fate}`;
  return `${counted(batch.records)} record${batch.records === 1 ? "" : "s"}${by}${what}, ${offsets(batch)}`;
}

/** The picture. `whoOf(batch)` names its producer or is null; `colourOf(batch)` is a class. */
export function strip(view, whoOf, classOf) {
  const fate = fates(view.last_batches, view.open_transactions);
  const shapes = [];
  const places = new Map(); // where an offset begins
  let x = GAP;
  let next = view.last_batches[0]?.base_offset ?? view.log_end_offset;
  for (const batch of view.last_batches) {
    if (batch.base_offset > next) {
      shapes.push(hole(x, batch.base_offset - next, next));
      x += HOLE + GAP;
    }
    places.set(batch.base_offset, x - GAP / 2);
    const width = batch.marker !== null ? MARK : widthOf(batch);
    const title = drawn("title", {}, batchText(batch, fate.get(batch), whoOf(batch)));
    shapes.push(batch.marker !== null ? marker(x, batch, classOf(batch), title) : data(x, width, batch, fate.get(batch), classOf(batch), title));
    x += width + GAP;
    next = batch.last_offset + 1;
  }
  places.set(next, x - GAP / 2);
  const width = Math.ceil(x + GAP);
  const lines = [line(places, view.last_stable_offset, "lso"), line(places, view.high_watermark, "hw")];
  return drawn("svg", { class: "strip", viewBox: `0 0 ${width} ${HEIGHT + 2 * TOP}`, width, height: HEIGHT + 2 * TOP, role: "img", "aria-label": summary(view, fate) },
    ...shapes, ...lines);
}

function summary(view, fate) {
  const kinds = [...fate.values()];
  const counts = [...new Set(kinds)].map((kind) => `${kinds.filter((each) => each === kind).length} ${kind}`);
  const markers = view.last_batches.filter(({ marker }) => marker !== null).length;
  return `${view.last_batches.length} newest batches of ${view.topic}-${view.partition}: ${[...counts, `${markers} markers`].join(", ")}`;
}

function data(x, width, batch, fate, colour, title) {
  const shape = { x, y: TOP, width, height: HEIGHT, rx: 3 };
  if (batch.records === 0) return drawn("g", { class: "batch bare" }, title, drawn("rect", { ...shape, y: TOP + HEIGHT / 3, height: HEIGHT / 3 }));
  const group = drawn("g", { class: `batch ${fate} ${colour}` }, title, drawn("rect", shape));
  if (fate === "aborted") group.append(drawn("line", { x1: x + 2, y1: TOP + HEIGHT - 2, x2: x + width - 2, y2: TOP + 2 }));
  return group;
}

function marker(x, { marker: kind }, colour, title) {
  const half = MARK / 2;
  const middle = TOP + HEIGHT / 2;
  const points = [[x + half, middle - half - 1], [x + MARK, middle], [x + half, middle + half + 1], [x, middle]];
  return drawn("g", { class: `marker ${kind.toLowerCase()} ${colour}` }, title,
    drawn("polygon", { points: points.map((point) => point.join(",")).join(" ") }),
    drawn("text", { x: x + half, y: middle + 3.5, "text-anchor": "middle" }, kind === "COMMIT" ? "C" : "A"));
}

function hole(x, missing, from) {
  const title = drawn("title", {}, `${counted(missing)} offset${missing === 1 ? "" : "s"} without a batch, from ${from}`);
  return drawn("g", { class: "hole" }, title, drawn("rect", { x, y: TOP, width: HOLE, height: HEIGHT }),
    drawn("line", { x1: x, x2: x + HOLE, y1: TOP + HEIGHT / 2, y2: TOP + HEIGHT / 2 }));
}

function line(places, offset, name) {
  const x = places.get(offset);
  return x === undefined ? null : drawn("line", { class: name, x1: x, x2: x, y1: 0, y2: HEIGHT + 2 * TOP });
}
