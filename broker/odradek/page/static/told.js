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

/** Two windows of one ring as one, the earlier one first. They share a step, from which the times are told. */
export function joined(earlier, later) {
  const first = later.steps[0];
  const shared = earlier.steps.find(({ seq }) => seq === first?.seq);
  const lanes = [...earlier.lanes];
  const index = new Map(lanes.map(({ key }, at) => [key, at]));
  const place = later.lanes.map((lane) => {
    if (!index.has(lane.key)) index.set(lane.key, lanes.push(lane) - 1);
    return index.get(lane.key);
  });
  const last = earlier.steps.at(-1);
  const shift = shared ? shared.at_ms - first.at_ms : (last?.at_ms ?? 0);
  const more = later.steps.filter(({ seq }) => last === undefined || seq > last.seq)
    .map((step) => ({ ...step, at_ms: step.at_ms + shift, source: place[step.source], target: place[step.target] }));
  return { ...later, lanes, steps: [...earlier.steps, ...more], transactions: [...new Set([...earlier.transactions, ...later.transactions])] };
}
