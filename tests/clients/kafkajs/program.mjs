/** One scenario of KafkaJS, with the codecs that it leaves to others. */

import { setTimeout as sleep } from "node:timers/promises";
import { zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { lz4Compress, lz4Decompress, snappyCompress, snappyDecompress } from "@platformatic/wasm-utils";
import kafkajs from "kafkajs";
import { READ_COMMITTED, READ_UNCOMMITTED, check, installed, security } from "../node/interface.mjs";
import { inBatches } from "../node/records.mjs";
import { run } from "../node/scenarios.mjs";

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, Partitioners, logLevel } = kafkajs;

// Retries start at 300 ms and double up to 30 s if nobody says. They must not become much shorter either: a send to
// several brokers is repeated as soon as one of them refuses, also to those that have not answered yet.
const RETRY = { initialRetryTime: 100, multiplier: 1.5, maxRetryTime: 500, retries: 60 };
const FETCH_WAIT_MS = 100; // 5 s if nobody says, and a consumer that leaves waits for its fetches
const TOO_LATE = new Set(["REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"]);
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};

const codec = (compress, decompress) => () => ({
  compress: async (encoder) => Buffer.from(compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(decompress(buffer)),
});
CompressionCodecs[CompressionTypes.Snappy] = codec(snappyCompress, snappyDecompress);
CompressionCodecs[CompressionTypes.LZ4] = codec(lz4Compress, lz4Decompress);
CompressionCodecs[CompressionTypes.ZSTD] = codec(zstdCompressSync, zstdDecompressSync);

/** A consumer, which is always one of a group. KafkaJS hands out batches; here they are asked for. */
class Consuming {
  group;
  #consumer;
  #topic;
  #recordsMax;
  #assigned = new Set();
  #positions = new Map();
  #offered = null;
  #release = () => {};
  #wake = () => {};

  constructor(consumer, group, topic, recordsMax) {
    this.group = group;
    this.#consumer = consumer;
    this.#topic = topic;
    this.#recordsMax = recordsMax;
  }

  async start() {
    const { GROUP_JOIN, REBALANCING } = this.#consumer.events;
    this.#consumer.on(GROUP_JOIN, ({ payload }) => this.#assign(payload.memberAssignment[this.#topic] ?? []));
    this.#consumer.on(REBALANCING, () => this.#assign([]));
    await this.#consumer.connect();
    await this.#consumer.subscribe({ topics: [this.#topic], fromBeginning: true });
    await this.#consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: (handed) => this.#eachBatch(handed),
    });
    return this;
  }

  #assign(partitions) {
    this.#assigned = new Set(partitions);
    this.#positions.clear();
  }

  /** Offers a batch in parts; each counts as consumed when the next one is asked for. */
  async #eachBatch({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
    const going = () => isRunning() && !isStale();
    for (let at = 0; at < batch.messages.length; at += this.#recordsMax) {
      const part = batch.messages.slice(at, at + this.#recordsMax);
      let consumed = false;
      const released = new Promise((resolve) => {
        const release = () => resolve((consumed = true));
        this.#offered = { records: part.map((message) => record(batch.partition, message)), release };
      });
      this.#wake();
      try {
        while (!consumed && going()) {
          await heartbeat();
          await Promise.race([released, sleep(FETCH_WAIT_MS)]);
        }
      } finally {
        this.#offered = null;
      }
      if (!going()) return;
      resolveOffset(part.at(-1).offset);
    }
  }

  async poll(seconds) {
    this.#release();
    this.#release = () => {};
    if (!this.#offered) {
      const offered = new Promise((resolve) => (this.#wake = resolve));
      await Promise.race([offered, sleep(seconds * 1000)]);
    }
    if (!this.#offered) return [];
    const { records, release } = this.#offered;
    this.#offered = null;
    this.#release = release;
    for (const { partition, offset } of records) this.#positions.set(partition, offset + 1);
    return records;
  }

  assigned() {
    return this.#assigned;
  }

  async commit() {
    const topic = this.#topic;
    const offsets = [...this.#positions].map(([partition, offset]) => ({ topic, partition, offset: String(offset) }));
    try {
      if (offsets.length) await this.#consumer.commitOffsets(offsets);
    } catch (error) {
      if (!TOO_LATE.has((error.cause ?? error).type)) throw error;
    }
  }

  seek(partition, offset) {
    this.#consumer.seek({ topic: this.#topic, partition, offset: String(offset) });
    this.#positions.set(partition, offset);
  }

  async close() {
    await this.#consumer.disconnect();
  }
}

const record = (partition, { offset, key, value }) => {
  return { partition, offset: Number(offset), key: String(key), value: String(value) };
};

const message = ([partition, key, value]) => ({ partition, key, value });

class Transactions {
  #producer;
  #transaction;
  #begun = true;
  #sending = new Map();
  #acknowledge;

  constructor(producer, acknowledge) {
    this.#producer = producer;
    this.#acknowledge = acknowledge;
  }

  async start() {
    await this.#producer.connect();
    // the id is initialised with the first transaction, which says nothing more to the broker before it is used
    this.#transaction = await this.#producer.transaction();
    return this;
  }

  async begin() {
    if (!this.#begun) this.#transaction = await this.#producer.transaction();
    this.#begun = false;
  }

  send(topic, ...sending) {
    if (!this.#sending.has(topic)) this.#sending.set(topic, []);
    this.#sending.get(topic).push(message(sending));
  }

  async flush() {
    for (const [topic, messages] of this.#sending) {
      this.#acknowledge(messages, await this.#transaction.send({ topic, messages }));
    }
    this.#sending.clear();
  }

  async sendOffsets(topic, offsets, member) {
    await this.flush();
    const partitions = [...offsets].map(([partition, offset]) => ({ partition, offset: String(offset) }));
    await this.#transaction.sendOffsets({ consumerGroupId: member.group, topics: [{ topic, partitions }] });
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
    await this.#producer.disconnect();
  }
}

class KafkaJS {
  version = `kafkajs ${installed(import.meta.url, "kafkajs")}`;
  #kafka;
  #admin;
  #readers = 0;
  #acknowledged = new Map();

  constructor(bootstrap) {
    const { ca, mechanism, username, password } = security() ?? {};
    this.#kafka = new Kafka({
      ...(ca ? { ssl: { ca: [ca] }, sasl: { mechanism: mechanism.toLowerCase(), username, password } } : {}),
      clientId: "checked",
      brokers: bootstrap.split(","),
      retry: RETRY,
      logLevel: logLevel.ERROR,
      logCreator: () => ({ namespace, label, log }) => console.error(label, namespace, log.message),
    });
    this.#admin = this.#kafka.admin();
  }

  async start() {
    await this.#admin.connect();
    return this;
  }

  #producer(settings) {
    return this.#kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, ...settings });
  }

  async produce(topic, records, { compression, idempotent }) {
    check(compression in CODECS, `unknown compression ${compression}`);
    const producer = this.#producer({ idempotent, maxInFlightRequests: 1 });
    await producer.connect();
    // One after the other, because sends at the same time are not kept in order: the last one overtakes the one before.
    const offsets = await inBatches(records, { pipelined: false, idempotent }, async (batch) => {
      const messages = batch.map(message);
      const answers = await producer.send({ topic, messages, acks: -1, compression: CODECS[compression] });
      return new Map(answers.map(({ partition, baseOffset }) => [partition, Number(baseOffset)]));
    });
    await producer.disconnect();
    return offsets;
  }

  #consuming(topic, groupId, recordsMax, settings) {
    const consumer = this.#kafka.consumer({
      groupId,
      retry: RETRY,
      heartbeatInterval: 300,
      sessionTimeout: 6000,
      maxWaitTimeInMs: FETCH_WAIT_MS,
      ...settings,
    });
    return new Consuming(consumer, groupId, topic, recordsMax).start();
  }

  reader(topic, _partitions, isolation) {
    this.#readers += 1;
    const readUncommitted = isolation === READ_UNCOMMITTED;
    return this.#consuming(topic, `${topic}-reader-${this.#readers}`, Infinity, { readUncommitted });
  }

  member(topic, group, recordsMax = 500) {
    return this.#consuming(topic, group, recordsMax, {});
  }

  transactional(transactionalId, timeoutMs = 60_000) {
    const settings = { transactionalId, transactionTimeout: timeoutMs, idempotent: true, maxInFlightRequests: 1 };
    const acknowledge = (messages, answers) => this.#acknowledge(messages, answers);
    return new Transactions(this.#producer(settings), acknowledge).start();
  }

  #acknowledge(messages, answers) {
    for (const { topicName, partition, baseOffset } of answers) {
      const count = messages.filter((sent) => sent.partition === partition).length;
      this.#acknowledged.set(`${topicName}-${partition}`, Number(baseOffset) + count);
    }
  }

  async createTopic(topic, partitions, configs) {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }));
    const topics = [{ topic, numPartitions: partitions, replicationFactor: 1, configEntries }];
    if (!(await this.#admin.createTopics({ topics }))) throw new Error(`TOPIC_ALREADY_EXISTS: ${topic}`);
  }

  async deleteTopic(topic) {
    await this.#admin.deleteTopics({ topics: [topic] });
  }

  async topics() {
    return new Set(await this.#admin.listTopics());
  }

  async partitions(topic) {
    const { topics } = await this.#admin.fetchTopicMetadata({ topics: [topic] });
    return topics[0].partitions.filter(({ leader }) => leader >= 0).map(({ isr }) => isr.length);
  }

  async config(topic, name) {
    const wanted = { type: ConfigResourceTypes.TOPIC, name: topic, configNames: [name] };
    const { resources } = await this.#admin.describeConfigs({ resources: [wanted], includeSynonyms: false });
    return resources[0].configEntries.find(({ configName }) => configName === name).configValue;
  }

  async alterConfig(topic, name, value) {
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name, value }] };
    await this.#admin.alterConfigs({ validateOnly: false, resources: [resource] });
  }

  async createPartitions(topic, total) {
    await this.#admin.createPartitions({ topicPartitions: [{ topic, count: total }] });
  }

  async #offsets(topic, partition) {
    return (await this.#admin.fetchTopicOffsets(topic)).find((offsets) => offsets.partition === partition);
  }

  async startOffset(topic, partition) {
    return Number((await this.#offsets(topic, partition)).low);
  }

  /** KafkaJS asks for the last stable offset only; what a producer was told lies behind it in an open transaction. */
  async endOffset(topic, partition, isolation = READ_UNCOMMITTED) {
    const stable = Number((await this.#offsets(topic, partition)).high);
    if (isolation === READ_COMMITTED) return stable;
    return Math.max(stable, this.#acknowledged.get(`${topic}-${partition}`) ?? 0);
  }

  async deleteRecords(topic, partition, before) {
    await this.#admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] });
  }

  async groups() {
    return new Set((await this.#admin.listGroups()).groups.map(({ groupId }) => groupId));
  }

  async groupOffsets(groupId, topic, _partitions) {
    const [{ partitions }] = await this.#admin.fetchOffsets({ groupId, topics: [topic] });
    const offsets = partitions.map(({ partition, offset }) => [partition, Number(offset)]);
    return new Map(offsets.filter(([, offset]) => offset >= 0));
  }

  /** Takes more than 5 s: KafkaJS joins the group for it, and waits for a fetch with its own default. */
  async commitOutside(groupId, topic, partition, offset) {
    await this.#admin.setOffsets({ groupId, topic, partitions: [{ partition, offset: String(offset) }] });
  }

  async deleteGroup(groupId) {
    await this.#admin.deleteGroups([groupId]);
  }

  async brokers() {
    return (await this.#admin.describeCluster()).brokers.length;
  }
}

await run((bootstrap) => new KafkaJS(bootstrap).start());
