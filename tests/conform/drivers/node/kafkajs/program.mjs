/** KafkaJS. */

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import kafkajs from "kafkajs";
import { Driver, Unsupported, run } from "./driver.mjs";

const { Kafka, Partitioners, logLevel } = kafkajs;
const ACKS = { 0: 0, 1: 1, all: -1, "-1": -1 };
const KNOWN = `client.id transactional.id transaction.timeout.ms enable.idempotence acks retries retry.backoff.ms
 retry.backoff.max.ms request.timeout.ms metadata.max.age.ms max.in.flight.requests.per.connection group.id
 session.timeout.ms heartbeat.interval.ms isolation.level auto.offset.reset enable.auto.commit fetch.max.wait.ms`.split(/\s+/);

const installed = (name) => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;
const given = (settings) => Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
const message = ({ partition, key, value }) => given({ partition, key, value });

/** A member of a group: KafkaJS hands out batches, here they are asked for record by record. */
class Consuming {
  ahead = [];
  positions = new Map();

  constructor(consumer) {
    this.consumer = consumer;
  }

  async subscribe(topics, fromBeginning) {
    await this.consumer.connect();
    for (const topic of topics) await this.consumer.subscribe({ topic, fromBeginning });
    const eachMessage = async ({ topic, partition, message: { offset, key, value } }) => {
      this.ahead.push({ topic, partition, offset: Number(offset), key: key && String(key), value: String(value) });
    };
    await this.consumer.run({ autoCommit: false, eachMessage });
  }

  async poll(max, timeout_ms) {
    const end = Date.now() + timeout_ms;
    while (this.ahead.length < max && Date.now() < end) await sleep(5);
    const records = this.ahead.splice(0, max);
    for (const { topic, partition, offset } of records) this.positions.set(`${topic} ${partition}`, String(offset + 1));
    return { records };
  }

  async commit() {
    const offsets = [...this.positions].map(([at, offset]) => ({ topic: at.split(" ")[0], partition: Number(at.split(" ")[1]), offset }));
    await this.consumer.commitOffsets(offsets);
  }
}

class Producing {
  sent = [];

  constructor(producer, acks, transactional) {
    Object.assign(this, { producer, acks, transactional });
  }

  /** The id is initialised with the first transaction, which says nothing more to the broker before it is used. */
  async initialise() {
    if (this.transactional) this.ahead = await this.producer.transaction();
  }

  async begin() {
    this.transaction = this.ahead ?? (await this.producer.transaction());
    this.ahead = null;
  }

  async send(request) {
    const to = this.transactional ? this.transaction : this.producer;
    if (!to) throw new Error("no transaction was begun");
    const [answer] = await to.send({ topic: request.topic, acks: this.acks, messages: [message(request)] });
    return { partition: answer.partition, offset: Number(answer.baseOffset ?? answer.offset) };
  }
}

class KafkaJS extends Driver {
  library = "kafkajs";
  version = installed("kafkajs");
  #clients = new Map();

  failure(error) {
    const at = error.name === "KafkaJSNumberOfRetriesExceeded" || !error.type ? (error.cause ?? error) : error;
    if (!at.type) return super.failure(error);
    // the library says of an error only whether it may be retried
    return { name: at.type, class: at.retriable ? "retriable" : "unknown", message: error.message };
  }

  #named(name) {
    if (!this.#clients.has(name)) throw new Error(`no client ${name}`);
    return this.#clients.get(name);
  }

  async init({ client, role, bootstrap, config, needs, lazy }) {
    for (const key of needs) if (!KNOWN.includes(key)) throw new Unsupported(`KafkaJS has no ${key}`);
    if (this.#clients.has(client)) return lazy || this.#named(client).initialise();
    const retry = given({ initialRetryTime: config["retry.backoff.ms"], maxRetryTime: config["retry.backoff.max.ms"], retries: config.retries });
    const kafka = new Kafka({
      clientId: config["client.id"] ?? client,
      brokers: bootstrap.split(","),
      retry,
      ...given({ requestTimeout: config["request.timeout.ms"] }),
      logLevel: logLevel.ERROR,
      logCreator: () => ({ log }) => console.error(log.message),
    });
    if (role === "consumer") {
      const settings = given({
        groupId: config["group.id"],
        sessionTimeout: config["session.timeout.ms"],
        heartbeatInterval: config["heartbeat.interval.ms"],
        readUncommitted: config["isolation.level"] !== "read_committed",
        maxWaitTimeInMs: config["fetch.max.wait.ms"] ?? 100,
      });
      const consuming = new Consuming(kafka.consumer({ ...settings, retry }));
      consuming.fromBeginning = config["auto.offset.reset"] !== "latest";
      this.#clients.set(client, consuming);
      return;
    }
    const settings = given({
      transactionalId: config["transactional.id"],
      transactionTimeout: config["transaction.timeout.ms"],
      idempotent: config["enable.idempotence"],
      maxInFlightRequests: config["max.in.flight.requests.per.connection"] ?? 1,
      metadataMaxAge: config["metadata.max.age.ms"],
    });
    const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, ...settings, retry });
    this.#clients.set(client, new Producing(producer, ACKS[config.acks ?? "all"], Boolean(config["transactional.id"])));
    await producer.connect();
    if (!lazy) await this.#named(client).initialise();
  }

  begin = ({ client }) => this.#named(client).begin();

  async send(request) {
    const sent = this.#named(request.client).send(request);
    if (request.wait) return await sent;
    this.#named(request.client).sent.push(sent.then(() => null, (error) => error));
  }

  async flush({ client }) {
    const errors = await Promise.all(this.#named(client).sent.splice(0));
    for (const error of errors) if (error) throw error;
  }

  async send_offsets({ client, group, offsets }) {
    const topics = offsets.map(({ topic, partition, offset }) => ({ topic, partitions: [{ partition, offset: String(offset) }] }));
    await this.#named(client).transaction.sendOffsets({ consumerGroupId: group, topics });
  }

  async commit({ client }) {
    if (this.#named(client) instanceof Consuming) return await this.#named(client).commit();
    await this.flush({ client });
    await this.#named(client).transaction.commit();
  }

  abort = ({ client }) => this.#named(client).transaction.abort();

  async subscribe({ client, topics, mode }) {
    if (mode === "consumer") throw new Unsupported("KafkaJS knows classic groups only");
    await this.#named(client).subscribe(topics, this.#named(client).fromBeginning);
  }

  poll = ({ client, max, timeout_ms }) => this.#named(client).poll(max, timeout_ms);

  async close({ client }) {
    const { producer, consumer } = this.#named(client);
    this.#clients.delete(client);
    await (producer ?? consumer).disconnect();
  }
}

run(new KafkaJS());
