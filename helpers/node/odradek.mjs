// A fresh Kafka cluster for each Node test, whose races it can arrange; no dependencies.
//
//   test('a commit whose answer is lost', async (t) => {
//     const cluster = await newCluster(t, { topics: ['orders'] })
//     await cluster.arm({ match: { api: 'END_TXN' }, act: { disconnect: 'after' }, expect: { hits: 1 } })
//     // a client of cluster.brokers commits; the test fails at its end if the rule was not hit
//   })
//
// A test that fails prints what its cluster knew: what is stuck and why, its newest events, a file with all of them.
// The hub is the one that ODRADEK_HUB names; without it `odradek hub` is started, and ends with the tests.
// What options, rules and conditions may be is in docs/hub.md and docs/rules.md.

import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const READY = 'odradek hub ready url='

/** What the hub has refused; `problem` is its document. */
export class HubRefused extends Error {
  constructor(problem) {
    super([problem.field, problem.detail].filter(Boolean).join(': '))
    this.problem = problem
  }
}

/** What a promise gives; what it throws is told at the line of the test, without the frames of this file. */
async function told(promise) {
  try {
    return await promise
  } catch (error) {
    const lines = String(error.stack).split('\n')
    error.stack = lines.filter((line) => !line.includes(import.meta.url)).join('\n')
    throw error
  }
}

/** A client of a hub. */
export class Hub {
  constructor(url, token = process.env.ODRADEK_HUB_TOKEN) {
    this.url = url.replace(/\/+$/, '')
    this.token = token
  }

  async call(method, path, body) {
    const headers = this.token ? { authorization: `Bearer ${this.token}` } : {}
    const init = { method, headers, body: body === undefined ? undefined : JSON.stringify(body) }
    const response = await fetch(this.url + path, init)
    const text = await response.text()
    if (!response.ok) {
      let problem
      try {
        problem = JSON.parse(text)
      } catch {
        problem = { detail: `${method} ${path}: ${response.status} ${text}` }
      }
      throw new HubRefused(problem)
    }
    return text === '' ? undefined : JSON.parse(text)
  }
}

let found

/** The hub that ODRADEK_HUB names, or one that is started for this process. */
export function theHub() {
  found ??= process.env.ODRADEK_HUB ? Promise.resolve(new Hub(process.env.ODRADEK_HUB)) : startHub()
  return found
}

function startHub() {
  return new Promise((resolve, reject) => {
    // Its standard input ends when this process does, however that comes about, and it with that.
    const words = ['hub', '--listen', '127.0.0.1:0', '--until-stdin-ends']
    if (process.env.ODRADEK_RECORD_DIR) words.push('--record', process.env.ODRADEK_RECORD_DIR)
    const child = spawn('odradek', words, {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    child.once('error', (error) => {
      reject(new Error(`No hub: ODRADEK_HUB names none, and "odradek hub" cannot be started: ${error.message}`))
    })
    child.once('exit', (code) => reject(new Error(`No hub: "odradek hub" has ended with ${code}`)))
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (!line.startsWith(READY)) return
      // Nothing here keeps the tests from ending.
      for (const each of [child, child.stdin, child.stdout]) each.unref()
      resolve(new Hub(line.slice(READY.length)))
    })
  })
}

/**
 * A cluster for this test, which fails at its end if a rule has not seen what it expects.
 * `t` is the context of node:test, or anything with `after(fn)`; without it call `end()`.
 */
export async function newCluster(t, options = {}) {
  const hub = await theHub()
  const cluster = new Cluster(hub, await hub.call('POST', '/clusters', options))
  t?.after(() => cluster.end(t))
  return cluster
}

/** A cluster of the hub. */
export class Cluster {
  constructor(hub, made) {
    this.hub = hub
    this.id = made.id
    this.bootstrap = made.bootstrap
    /** With security: `ca`, `certificate` (both PEM), `mechanism`, `users`; else null. */
    this.access = made.access
  }

  /** The addresses of the brokers, one by one. */
  get brokers() {
    return this.bootstrap.split(',')
  }

  /** Read anything of its state: get('transactions', 'till-1'). */
  get(...parts) {
    return told(this.hub.call('GET', this.#path(parts)))
  }

  /** Do anything that the hub can: post({ to: 2 }, 'partitions', 'orders', 0, 'leader'). */
  post(body, ...parts) {
    return told(this.hub.call('POST', this.#path(parts), body))
  }

  /** Keep its state at this moment under a name, for newCluster(t, { from: name }); it outlives this one. */
  snapshot(name) {
    return this.post({ name }, 'snapshots')
  }

  /** Apply a rule to the requests that are read from now on; what it has seen, with its name. */
  async arm(rule) {
    const [report] = await this.post(rule, 'rules')
    return report
  }

  /** What a rule has seen so far. */
  rule(name) {
    return this.get('rules', name)
  }

  /** Serve the requests that a rule holds. */
  release(name) {
    return this.post(undefined, 'rules', name, 'release')
  }

  /** Apply a rule no longer, and serve what it holds. */
  disarm(name) {
    return told(this.hub.call('DELETE', this.#path(['rules', name])))
  }

  /** Return when everything that is named is so: wait({ transaction: { id, state: 'CompleteCommit' } }). */
  wait(conditions) {
    return this.post(conditions, 'wait')
  }

  /** Let so much time pass at once for the brokers. */
  advance(milliseconds) {
    return this.post({ advance_ms: milliseconds }, 'time')
  }

  /** Throw, with a sentence for each rule that has not seen what it expects. */
  async verify() {
    const { unmet } = await this.post(undefined, 'verify')
    if (unmet.length > 0) await told(Promise.reject(new Error(unmet.join('\n'))))
  }

  /**
   * What is stuck and what holds it, the newest events, and the path of a file with all of them, in the folder that
   * ODRADEK_EVENTS_DIR names or in a temporary one. A test that fails prints it at its end.
   */
  async why() {
    const { sentences, events } = await this.get('why')
    const newest = events.map((line) => `  ${line}`)
    const clock = "The newest events (the brokers' clock, UTC):"
    return ['odradek', ...sentences, clock, ...newest, `All events: ${await this.#writeEvents()}`].join('\n')
  }

  /** Remove it, and throw what `verify` throws; `t` is the context of the test, which prints `why` if it has failed. */
  async end(t) {
    // Before 20.12 Node does not tell how a test has failed.
    const error = t?.error ?? (await this.verify().catch((unmet) => unmet))
    try {
      if (error) console.error(await this.why().catch((lost) => `odradek: what is stuck cannot be told: ${lost.message}`))
    } finally {
      await this.hub.call('DELETE', this.#path([]))
    }
    if (error && error !== t?.error) throw error
  }

  async #writeEvents() {
    const lines = await this.get('events', 'lines')
    try {
      const folder = process.env.ODRADEK_EVENTS_DIR || mkdtempSync(join(tmpdir(), 'odradek-events-'))
      mkdirSync(folder, { recursive: true })
      const file = join(folder, `${this.id}-${Date.now()}.jsonl`)
      writeFileSync(file, lines.map((line) => `${line}\n`).join(''), { flag: 'wx' })
      return file
    } catch (error) {
      return `they cannot be written: ${error.message}`
    }
  }

  #path(parts) {
    return ['/clusters', this.id, ...parts.map((part) => encodeURIComponent(part))].join('/')
  }
}
