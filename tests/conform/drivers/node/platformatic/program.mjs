/** @platformatic/kafka. */

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Consumer, MessagesStreamFallbackModes, MessagesStreamModes, ProduceAcks, Producer } from "@platformatic/kafka";
import { Driver, Unsupported, run } from "./driver.mjs";

const ACKS = { 0: ProduceAcks.NO_RESPONSE, 1: ProduceAcks.LEADER, all: ProduceAcks.ALL, "-1": ProduceAcks.ALL };
const KNOWN = `client.id transactional.id enable.idempotence acks retries retry.backoff.ms request.timeout.ms
 metadata.max.age.ms group.id group.instance.id group.protocol session.timeout.ms heartbeat.interval.ms isolation.level
 auto.offset.reset enable.auto.commit fetch.max.wait.ms transaction.timeout.ms`.split(/\s+/);

const installed = (name) => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;
const given = (settings) => Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
const bytes = (text) => (text === undefined ? undefined : Buffer.from(text));
const text = (buffer) => (buffer === undefined || buffer === null || !buffer.length ? null : String(buffer));

/** What an error is about is deep in it. */
function* inside(error) {
  yield error;
  if (error.cause) yield* inside(error.cause);
  for (const each of error.errors ?? []) yield* inside(each);
}

class Producing {
  sent = [];
  transaction = null;
  ahead = null;

  constructor(producer, acks, transactional) {
    Object.assign(this, { producer, acks, transactional });
  }

  /** The id is initialised with the first transaction, which says nothing more to the broker before it is used. */
  async initialise() {
    if (this.transactional) this.ahead = await this.producer.beginTransaction();
  }

  async begin() {
    this.transaction = this.ahead ?? (await this.producer.beginTransaction());
    this.ahead = null;
  }

  async send({ topic, partition, key, value }) {
    const to = this.transactional ? this.transaction : this.producer;
    if (!to) throw new Error("no transaction was begun");
    const messages = [given({ topic, partition, key: bytes(key), value: bytes(value) })];
    const { offsets } = await to.send({ messages, acks: this.acks });
    return { partition: offsets[0].partition, offset: Number(offsets[0].offset) };
  }

  close = () => this.producer.close();
}

class Consuming {
  polled = new Map();

  constructor(consumer, fromStart, waitMs) {
    Object.assign(this, { consumer, fromStart, waitMs });
  }

  async subscribe(topics) {
    const { COMMITTED } = MessagesStreamModes;
    const fallbackMode = this.fromStart ? MessagesStreamFallbackModes.EARLIEST : MessagesStreamFallbackModes.LATEST;
    const how = { topics, autocommit: false, maxWaitTime: this.waitMs, mode: COMMITTED, fallbackMode };
    this.stream = await this.consumer.consume(how);
    this.stream.on("error", (error) => (this.failure = error)).on("readable", () => {}); // else nothing is read ahead
  }

  async poll(max, timeout_ms) {
    const end = Date.now() + timeout_ms;
    const records = [];
    while (records.length < max && Date.now() < end) {
      if (this.failure) throw this.failure;
      const message = this.stream.read();
      if (message === null) {
        await sleep(5);
        continue;
      }
      const { topic, partition, offset, key, value } = message;
      this.polled.set(`${topic} ${partition}`, message);
      records.push({ topic, partition, offset: Number(offset), key: text(key), value: String(value) });
    }
    return { records };
  }

  async commit() {
    const offsets = [...this.polled.values()].map(({ topic, partition, offset }) => ({ topic, partition, offset: offset + 1n, leaderEpoch: -1 }));
    if (offsets.length) await this.consumer.commit({ offsets });
  }

  close = () => this.consumer.close(true);
}

class Platformatic extends Driver {
  library = "@platformatic/kafka";
  version = installed("@platformatic/kafka");
  #clients = new Map();

  failure(error) {
    const told = [...inside(error)].find(({ apiId }) => apiId);
    if (!told) return { ...super.failure(error), name: error?.code ?? error?.name ?? "Error" };
    // the library says of an error only whether it may be retried
    return { name: told.apiId, class: told.canRetry ? "retriable" : "unknown", message: `${error.message}: ${told.message}` };
  }

  #named(name) {
    if (!this.#clients.has(name)) throw new Error(`no client ${name}`);
    return this.#clients.get(name);
  }

  async init({ client, role, bootstrap, config, needs, lazy }) {
    for (const key of needs) if (!KNOWN.includes(key)) throw new Unsupported(`@platformatic/kafka has no ${key}`);
    if (this.#clients.has(client)) return lazy || this.#named(client).initialise();
    const settings = given({
      clientId: config["client.id"] ?? client,
      bootstrapBrokers: bootstrap.split(","),
      retries: config.retries,
      retryDelay: config["retry.backoff.ms"],
      timeout: config["request.timeout.ms"],
      metadataMaxAge: config["metadata.max.age.ms"],
    });
    if (role === "consumer") {
      const more = given({
        groupId: config["group.id"],
        groupInstanceId: config["group.instance.id"],
        groupProtocol: config["group.protocol"],
        isolationLevel: config["isolation.level"] === "read_committed" ? 1 : 0,
        ...(config["group.protocol"] === "consumer" ? {} : { sessionTimeout: config["session.timeout.ms"], heartbeatInterval: config["heartbeat.interval.ms"] }),
      });
      const consumer = new Consumer({ ...settings, ...more });
      this.#clients.set(client, new Consuming(consumer, config["auto.offset.reset"] !== "latest", config["fetch.max.wait.ms"] ?? 100));
      return;
    }
    const more = given({
      transactionalId: config["transactional.id"],
      idempotent: config["enable.idempotence"],
      transactionTimeout: config["transaction.timeout.ms"],
    });
    const acks = ACKS[config.acks ?? "all"];
    this.#clients.set(client, new Producing(new Producer({ ...settings, ...more, acks }), acks, "transactional.id" in config));
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

  async send_offsets({ client, consumer, offsets }) {
    if (!consumer) throw new Unsupported("offsets go with a consumer and its messages");
    const { transaction } = this.#named(client);
    const member = this.#named(consumer);
    await transaction.addConsumer(member.consumer);
    for (const { topic, partition, offset } of offsets) {
      const message = member.polled.get(`${topic} ${partition}`);
      if (!message || Number(message.offset) + 1 !== offset) throw new Unsupported("offsets go with a consumer and its messages");
      await transaction.addOffset(message);
    }
  }

  async commit({ client }) {
    if (this.#named(client) instanceof Consuming) return await this.#named(client).commit();
    await this.flush({ client });
    await this.#named(client).transaction.commit();
  }

  abort = ({ client }) => this.#named(client).transaction.abort();
  subscribe = ({ client, topics }) => this.#named(client).subscribe(topics);
  poll = ({ client, max, timeout_ms }) => this.#named(client).poll(max, timeout_ms);

  async close({ client }) {
    const closing = this.#named(client);
    this.#clients.delete(client);
    await closing.close();
  }
}

run(new Platformatic());
