/**
 * A driver for `odradek conform`: fill in the ten verbs and `failure`; the loop at the end needs no change.
 *
 * A verb gets the fields of its request, and gives an object for the answer or nothing. It throws what the client throws;
 * `failure` gives that its name and class. Throw Unsupported for something that the client cannot do.
 */

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

export class Unsupported extends Error {}

/** What you fill in. */
export class Driver {
  library = "my-client";
  version = "0.0";

  /**
   * Name: as in Kafka's table of errors (PRODUCER_FENCED). Class: what the client tells its user to do: retriable,
   * abortable, fatal or unknown. An error of your own code comes here as well; standard error has its stack.
   */
  failure(client, error) {
    return { name: error?.name ?? "Error", class: "unknown", message: String(error?.message ?? error) };
  }

  /**
   * Makes a producer or a consumer. `config` has the names of the Java client; throw Unsupported if you lack a key of
   * `needs`: without it the scenario has no sense. A producer with a transactional.id initialises its transactions here,
   * unless `lazy`: then at a second init.
   */
  async init({ client, role, bootstrap, config, needs, lazy }) {
    throw new Unsupported("init");
  }

  async begin({ client }) {
    throw new Unsupported("begin");
  }

  /** With `wait`: waits for the acknowledgement, and gives { partition, offset }. `partition` and `key` may be missing. */
  async send({ client, topic, partition, key, value, wait }) {
    throw new Unsupported("send");
  }

  /** Waits for all that was sent; throws the first error since the last flush. */
  async flush({ client }) {
    throw new Unsupported("flush");
  }

  /** `consumer`: the name of a client, or missing. `offsets`: objects with topic, partition, offset. */
  async send_offsets({ client, group, consumer, offsets }) {
    throw new Unsupported("send_offsets");
  }

  /** Of the transaction; of a consumer, its positions. */
  async commit({ client }) {
    throw new Unsupported("commit");
  }

  /** Records that it drops fail; the next flush or commit must not throw their errors again. */
  async abort({ client }) {
    throw new Unsupported("abort");
  }

  /** Mode: classic or consumer (KIP-848). */
  async subscribe({ client, topics, mode }) {
    throw new Unsupported("subscribe");
  }

  /**
   * Reads until there are `max` records or the time is over; no records are no error. Gives
   * { records: [{ topic, partition, offset, key, value }, ...] }, with numbers and texts.
   */
  async poll({ client, max, timeout_ms }) {
    throw new Unsupported("poll");
  }

  /** Forgets the client; an open transaction is left as it is where the client can do that. */
  async close({ client }) {
    throw new Unsupported("close");
  }
}

// ---- The loop: a request a line, an answer a line --------------------------------------------------------------------

const VERBS = ["init", "begin", "send", "flush", "send_offsets", "commit", "abort", "subscribe", "poll", "close"];
const DEFAULTS = { init: { config: {}, needs: [], lazy: false }, subscribe: { mode: "classic" }, poll: { max: 500, timeout_ms: 0 } };
// The judge waits for 30 s, or 5 s beyond the timeout_ms of a request.
const PATIENCE_MS = 25_000;
const POLL_GRACE_MS = 4_000;
const LATE = { error: { name: "TIMED_OUT", class: "unknown", message: "the client has not finished" } };

async function call(driver, request) {
  if (!VERBS.includes(request.verb)) return { unsupported: `no verb ${request.verb}` };
  try {
    return { done: (await driver[request.verb]({ ...DEFAULTS[request.verb], ...request })) ?? {} };
  } catch (error) {
    if (error instanceof Unsupported) return { unsupported: error.message };
    console.error(error);
    return { error: driver.failure(request.client, error) };
  }
}

/** A call that never ends costs its request alone; it is not cancelled. */
async function answer(driver, request) {
  const limit = (request.timeout_ms ?? PATIENCE_MS) + (request.verb === "poll" ? POLL_GRACE_MS : 0);
  let timer;
  const late = new Promise((resolve) => (timer = setTimeout(() => resolve(LATE), limit)));
  const said = await Promise.race([call(driver, request), late]);
  clearTimeout(timer);
  return { id: request.id, ...said };
}

export async function run(driver) {
  const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
  console.log = console.info = console.error; // what libraries print is no answer
  process.on("uncaughtException", console.error).on("unhandledRejection", console.error);
  say({ hello: { library: driver.library, version: driver.version, language: "node", verbs: VERBS } });
  for await (const line of createInterface({ input: process.stdin })) say(await answer(driver, JSON.parse(line)));
  process.exit(0);
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) run(new Driver());
