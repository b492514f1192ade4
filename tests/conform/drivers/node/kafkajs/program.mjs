/** KafkaJS. */

import kafkajs from "kafkajs";
import { Clients, Producing, collect, given } from "./clients.mjs";
import { Unsupported, run } from "./driver.mjs";

const { Kafka, Partitioners, logLevel } = kafkajs;
const ACKS = { 0: 0, 1: 1, all: -1, "-1": -1 };
const SETTINGS = `client.id transactional.id transaction.timeout.ms enable.idempotence acks retries retry.backoff.ms
 retry.backoff.max.ms request.timeout.ms metadata.max.age.ms max.in.flight.requests.per.connection group.id
 session.timeout.ms heartbeat.interval.ms isolation.level auto.offset.reset enable.auto.commit fetch.max.wait.ms`;

/** A member of a group: KafkaJS hands out batches, here they are asked for record by record. */
class Consuming {
  ahead = [];
  positions = new Map();

  constructor(consumer, fromBeginning) {
    Object.assign(this, { consumer, fromBeginning, close: () => consumer.disconnect() });
  }

  async subscribe(topics, mode) {
    if (mode === "consumer") throw new Unsupported("KafkaJS knows classic groups only");
    await this.consumer.connect();
    for (const topic of topics) await this.consumer.subscribe({ topic, fromBeginning: this.fromBeginning });
    const eachMessage = async ({ topic, partition, message: { offset, key, value } }) => {
      this.ahead.push({ topic, partition, offset: Number(offset), key: key && String(key), value: String(value) });
    };
    await this.consumer.run({ autoCommit: false, eachMessage });
  }

  async poll(max, timeout_ms) {
    const polled = await collect(max, timeout_ms, () => this.ahead.shift());
    for (const { topic, partition, offset } of polled.records) {
      this.positions.set(`${topic} ${partition}`, { topic, partition, offset: String(offset + 1) });
    }
    return polled;
  }

  commit = () => this.consumer.commitOffsets([...this.positions.values()]);
}

class KafkaJS extends Clients {
  failure(client, error) {
    const at = error.name === "KafkaJSNumberOfRetriesExceeded" || !error.type ? (error.cause ?? error) : error;
    if (!at.type) return super.failure(client, error);
    // the library says of an error only whether it may be retried
    return { name: at.type, class: at.retriable ? "retriable" : "unknown", message: error.message };
  }

  #connected({ client, bootstrap, config }) {
    const retry = given({ initialRetryTime: config["retry.backoff.ms"], maxRetryTime: config["retry.backoff.max.ms"], retries: config.retries });
    const settings = given({ clientId: config["client.id"] ?? client, requestTimeout: config["request.timeout.ms"] });
    const logCreator = () => ({ log }) => console.error(log.message);
    return [new Kafka({ ...settings, brokers: bootstrap.split(","), retry, logLevel: logLevel.ERROR, logCreator }), retry];
  }

  consumer(request) {
    const [kafka, retry] = this.#connected(request);
    const { config } = request;
    const settings = given({
      groupId: config["group.id"],
      sessionTimeout: config["session.timeout.ms"],
      heartbeatInterval: config["heartbeat.interval.ms"],
      readUncommitted: config["isolation.level"] !== "read_committed",
      maxWaitTimeInMs: config["fetch.max.wait.ms"] ?? 100,
    });
    return new Consuming(kafka.consumer({ ...settings, retry }), config["auto.offset.reset"] !== "latest");
  }

  producer(request) {
    const [kafka, retry] = this.#connected(request);
    const { config } = request;
    const settings = given({
      transactionalId: config["transactional.id"],
      transactionTimeout: config["transaction.timeout.ms"],
      idempotent: config["enable.idempotence"],
      maxInFlightRequests: config["max.in.flight.requests.per.connection"] ?? 1,
      metadataMaxAge: config["metadata.max.age.ms"],
    });
    const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, ...settings, retry });
    const write = async ({ topic, partition, key, value }, transaction = producer) => {
      const [answer] = await transaction.send({ topic, acks: ACKS[config.acks], messages: [given({ partition, key, value })] });
      return { partition: answer.partition, offset: Number(answer.baseOffset ?? answer.offset) };
    };
    const begin = config["transactional.id"] && (() => producer.transaction());
    return new Producing({ connect: () => producer.connect(), begin, write, close: () => producer.disconnect() });
  }

  async send_offsets({ client, group, offsets }) {
    const topics = offsets.map(({ topic, partition, offset }) => ({ topic, partitions: [{ partition, offset: String(offset) }] }));
    await this.named(client).transaction.sendOffsets({ consumerGroupId: group, topics });
  }
}

run(new KafkaJS("kafkajs", SETTINGS));
