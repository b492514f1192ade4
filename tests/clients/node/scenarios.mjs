/**
 * The scenarios of the Node clients, played over the interface that each family's program supplies.
 *
 * A program is `PROGRAM --bootstrap HOST:PORT --scenario NAME ...` and prints one line of JSON: see ../README.md.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual, parseArgs } from "node:util";
import { DEFAULTS, Failed, READ_UNCOMMITTED, Unsupported, check, until } from "./interface.mjs";
import { describe } from "./describe.mjs";
import { produce, range, read, value } from "./records.mjs";
import { transactions, txnOffsets, txnTimeout, zombie } from "./transactions.mjs";

const roundTrip = (idempotent) => async (client, options, counts) => {
  await client.createTopic(options.topic, options.partitions, {});
  await produce(client, options, 0, options.records, idempotent);
  const found = await read(client, options, options.topic, READ_UNCOMMITTED, options.records);
  for (const [partition, records] of found) {
    records.forEach((record, offset) => {
      const i = offset * options.partitions + partition;
      const expected = { partition, offset, key: String(i), value: value(i) };
      const said = () => `found ${JSON.stringify(record)}, expected ${JSON.stringify(expected)}`;
      if (!isDeepStrictEqual(record, expected)) throw new Failed(said());
    });
  }
  counts.records = options.records;
};

/** A member that polls and commits until it is told to leave. */
class Joined {
  own = [];
  assigned = new Set();
  failure = null;
  #leaving = false;
  #over;

  constructor(member) {
    this.#over = this.#run(member).catch((error) => {
      this.failure = error;
    });
  }

  async #run(member) {
    while (!this.#leaving) {
      const records = await member.poll(0.1);
      this.own.push(...records.map((record) => Number(record.key)));
      if (records.length) await member.commit();
      this.assigned = member.assigned();
    }
    await member.close();
  }

  async leave() {
    this.#leaving = true;
    const left = await Promise.race([this.#over.then(() => true), sleep(30_000, false, { ref: false })]);
    check(left, "a member did not leave");
    this.check("leaving");
  }

  check(doing) {
    check(this.failure === null, `${doing}: ${describe(this.failure)}`);
  }
}

async function group(client, options, counts) {
  const n = options.records;
  const again = 5;
  await client.createTopic(options.topic, options.partitions, {});
  await produce(client, options, 0, n);
  const join = async () => new Joined(await client.member(options.topic, options.group));
  const wait = async (what, members, holds) => {
    const now = () => `${what} (assigned ${members.map((member) => `[${[...member.assigned]}]`).join(" ")})`;
    await until(options, now, () => {
      for (const member of members) member.check(what);
      return holds();
    });
  };

  const [first, second] = await Promise.all([join(), join()]);
  const seen = () => new Set([...first.own, ...second.own]).size;
  const both = () => first.assigned.union(second.assigned).size === options.partitions;
  const apart = () => first.assigned.size && second.assigned.size && first.assigned.isDisjointFrom(second.assigned);
  await wait("two members to split the partitions", [first, second], () => apart() && both());
  await wait("the first records", [first, second], () => seen() === n);
  await second.leave();
  await wait("one member to take over all partitions", [first], () => first.assigned.size === options.partitions);
  await produce(client, options, n, 2 * n);
  await wait("the second records", [first], () => seen() === 2 * n);
  await first.leave();
  counts.repeated = first.own.length + second.own.length - 2 * n;

  const everywhere = range(0, options.partitions);
  const offsets = await client.groupOffsets(options.group, options.topic, options.partitions);
  const committed = everywhere.map((partition) => offsets.get(partition));
  const ends = await Promise.all(everywhere.map((partition) => client.endOffset(options.topic, partition)));
  check(isDeepStrictEqual(committed, ends), `committed ${committed}, expected ${ends}`);
  await client.commitOutside(options.group, options.topic, 0, ends[0] - again);
  await produce(client, options, 2 * n, 3 * n);
  const third = await join();
  await wait("a new member to resume", [third], () => third.own.length >= n + again);
  await sleep(300);
  await third.leave();
  // the last record of partition 0 before the rewinding
  const last = Math.floor((2 * n - 1) / options.partitions) * options.partitions;
  const rewound = range(0, again).map((i) => last - i * options.partitions);
  const expected = [...rewound.toReversed(), ...range(2 * n, 3 * n)];
  const own = third.own.toSorted((a, b) => a - b);
  check(isDeepStrictEqual(own, expected), `resumed with ${own.length} records, expected exactly ${expected.length}`);
  counts.records = 3 * n + again;
}

/** The steps of the admin scenario, by name; a client leaves out those that it lacks. */
const ADMIN = {
  create: (client, { topic, partitions }) => client.createTopic(topic, partitions, { "retention.ms": "3600000" }),
  "create again": async (client, options) => {
    try {
      await ADMIN.create(client, options);
    } catch (error) {
      check(/exist/i.test(describe(error)), `expected TOPIC_ALREADY_EXISTS, got ${describe(error)}`);
      return;
    }
    throw new Failed("expected TOPIC_ALREADY_EXISTS");
  },
  describe: async (client, { topic, partitions }) => {
    const found = await client.partitions(topic);
    check(isDeepStrictEqual(found, Array(partitions).fill(1)), `partitions ${found}`);
  },
  configs: async (client, { topic }) => {
    const retention = await client.config(topic, "retention.ms");
    const policy = await client.config(topic, "cleanup.policy");
    check(retention === "3600000", `retention.ms ${retention}`);
    check(policy === "delete", `cleanup.policy has not its default: ${policy}`);
  },
  "alter config": async (client, options) => {
    await client.alterConfig(options.topic, "max.message.bytes", "65536");
    const holds = async () => (await client.config(options.topic, "max.message.bytes")) === "65536";
    await until(options, "max.message.bytes", holds);
  },
  "create partitions": async (client, options) => {
    const expected = Array(options.partitions + 2).fill(1);
    await client.createPartitions(options.topic, expected.length);
    const holds = async () => isDeepStrictEqual(await client.partitions(options.topic), expected);
    await until(options, "new partitions", holds);
  },
  "list offsets": async (client, options) => {
    await produce(client, options, 0, 10 * options.partitions);
    const found = [await client.startOffset(options.topic, 0), await client.endOffset(options.topic, 0)];
    check(isDeepStrictEqual(found, [0, 10]), `first and end offset ${found}, expected 0 and 10`);
  },
  "delete records": async (client, { topic }) => {
    await client.deleteRecords(topic, 0, 4);
    const found = await client.startOffset(topic, 0);
    check(found === 4, `first offset ${found}, expected 4`);
  },
  "group offsets": async (client, { topic, group, partitions }) => {
    await client.commitOutside(group, topic, 0, 7);
    check((await client.groups()).has(group), `${group} is not listed`);
    const found = await client.groupOffsets(group, topic, partitions);
    check(isDeepStrictEqual(found, new Map([[0, 7]])), `group offsets ${[...found]}, expected 7 in partition 0`);
  },
  "delete group": async (client, { topic, group, partitions }) => {
    await client.deleteGroup(group);
    const found = await client.groupOffsets(group, topic, partitions);
    check(found.size === 0, `offsets of a deleted group: ${[...found]}`);
  },
  cluster: async (client) => check((await client.brokers()) >= 1, "no brokers"),
  delete: async (client, options) => {
    check((await client.topics()).has(options.topic), `${options.topic} is not listed`);
    await client.deleteTopic(options.topic);
    await until(options, "the topic to be gone", async () => !(await client.topics()).has(options.topic));
  },
};

async function admin(client, options, counts) {
  counts.steps = [];
  for (const [title, step] of Object.entries(ADMIN)) {
    try {
      await step(client, options);
      counts.steps.push(title);
    } catch (error) {
      if (!(error instanceof Unsupported)) throw new Failed(`${title}: ${describe(error)}`, { cause: error });
      console.error(`${title}: this release cannot`);
    }
  }
}

const SCENARIOS = {
  "produce-consume": roundTrip(false),
  idempotent: roundTrip(true),
  group,
  admin,
  transactions,
  "txn-offsets": txnOffsets,
  zombie,
  "txn-timeout": txnTimeout,
};

class Usage extends Error {}

/** The options with the types of their defaults. */
function parse() {
  const names = Object.keys(DEFAULTS);
  const { values } = parseArgs({ options: Object.fromEntries(names.map((name) => [name, { type: "string" }])) });
  const options = { ...DEFAULTS };
  for (const [name, given] of Object.entries(values)) {
    options[name] = typeof DEFAULTS[name] === "number" ? Number(given) : given;
    if (Number.isNaN(options[name])) throw new Usage(`--${name} is a number`);
  }
  if (!options.bootstrap) throw new Usage("--bootstrap is missing");
  if (!SCENARIOS[options.scenario]) throw new Usage(`--scenario is one of ${Object.keys(SCENARIOS).join(", ")}`);
  const { "transactional-id": transactionalId, group: named, ...rest } = options;
  return {
    ...rest,
    group: named || `${options.topic}-group`,
    transactionalId: transactionalId || `${options.topic}-id`,
  };
}

/** What goes wrong inside a client where nobody waits for it. */
const escaped = () =>
  new Promise((_, reject) => {
    process.once("unhandledRejection", reject);
    process.once("uncaughtException", reject);
  });

/**
 * Plays the scenario that the command line names and ends the process.
 *
 * @param {(bootstrap: string) => Promise<import("./interface.mjs").Client>} connect
 */
export async function run(connect) {
  let options;
  try {
    options = parse();
  } catch (error) {
    console.error(error.message);
    process.exit(2);
  }
  const counts = {};
  const { scenario } = options;
  const result = { ok: true, client: "", scenario, seconds: 0, counts, error: null, unsupported: false };
  const play = async () => {
    const client = await connect(options.bootstrap);
    result.client = client.version;
    await SCENARIOS[scenario](client, options, counts);
  };
  const start = performance.now();
  try {
    await Promise.race([play(), escaped()]);
  } catch (error) {
    console.error(error?.stack ?? error); // not all that clients hang on their errors, which can be pages
    const plain = error instanceof Failed || error instanceof Unsupported;
    const failed = { ok: false, error: plain ? error.message : describe(error) };
    Object.assign(result, failed, { unsupported: error instanceof Unsupported });
  }
  result.seconds = Math.round(performance.now() - start) / 1000;
  // without waiting for what a failed scenario left open, but for the line, which may go through a pipe
  const code = result.ok ? 0 : result.unsupported ? 3 : 1;
  process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(code));
}
