/** One scenario of @platformatic/kafka. */

import { setTimeout as sleep } from "node:timers/promises";
import * as platformatic from "@platformatic/kafka";
import { READ_COMMITTED, READ_UNCOMMITTED, check, installed, security } from "../node/interface.mjs";
import { inBatches } from "../node/records.mjs";
import { run } from "../node/scenarios.mjs";

const { Admin, Consumer, MessagesStreamFallbackModes, MessagesStreamModes, Producer, ProduceAcks } = platformatic;

const RELEASE = installed(import.meta.url, "@platformatic/kafka");
const ISOLATION = { [READ_UNCOMMITTED]: 0, [READ_COMMITTED]: 1 };
const TOPIC_RESOURCE = 2;
const SET = 0;
const EARLIEST = -2n;
const LATEST = -1n;
const CONTROL = 1 << 5;
const ABORT = 0;
const TOO_LATE = ["REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"];

// Releases before 2 take the sequence number of a batch when it is made and move it when it is answered: two batches on
// their way would have the same one.
const PIPELINED = !RELEASE.startsWith("1.");

// The client asks for producer id 0, epoch 0 instead of -1, -1 if nobody says: that is a claim to own them, which a
// broker refuses once it knows the transactional id with others.
const NO_PRODUCER = { producerId: -1n, producerEpoch: -1 };

const record = (partition, offset, { key, value }) => {
  return { partition, offset: Number(offset), key: String(key), value: String(value) };
};

const inside = (partition, { firstOffset, records }) =>
  records.map((one) => record(partition, firstOffset + BigInt(one.offsetDelta), one));

/**
 * The records of a fetched partition without control records and aborted ones.
 *
 * The client takes out only one range for each producer and fetch, the last, and none if its marker is not in the same
 * fetch. What it leaves over of what the broker named as aborted goes here.
 */
function visible({ partitionIndex, records: batches, abortedTransactions }) {
  const ahead = [...(abortedTransactions ?? [])].sort((a, b) => Number(a.firstOffset - b.firstOffset));
  const aborting = new Set();
  const found = [];
  for (const batch of batches ?? []) {
    const last = batch.firstOffset + BigInt(batch.lastOffsetDelta);
    while (ahead.length && ahead[0].firstOffset <= last) aborting.add(ahead.shift().producerId);
    if (batch.attributes & CONTROL) {
      if (batch.records[0].key.readInt16BE(2) === ABORT) aborting.delete(batch.producerId);
    } else if (!aborting.has(batch.producerId)) {
      found.push(...inside(partitionIndex, batch));
    }
  }
  return found;
}

/** Fetches without a group, which the client's streams cannot do. */
class Fetching {
  #consumer;
  #topic;
  #isolation;
  #following;

  constructor(consumer, topic, partitions, isolation) {
    this.#consumer = consumer;
    this.#topic = topic;
    this.#isolation = ISOLATION[isolation];
    this.#following = Array(partitions).fill(0n);
    consumer.topics.track(topic); // else the client knows no name for the topic id, which an older broker wants
  }

  async poll(seconds) {
    const metadata = await this.#consumer.metadata({ topics: [this.#topic] });
    const { id, partitions } = metadata.topics.get(this.#topic);
    const byLeader = Map.groupBy(this.#following.keys(), (partition) => partitions[partition].leader);
    const answers = [...byLeader].map(([node, led]) => this.#fetch(node, id, led, seconds));
    return (await Promise.all(answers)).flat();
  }

  async #fetch(node, topicId, led, seconds) {
    const partitions = led.map((partition) => ({
      partition,
      fetchOffset: this.#following[partition],
      partitionMaxBytes: 1 << 20,
      currentLeaderEpoch: -1,
      lastFetchedEpoch: -1,
    }));
    const { responses } = await this.#consumer.fetch({
      node,
      topics: [{ topicId, partitions }],
      isolationLevel: this.#isolation,
      maxWaitTime: seconds * 1000,
    });
    return responses.flatMap((topic) => topic.partitions.flatMap((partition) => this.#take(partition)));
  }

  #take(partition) {
    const from = this.#following[partition.partitionIndex];
    const last = partition.records?.at(-1);
    if (last) this.#following[partition.partitionIndex] = last.firstOffset + BigInt(last.lastOffsetDelta) + 1n;
    return visible(partition).filter(({ offset }) => offset >= from);
  }

  async close() {
    await this.#consumer.close();
  }
}

/** A member of a group, which reads a stream. */
class Consuming {
  consumer;
  #topic;
  #recordsMax;
  #stream;
  #failure = null;
  #wake = () => {};
  #polled = new Map();
  #rewound = new Map();

  constructor(consumer, topic, recordsMax) {
    this.consumer = consumer;
    this.#topic = topic;
    this.#recordsMax = recordsMax;
  }

  async start(from) {
    this.#stream = await this.consumer.consume({
      topics: [this.#topic],
      autocommit: false,
      maxWaitTime: 100,
      ...from,
    });
    this.#stream.on("readable", () => this.#wake());
    this.#stream.on("error", (error) => {
      this.#failure = error;
      this.#wake();
    });
    return this;
  }

  /** What the member has polled last from a partition, as the client gave it. */
  last(partition) {
    return this.#polled.get(partition);
  }

  async poll(seconds) {
    if (this.#rewound.size) await this.#reopen();
    const found = this.#read();
    if (found.length || this.#failure) return found;
    const readable = new Promise((resolve) => (this.#wake = resolve));
    await Promise.race([readable, sleep(seconds * 1000)]);
    return this.#read();
  }

  #read() {
    if (this.#failure) throw this.#failure;
    const found = [];
    while (found.length < this.#recordsMax) {
      const message = this.#stream.read();
      if (message === null) break;
      if (!this.assigned().has(message.partition)) continue; // read ahead, before a rebalance
      this.#polled.set(message.partition, message);
      found.push(record(message.partition, message.offset, message));
    }
    return found;
  }

  assigned() {
    return new Set(this.consumer.assignments?.find(({ topic }) => topic === this.#topic)?.partitions);
  }

  async commit() {
    const polled = [...this.#polled].filter(([partition]) => this.assigned().has(partition));
    this.#polled.clear();
    const offsets = polled.map(([partition, { offset }]) => {
      return { topic: this.#topic, partition, offset: offset + 1n, leaderEpoch: -1 };
    });
    try {
      if (offsets.length) await this.consumer.commit({ offsets });
    } catch (error) {
      if (!TOO_LATE.some((id) => error.findBy?.("apiId", id))) throw error;
    }
  }

  seek(partition, offset) {
    this.#rewound.set(partition, BigInt(offset));
  }

  /** A stream cannot seek: another one begins where this one is, but for what was rewound. */
  async #reopen() {
    const following = new Map();
    for (const [key, offset] of this.#stream.offsetsToFetch) {
      following.set(Number(key.slice(key.lastIndexOf(":") + 1)), offset);
    }
    const ahead = new Set();
    for (let message = this.#stream.read(); message !== null; message = this.#stream.read()) {
      if (!ahead.has(message.partition)) following.set(message.partition, message.offset);
      ahead.add(message.partition);
    }
    for (const [partition, offset] of this.#rewound) following.set(partition, offset);
    this.#rewound.clear();
    this.#polled.clear();
    await this.#stream.close();
    const offsets = [...following].map(([partition, offset]) => ({ topic: this.#topic, partition, offset }));
    await this.start({ mode: MessagesStreamModes.MANUAL, offsets });
  }

  async close() {
    await this.consumer.close(true);
  }
}

class Transactions {
  #producer;
  #transaction = null;
  #begun = true;
  #sending = [];

  constructor(producer) {
    this.#producer = producer;
  }

  async start() {
    // the id is initialised with the first transaction, which says nothing more to the broker before it is used
    this.#transaction = await this.#producer.beginTransaction();
    return this;
  }

  async begin() {
    if (!this.#begun) this.#transaction = await this.#producer.beginTransaction();
    this.#begun = false;
  }

  send(topic, partition, key, value) {
    this.#sending.push({ topic, partition, key: Buffer.from(key), value: Buffer.from(value) });
  }

  async flush() {
    const messages = this.#sending;
    this.#sending = [];
    if (messages.length) await this.#transaction.send({ messages });
  }

  async sendOffsets(topic, offsets, member) {
    await this.flush();
    await this.#transaction.addConsumer(member.consumer);
    // one after the other: the client takes calls at the same time for the same call
    for (const [partition, offset] of offsets) {
      const message = member.last(partition);
      check(Number(message.offset) + 1 === offset, `offset ${offset} is not behind what was polled last`);
      await this.#transaction.addOffset(message);
    }
  }

  async commit() {
    await this.flush();
    await this.#transaction.commit();
  }

  async abort() {
    await this.flush();
    await this.#transaction.abort();
  }

  async close() {
    await this.#producer.close();
  }
}

class Platformatic {
  version = `@platformatic/kafka ${RELEASE}`;
  #settings;
  #admin;
  #readers = 0;

  constructor(bootstrap) {
    const { ca, ...sasl } = security() ?? {};
    this.#settings = {
      ...(ca ? { tls: { ca: [ca] }, sasl } : {}),
      clientId: "checked",
      bootstrapBrokers: bootstrap.split(","),
      retries: 50,
      retryDelay: 100,
    };
    this.#admin = new Admin(this.#settings);
  }

  async produce(topic, records, { compression, idempotent }) {
    const producer = new Producer({ ...this.#settings, idempotent, acks: ProduceAcks.ALL, compression });
    const pipelined = idempotent && PIPELINED;
    const offsets = await inBatches(records, { pipelined, idempotent }, async (batch) => {
      const messages = batch.map(([partition, key, value]) => {
        return { topic, partition, key: Buffer.from(key), value: Buffer.from(value) };
      });
      const answer = await producer.send({ messages, acks: ProduceAcks.ALL });
      return new Map(answer.offsets.map(({ partition, offset }) => [partition, Number(offset)]));
    });
    await producer.close();
    return offsets;
  }

  async reader(topic, partitions, isolation) {
    this.#readers += 1;
    const consumer = new Consumer({ ...this.#settings, groupId: `${topic}-reader-${this.#readers}` });
    return new Fetching(consumer, topic, partitions, isolation);
  }

  member(topic, group, recordsMax = 500) {
    const consumer = new Consumer({
      ...this.#settings,
      groupId: group,
      heartbeatInterval: 300,
      sessionTimeout: 6000,
      rebalanceTimeout: 10_000,
    });
    const from = { mode: MessagesStreamModes.COMMITTED, fallbackMode: MessagesStreamFallbackModes.EARLIEST };
    return new Consuming(consumer, topic, recordsMax).start(from);
  }

  transactional(transactionalId, timeoutMs = 60_000) {
    // what the client names `timeout` is also the transaction's
    const settings = { idempotent: true, transactionalId, timeout: timeoutMs, ...NO_PRODUCER };
    return new Transactions(new Producer({ ...this.#settings, ...settings })).start();
  }

  async createTopic(topic, partitions, configs) {
    const named = Object.entries(configs).map(([name, value]) => ({ name, value }));
    await this.#admin.createTopics({ topics: [topic], partitions, replicas: 1, configs: named });
  }

  async deleteTopic(topic) {
    await this.#admin.deleteTopics({ topics: [topic] });
  }

  async topics() {
    return new Set(await this.#admin.listTopics());
  }

  async partitions(topic) {
    const metadata = await this.#admin.metadata({ topics: [topic], forceUpdate: true });
    return metadata.topics.get(topic).partitions.filter(({ leader }) => leader >= 0).map(({ isr }) => isr.length);
  }

  async config(topic, name) {
    const resource = { resourceType: TOPIC_RESOURCE, resourceName: topic, configurationKeys: [name] };
    const [{ configs }] = await this.#admin.describeConfigs({ resources: [resource] });
    return configs.find((config) => config.name === name).value;
  }

  async alterConfig(topic, name, value) {
    const configs = [{ name, configOperation: SET, value }];
    const resource = { resourceType: TOPIC_RESOURCE, resourceName: topic, configs };
    await this.#admin.incrementalAlterConfigs({ resources: [resource] });
  }

  async createPartitions(topic, total) {
    await this.#admin.createPartitions({ topics: [{ name: topic, count: total }] });
  }

  async #offset(topic, partition, timestamp, isolation) {
    const partitions = [{ partitionIndex: partition, timestamp }];
    const asked = { topics: [{ name: topic, partitions }], isolationLevel: ISOLATION[isolation] };
    const [answer] = await this.#admin.listOffsets(asked);
    return Number(answer.partitions[0].offset);
  }

  startOffset(topic, partition) {
    return this.#offset(topic, partition, EARLIEST, READ_UNCOMMITTED);
  }

  endOffset(topic, partition, isolation = READ_UNCOMMITTED) {
    return this.#offset(topic, partition, LATEST, isolation);
  }

  async deleteRecords(topic, partition, before) {
    await this.#admin.deleteRecords({ topics: [{ name: topic, partitions: [{ partition, offset: BigInt(before) }] }] });
  }

  async groups() {
    return new Set((await this.#admin.listGroups()).keys());
  }

  async groupOffsets(groupId, topic, partitions) {
    const partitionIndexes = [...Array(partitions).keys()];
    const groups = [{ groupId, topics: [{ name: topic, partitionIndexes }] }];
    const [answer] = await this.#admin.listConsumerGroupOffsets({ groups });
    const found = answer.topics.flatMap((one) => one.partitions);
    const offsets = found.map(({ partitionIndex, committedOffset }) => [partitionIndex, Number(committedOffset)]);
    return new Map(offsets.filter(([, offset]) => offset >= 0));
  }

  async commitOutside(groupId, topic, partition, offset) {
    const topics = [{ name: topic, partitionOffsets: [{ partition, offset: BigInt(offset) }] }];
    await this.#admin.alterConsumerGroupOffsets({ groupId, topics });
  }

  async deleteGroup(groupId) {
    await this.#admin.deleteGroups({ groups: [groupId] });
  }

  async brokers() {
    return (await this.#admin.metadata({ topics: [] })).brokers.size;
  }
}

await run(async (bootstrap) => new Platformatic(bootstrap));
