// A transaction has the same colour everywhere on the page: the colours go round in the order in which ids appear.
const COLOURS = 6;
const given = new Map();

/** The class of a transactional id's colour: "tx-0" to "tx-5", which set --tx; "" without an id. */
export function colourOf(transactionalId) {
  if (transactionalId === null || transactionalId === undefined) return "";
  if (!given.has(transactionalId)) given.set(transactionalId, given.size % COLOURS);
  return `tx-${given.get(transactionalId)}`;
}
