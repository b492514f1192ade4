/** @platformatic/kafka. */

import { Consumer, MessagesStreamFallbackModes, MessagesStreamModes, ProduceAcks, Producer } from "@platformatic/kafka";
import { Clients, Producing, collect, given } from "./clients.mjs";
import { Unsupported, run } from "./driver.mjs";

const ACKS = { 0: ProduceAcks.NO_RESPONSE, 1: ProduceAcks.LEADER, all: ProduceAcks.ALL, "-1": ProduceAcks.ALL };
const SETTINGS = `client.id transactional.id enable.idempotence acks retries retry.backoff.ms request.timeout.ms
 metadata.max.age.ms group.id group.instance.id group.protocol session.timeout.ms heartbeat.interval.ms isolation.level
 auto.offset.reset enable.auto.commit fetch.max.wait.ms`;

const bytes = (text) => (text === undefined ? undefined : Buffer.from(text));
const text = (buffer) => (buffer === undefined || buffer === null || !buffer.length ? null : String(buffer));

/** What an error is about is deep in it. */
function* inside(error) {
  yield error;
  if (error.cause) yield* inside(error.cause);
  for (const each of error.errors ?? []) yield* inside(each);
}

class Consuming {
  polled = new Map();

  constructor(consumer, fallbackMode, maxWaitTime) {
    Object.assign(this, { consumer, fallbackMode, maxWaitTime, close: () => consumer.close(true) });
  }

  async subscribe(topics) {
    const { fallbackMode, maxWaitTime } = this;
    this.stream = await this.consumer.consume({ topics, autocommit: false, maxWaitTime, mode: MessagesStreamModes.COMMITTED, fallbackMode });
    this.stream.on("error", (error) => (this.failure = error)).on("readable", () => {}); // else nothing is read ahead
  }

  poll = (max, timeout_ms) => collect(max, timeout_ms, () => this.#next());

  #next() {
    if (this.failure) throw this.failure;
    const message = this.stream.read();
    if (message === null) return undefined;
    const { topic, partition, offset, key, value } = message;
    this.polled.set(`${topic} ${partition}`, message);
    return { topic, partition, offset: Number(offset), key: text(key), value: String(value) };
  }

  async commit() {
    const offsets = [...this.polled.values()].map(({ topic, partition, offset }) => ({ topic, partition, offset: offset + 1n, leaderEpoch: -1 }));
    if (offsets.length) await this.consumer.commit({ offsets });
  }
}

class Platformatic extends Clients {
  failure(client, error) {
    const told = [...inside(error)].find(({ apiId }) => apiId);
    if (!told) return { ...super.failure(client, error), name: error?.code ?? error?.name ?? "Error" };
    // the library says of an error only whether it may be retried
    return { name: told.apiId, class: told.canRetry ? "retriable" : "unknown", message: `${error.message}: ${told.message}` };
  }

  #common({ client, bootstrap, config }) {
    return given({
      clientId: config["client.id"] ?? client,
      bootstrapBrokers: bootstrap.split(","),
      retries: config.retries,
      retryDelay: config["retry.backoff.ms"],
      timeout: config["request.timeout.ms"],
      metadataMaxAge: config["metadata.max.age.ms"],
    });
  }

  consumer(request) {
    const { config } = request;
    const timers = { sessionTimeout: config["session.timeout.ms"], heartbeatInterval: config["heartbeat.interval.ms"] };
    const settings = given({
      groupId: config["group.id"],
      groupInstanceId: config["group.instance.id"],
      groupProtocol: config["group.protocol"],
      isolationLevel: config["isolation.level"] === "read_committed" ? 1 : 0,
      ...(config["group.protocol"] === "consumer" ? {} : timers), // they are the broker's in the newer protocol
    });
    const { EARLIEST, LATEST } = MessagesStreamFallbackModes;
    const from = config["auto.offset.reset"] === "latest" ? LATEST : EARLIEST;
    return new Consuming(new Consumer({ ...this.#common(request), ...settings }), from, config["fetch.max.wait.ms"] ?? 100);
  }

  producer(request) {
    const { config } = request;
    const acks = given({ acks: ACKS[config.acks] });
    const settings = given({
      transactionalId: config["transactional.id"],
      idempotent: config["enable.idempotence"],
    });
    const producer = new Producer({ ...this.#common(request), ...settings, ...acks });
    const write = async ({ topic, partition, key, value }, transaction = producer) => {
      const messages = [given({ topic, partition, key: bytes(key), value: bytes(value) })];
      const { offsets } = await transaction.send({ messages, ...acks });
      return { partition: offsets[0].partition, offset: Number(offsets[0].offset) };
    };
    const begin = config["transactional.id"] && (() => producer.beginTransaction());
    return new Producing({ begin, write, close: () => producer.close() });
  }

  async send_offsets({ client, consumer, offsets }) {
    if (!consumer) throw new Unsupported("offsets go with a consumer and its messages");
    const { transaction } = this.named(client);
    const member = this.named(consumer);
    await transaction.addConsumer(member.consumer);
    for (const { topic, partition, offset } of offsets) {
      const message = member.polled.get(`${topic} ${partition}`);
      if (!message || Number(message.offset) + 1 !== offset) throw new Unsupported("offsets go with a consumer and its messages");
      await transaction.addOffset(message);
    }
  }
}

run(new Platformatic("@platformatic/kafka", SETTINGS));
