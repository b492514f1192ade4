/** The transactional scenarios. */

import { isDeepStrictEqual } from "node:util";
import { Failed, READ_COMMITTED, READ_UNCOMMITTED, Unsupported, check, until } from "./interface.mjs";
import { describe } from "./describe.mjs";
import { produce, range, read } from "./records.mjs";

const RECORDS_PER_TRANSACTION = 10;

/** Begins a transaction and writes its records, named after it, to all partitions in turn. */
async function send(producer, options, name) {
  await producer.begin();
  const values = range(0, RECORDS_PER_TRANSACTION).map((i) => `${name}-${i}`);
  values.forEach((text, i) => producer.send(options.topic, i % options.partitions, name, text));
  await producer.flush();
  return values;
}

/** The topic must hold exactly these values for a reader of this isolation level, in this order per partition. */
async function expect(client, options, isolation, values) {
  const expected = range(0, options.partitions).map(() => []);
  for (const text of values) expected[Number(text.slice(text.lastIndexOf("-") + 1)) % options.partitions].push(text);
  const records = await read(client, options, options.topic, isolation, values.length);
  const found = expected.map((_, partition) => (records.get(partition) ?? []).map((record) => record.value));
  const said = () => `${isolation} read ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`;
  if (!isDeepStrictEqual(found, expected)) throw new Failed(said());
}

/** True while the last stable offset of partition 0 is behind the end of the log. */
async function holdsBack(client, options) {
  const stable = await client.endOffset(options.topic, 0, READ_COMMITTED);
  return stable < (await client.endOffset(options.topic, 0, READ_UNCOMMITTED));
}

async function refused(producer) {
  try {
    await producer.commit();
  } catch (error) {
    if (error instanceof Unsupported) throw error;
    return describe(error);
  }
  throw new Failed("the commit was not refused");
}

export async function transactions(client, options, counts) {
  await client.createTopic(options.topic, options.partitions, {});
  const producer = await client.transactional(options.transactionalId);
  const everything = [];
  const committed = [];
  for (let n = 0; n < options.transactions; n += 1) {
    const values = await send(producer, options, `t${n}`);
    everything.push(...values);
    if (n % 2 === 0) {
      await producer.commit();
      committed.push(...values);
    } else {
      await producer.abort();
    }
  }
  const last = await send(producer, options, "open");
  await expect(client, options, READ_UNCOMMITTED, [...everything, ...last]);
  await expect(client, options, READ_COMMITTED, committed);
  check(await holdsBack(client, options), "an open transaction does not hold back the last stable offset");
  await producer.commit();
  await expect(client, options, READ_COMMITTED, [...committed, ...last]);
  await producer.close();
  counts.transactions = options.transactions + 1;
  counts.committed_records = committed.length + last.length;
}

export async function txnOffsets(client, options, counts) {
  const output = `${options.topic}-out`;
  for (const topic of [options.topic, output]) await client.createTopic(topic, options.partitions, {});
  await produce(client, options, 0, options.records);
  const producer = await client.transactional(options.transactionalId);
  const recordsMax = Math.max(1, Math.floor(options.records / 20));
  const member = await client.member(options.topic, options.group, recordsMax);
  const end = Date.now() + options.timeout * 1000;
  let copied = 0;
  let made = 0;
  let aborted = 0;
  while (copied < options.records) {
    check(Date.now() < end, `timed out with ${copied} records copied in ${made} transactions`);
    const records = await member.poll(0.1);
    if (!records.length) continue;
    await producer.begin();
    for (const { partition, key, value } of records) producer.send(output, partition, key, value);
    const offsets = new Map(records.map(({ partition, offset }) => [partition, offset + 1]));
    await producer.sendOffsets(options.topic, offsets, member);
    made += 1;
    if (made % 3 === 0) {
      await producer.abort();
      aborted += 1;
      // back to the first of each partition
      for (const { partition, offset } of records.toReversed()) member.seek(partition, offset);
    } else {
      await producer.commit();
      copied += records.length;
    }
  }
  const everywhere = range(0, options.partitions);
  const committed = await client.groupOffsets(options.group, options.topic, options.partitions);
  const ends = await Promise.all(everywhere.map((partition) => client.endOffset(options.topic, partition)));
  const found = everywhere.map((partition) => committed.get(partition));
  check(isDeepStrictEqual(found, ends), `committed ${found}, expected ${ends}`);
  await member.close();
  await producer.close();
  const copies = [...(await read(client, options, output, READ_COMMITTED, options.records)).values()].flat();
  const keys = new Set(copies.map((record) => record.key));
  check(keys.size === options.records, `copied ${keys.size} different records of ${options.records}`);
  Object.assign(counts, { transactions: made, aborted, records: copied });
}

export async function zombie(client, options, counts) {
  await client.createTopic(options.topic, options.partitions, {});
  const old = await client.transactional(options.transactionalId);
  const committed = await send(old, options, "before");
  await old.commit();
  await send(old, options, "zombie");
  const owner = await client.transactional(options.transactionalId);
  counts.fenced = await refused(old);
  committed.push(...(await send(owner, options, "after")));
  await owner.commit();
  await expect(client, options, READ_COMMITTED, committed);
  await owner.close();
}

export async function txnTimeout(client, options, counts) {
  await client.createTopic(options.topic, options.partitions, {});
  const slow = await client.transactional(options.transactionalId, 1500);
  await send(slow, options, "slow");
  await until(options, "the coordinator to abort the transaction", async () => !(await holdsBack(client, options)));
  counts.refused = await refused(slow);
  const following = await client.transactional(options.transactionalId);
  const values = await send(following, options, "next");
  await following.commit();
  await expect(client, options, READ_COMMITTED, values);
  await following.close();
}
