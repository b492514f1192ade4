/** What a Node client program supplies, what a scenario may ask of it, and how a scenario fails. */

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

export const READ_COMMITTED = "read_committed";
export const READ_UNCOMMITTED = "read_uncommitted";

/**
 * @typedef {{partition: number, offset: number, key: string, value: string}} Record
 *
 * @typedef {object} Reader Reads all partitions of a topic from the beginning, outside any group of the scenario.
 * @property {(seconds: number) => Promise<Record[]>} poll What there is; waits that long for something.
 * @property {() => Promise<void>} close
 *
 * @typedef {object} Membership What a member of a consumer group can do beside; it commits only when told to.
 * @property {() => Set<number>} assigned
 * @property {() => Promise<void>} commit Commits what was polled; what comes too late for a rebalance is dropped.
 * @property {(partition: number, offset: number) => void} seek
 *
 * @typedef {Reader & Membership} Member
 *
 * @typedef {object} Transactional A transactional producer whose transactional id has been initialised.
 * @property {() => Promise<void>} begin
 * @property {(topic: string, partition: number, key: string, value: string) => void} send Keeps it until the flush.
 * @property {() => Promise<void>} flush
 * @property {(topic: string, offsets: Map<number, number>, member: Member) => Promise<void>} sendOffsets
 * @property {() => Promise<void>} commit Flushes before.
 * @property {() => Promise<void>} abort Flushes before.
 * @property {() => Promise<void>} close
 *
 * @typedef {[partition: number, key: string, value: string]} Sending
 *
 * @typedef {object} Client What a family supplies. A method that this release lacks throws Unsupported.
 * @property {string} version
 * @property {(topic: string, records: Sending[], how: {compression: string, idempotent: boolean}) => Promise<number[]>}
 *   produce Sends with acks=all; the offsets in the order of the records. Idempotent: in several batches per
 *   partition, as many in flight as the client allows. Otherwise: one request in flight per connection.
 * @property {(topic: string, partitions: number, isolation: string) => Promise<Reader>} reader
 * @property {(topic: string, group: string, recordsMax?: number) => Promise<Member>} member
 * @property {(transactionalId: string, timeoutMs?: number) => Promise<Transactional>} transactional
 * @property {(topic: string, partitions: number, configs: {[name: string]: string}) => Promise<void>} createTopic
 * @property {(topic: string) => Promise<void>} deleteTopic
 * @property {() => Promise<Set<string>>} topics
 * @property {(topic: string) => Promise<number[]>} partitions
 *   The number of in-sync replicas of each partition that has a leader.
 * @property {(topic: string, name: string) => Promise<string>} config
 * @property {(topic: string, name: string, value: string) => Promise<void>} alterConfig
 * @property {(topic: string, total: number) => Promise<void>} createPartitions
 * @property {(topic: string, partition: number) => Promise<number>} startOffset
 * @property {(topic: string, partition: number, isolation?: string) => Promise<number>} endOffset
 *   The end of the log, or where read_committed ends.
 * @property {(topic: string, partition: number, before: number) => Promise<void>} deleteRecords
 * @property {() => Promise<Set<string>>} groups
 * @property {(group: string, topic: string, partitions: number) => Promise<Map<number, number>>} groupOffsets
 *   The committed offsets; a partition without one is left out.
 * @property {(group: string, topic: string, partition: number, offset: number) => Promise<void>} commitOutside
 * @property {(group: string) => Promise<void>} deleteGroup
 * @property {() => Promise<number>} brokers
 */

/**
 * How a client gets in where the broker asks who it is (SASL_SSL), as the environment says; null: nobody is asked.
 *
 * @returns {{ca: string, mechanism: string, username: string, password: string} | null}
 */
export function security() {
  const told = process.env;
  if (!told.CLIENT_SSL_CA) return null;
  return {
    ca: readFileSync(told.CLIENT_SSL_CA, "utf8"),
    mechanism: told.CLIENT_SASL_MECHANISM,
    username: told.CLIENT_SASL_USERNAME,
    password: told.CLIENT_SASL_PASSWORD,
  };
}

/** The one argument style of all client programs, with its defaults. */
export const DEFAULTS = {
  bootstrap: "",
  scenario: "",
  topic: "checked",
  group: "",
  "transactional-id": "",
  compression: "none",
  records: 1000,
  partitions: 3,
  transactions: 20,
  timeout: 60,
};

/** The broker did not do as it should. */
export class Failed extends Error {}

/** The client has no means for it. */
export class Unsupported extends Error {}

export function check(holds, message) {
  if (!holds) throw new Failed(message);
}

/** Waits for a condition, as long as the options allow; `what` may be a function that says how far it came. */
export async function until(options, what, holds) {
  const end = Date.now() + options.timeout * 1000;
  while (!(await holds())) {
    check(Date.now() < end, `timed out waiting for ${typeof what === "function" ? what() : what}`);
    await sleep(20);
  }
}

/** The version of a package that is installed beside the program. */
export function installed(program, name) {
  return JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, program), "utf8")).version;
}
