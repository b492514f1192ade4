/** What drivers of Node libraries have in common: clients by their names, records on their way, and transactions. */

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Driver, Unsupported } from "./driver.mjs";

/** The release of a package that is installed beside the program. */
export const installed = (name) => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;

/** An object without the fields that nothing was given for. */
export const given = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

/** A producer of a library that initialises its transactional id with the first transaction that it begins. */
export class Producing {
  sent = [];

  /** `begin` begins a transaction, and is missing without a transactional id; `write` gives { partition, offset }. */
  constructor({ connect, begin, write, close }) {
    Object.assign(this, { connect, start: begin, write, close });
  }

  /** A transaction that has begun says nothing more to the broker before it is used. */
  async initialise() {
    if (this.start) this.ahead = await this.start();
  }

  async begin() {
    this.transaction = this.ahead ?? (await this.start());
    this.ahead = null;
  }

  async send(request) {
    if (this.start && !this.transaction) throw new Error("no transaction was begun");
    const sent = this.write(request, this.transaction);
    if (request.wait) return await sent;
    this.sent.push(sent.then(() => null, (error) => error));
  }

  async flush() {
    const errors = await Promise.all(this.sent.splice(0));
    for (const error of errors) if (error) throw error;
  }

  async commit() {
    await this.flush();
    await this.transaction.commit();
  }
}

/** Takes one record after another until there are `max` or the time is over; `take` gives undefined where there is none. */
export async function collect(max, timeout_ms, take) {
  const end = Date.now() + timeout_ms;
  const records = [];
  while (records.length < max && Date.now() < end) {
    const record = take();
    if (record) records.push(record);
    else await sleep(5);
  }
  return { records };
}

/** A driver whose clients do most verbs themselves; a family says how they are made, and of what class errors are. */
export class Clients extends Driver {
  #clients = new Map();

  /** `settings`: the names of the Java client's settings that the library has, with spaces between them. */
  constructor(library, settings) {
    super();
    this.library = library;
    this.version = installed(library);
    this.settings = settings.split(/\s+/);
  }

  named(name) {
    if (!this.#clients.has(name)) throw new Error(`no client ${name}`);
    return this.#clients.get(name);
  }

  async init(request) {
    const { client, role, config, needs, lazy } = request;
    for (const key of needs) if (!this.settings.includes(key)) throw new Unsupported(`${this.library} has no ${key}`);
    if (!this.#clients.has(client)) {
      const made = role === "consumer" ? this.consumer(request) : this.producer(request);
      this.#clients.set(client, made); // before it waits for anything, so that it can be closed meanwhile
      await made.connect?.();
    }
    if (role === "producer" && "transactional.id" in config && !lazy) await this.named(client).initialise();
  }

  begin = ({ client }) => this.named(client).begin();
  send = (request) => this.named(request.client).send(request);
  flush = ({ client }) => this.named(client).flush();
  commit = ({ client }) => this.named(client).commit();
  abort = ({ client }) => this.named(client).transaction.abort();
  subscribe = ({ client, topics, mode }) => this.named(client).subscribe(topics, mode);
  poll = ({ client, max, timeout_ms }) => this.named(client).poll(max, timeout_ms);

  async close({ client }) {
    const closing = this.named(client);
    this.#clients.delete(client);
    await closing.close();
  }
}
