/** The records that the scenarios write and read. */

import { check } from "./interface.mjs";

const PADDING = "x".repeat(86);
const BATCH = 2000;
const SMALL_BATCH = 300; // so that the default number of records fills several

export const value = (i) => `record-${String(i).padStart(6, "0")}-${PADDING}`;

/** The numbers from `first` to before `end`. */
export const range = (first, end) => Array.from({ length: Math.max(0, end - first) }, (_, i) => first + i);

/** Record i goes to partition i % partitions; the offsets given back must follow one another. */
export async function produce(client, options, first, end, idempotent = false) {
  const numbers = range(first, end);
  const records = numbers.map((i) => [i % options.partitions, String(i), value(i)]);
  const offsets = await client.produce(options.topic, records, { compression: options.compression, idempotent });
  check(offsets.length === records.length, `produced ${offsets.length} of ${records.length} records`);
  const following = new Map();
  records.forEach(([partition], n) => {
    const expected = following.get(partition) ?? offsets[n];
    check(offsets[n] === expected, `offset ${offsets[n]} given in partition ${partition}, expected ${expected}`);
    following.set(partition, expected + 1);
  });
}

/**
 * The offsets of records that a client sends as one batch for each partition.
 *
 * @param {import("./interface.mjs").Sending[]} records
 * @param {{pipelined: boolean, idempotent: boolean}} how `pipelined`: without waiting for the answers between.
 * @param {(batch: import("./interface.mjs").Sending[]) => Promise<Map<number, number>>} send
 *   Gives the offset of the first record of each partition.
 * @returns {Promise<number[]>}
 */
export async function inBatches(records, { pipelined, idempotent }, send) {
  const size = idempotent ? SMALL_BATCH : BATCH;
  const answers = [];
  for (let at = 0; at < records.length; at += size) {
    const batch = records.slice(at, at + size);
    const answer = send(batch).then((bases) => offsetsFrom(batch, bases));
    answers.push(pipelined ? answer : await answer);
  }
  return (await Promise.all(answers)).flat();
}

function offsetsFrom(batch, bases) {
  const following = new Map(bases);
  return batch.map(([partition]) => {
    const offset = following.get(partition);
    following.set(partition, offset + 1);
    return offset;
  });
}

/** The records by partition: the expected number, then half a second more for those that should not come. */
export async function read(client, options, topic, isolation, expected) {
  const found = new Map();
  let count = 0;
  let quiet = false;
  const reader = await client.reader(topic, options.partitions, isolation);
  try {
    let end = Date.now() + options.timeout * 1000;
    while (Date.now() < end) {
      if (count >= expected && !quiet) {
        quiet = true;
        end = Date.now() + 500;
      }
      for (const record of await reader.poll(0.1)) {
        if (!found.has(record.partition)) found.set(record.partition, []);
        const before = found.get(record.partition);
        // A member that lost its connection is handed again what it has not marked as consumed.
        if (before.length && record.offset <= before.at(-1).offset) continue;
        before.push(record);
        count += 1;
      }
    }
  } finally {
    await reader.close();
  }
  check(count === expected, `read ${count} records ${isolation}, expected ${expected}`);
  return found;
}
