// A History (broker/odradek/show/history.py), made ready for looking things up: who answers whom, what matches a search.

/** From so many ms on a pause between two rows is a row of its own. */
export const PAUSE_MS = 250;

/** A History with its indexes. Steps are frozen facts; what is shown of them is decided by `rowsOf`. */
export class Told {
  constructor(history) {
    this.history = history;
    this.lanes = history.lanes;
    this.steps = history.steps;
    this.bySeq = new Map(history.steps.map((step) => [step.seq, step]));
    this.places = new Map(history.steps.map((step, index) => [step.seq, index]));
    this.answers = new Map();
    for (const step of history.steps) {
      if (step.answer_to !== null && step.answer_to !== undefined) this.answers.set(step.answer_to, step);
    }
    this.texts = new Map();
  }

  /** The request that a step answers, or the answer of a request; undefined without one. */
  partner(step) {
    return this.answers.get(step.seq) ?? this.bySeq.get(step.answer_to);
  }

  isAbout(step, transactionalId) {
    return step.transactional_id === transactionalId || this.partner(step)?.transactional_id === transactionalId;
  }

  /** Whether a step, or the request or answer that belongs to it, has all words. */
  matches(step, words) {
    const partner = this.partner(step);
    return this.has(step, words) || (partner !== undefined && this.has(partner, words));
  }

  has(step, words) {
    const text = this.text(step);
    return words.every((word) => text.includes(word));
  }

  text(step) {
    let text = this.texts.get(step.seq);
    if (text === undefined) {
      const { kind, error, transactional_id, fields } = step;
      const lanes = [this.lanes[step.source].name, this.lanes[step.target].name];
      text = [step.text, kind, error, transactional_id, fields?.api, fields?.client_id, step.kip, ...lanes].filter(Boolean).join("\n").toLowerCase();
      this.texts.set(step.seq, text);
    }
    return text;
  }
}

/** The rows to draw: steps that are not filtered out, and long pauses between them.
 *
 * look: {follow: transactional id or null, only: leave the others out, hidden: Set of lane keys, query: text}.
 */
export function rowsOf(told, look) {
  const words = look.query.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [];
  let before = null;
  for (const step of told.steps) {
    const related = look.follow === null || told.isAbout(step, look.follow);
    if (!related && look.only) continue;
    if (look.hidden.size > 0 && (look.hidden.has(told.lanes[step.source].key) || look.hidden.has(told.lanes[step.target].key))) continue;
    if (words.length > 0 && !told.matches(step, words)) continue;
    if (before !== null && step.at_ms - before.at_ms >= PAUSE_MS) rows.push({ pause: step.at_ms - before.at_ms, key: `p${step.seq}` });
    rows.push({ step, faded: !related, key: `s${step.seq}` });
    before = step;
  }
  return rows;
}

/** The lanes to draw, with their place in the History: all that are not hidden; of one transaction alone, those that it uses. */
export function lanesOf(told, look, rows) {
  const used = new Set(rows.flatMap(({ step }) => (step ? [step.source, step.target] : [])));
  const few = look.follow !== null && look.only;
  return told.lanes.map((lane, index) => ({ ...lane, index })).filter(({ key, index }) => !look.hidden.has(key) && (!few || used.has(index)));
}

/** Two windows of one ring as one, the earlier one first; both may have steps of the same number. */
export function joined(earlier, later) {
  const lanes = [...earlier.lanes];
  const index = new Map(lanes.map(({ key }, at) => [key, at]));
  const place = later.lanes.map((lane) => {
    if (!index.has(lane.key)) index.set(lane.key, lanes.push(lane) - 1);
    return index.get(lane.key);
  });
  const last = earlier.steps.at(-1)?.seq ?? -1;
  const shift = later.start_ms - earlier.start_ms;
  const more = later.steps.filter(({ seq }) => seq > last)
    .map((step) => ({ ...step, at_ms: step.at_ms + shift, source: place[step.source], target: place[step.target] }));
  const transactions = [...new Set([...earlier.transactions, ...later.transactions])];
  return { ...later, start_ms: earlier.start_ms, lanes, steps: [...earlier.steps, ...more], transactions };
}

/** The longest part of pairs of numbers in which both sides only grow; the pairs come in the order of their first side. */
function inOrder(pairs) {
  const ends = [];
  const before = new Array(pairs.length);
  pairs.forEach(([, right], at) => {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[ends[middle]][1] < right) low = middle + 1;
      else high = middle;
    }
    before[at] = low > 0 ? ends[low - 1] : undefined;
    ends[low] = at;
  });
  const kept = [];
  for (let at = ends.at(-1); at !== undefined; at = before[at]) kept.push(pairs[at]);
  return kept.reverse();
}

/** The rows of two histories beside each other, equally many: what is the same in both is in the same row where it can be,
 * and where they differ first is in one row, marked. */
export function aligned(left, right, { left: ours, right: theirs, pairs }) {
  const differs = ours !== null || theirs !== null;
  const atLeft = place(left, ours, pairs, 0, theirs);
  const atRight = place(right, theirs, pairs, 1, ours);
  const anchors = differs
    ? [...inOrder(pairs.filter(([l, r]) => l < atLeft && r < atRight)), [ours, theirs], ...inOrder(pairs.filter(([l, r]) => l >= atLeft && r >= atRight))]
    : inOrder(pairs);
  const rows = { left: [], right: [] };
  let [l, r] = [0, 0];
  const upTo = (untilLeft, untilRight) => {
    while (untilLeft > l || untilRight > r) {
      rows.left.push(untilLeft > l ? plain(left.steps[l++]) : blank("l", rows.left.length));
      rows.right.push(untilRight > r ? plain(right.steps[r++]) : blank("r", rows.right.length));
    }
  };
  for (const [one, other] of anchors) {
    const marked = one === ours && other === theirs && differs;
    upTo(indexOf(left, one ?? atLeft), indexOf(right, other ?? atRight));
    rows.left.push(one === null ? missing(rows.left.length) : plain(left.steps[l++], marked));
    rows.right.push(other === null ? missing(rows.right.length) : plain(right.steps[r++], marked));
  }
  upTo(left.steps.length, right.steps.length);
  return rows;
}

const plain = (step, marked = false) => ({ step, key: `s${step.seq}`, ...(marked && { mark: "differs", says: "The first difference" }) });
const blank = (side, at) => ({ key: `${side}${at}` });
const missing = (at) => ({ key: `m${at}`, mark: "differs", text: "nothing more here" });

/** The seq of a side's place of the first difference; where it has nothing there, what follows its last step that is the same. */
function place(told, seq, pairs, side, other) {
  if (seq !== null) return seq;
  const same = pairs.filter((pair) => pair[1 - side] < other).map((pair) => pair[side]);
  const last = same.reduce((most, each) => Math.max(most, each), -1);
  return told.steps.find((step) => step.seq > last)?.seq ?? Infinity;
}

/** Where a step is among those of its history; behind the last for one that is not there. */
const indexOf = (told, seq) => told.places.get(seq) ?? told.steps.length;
