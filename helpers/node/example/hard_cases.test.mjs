// Four hard cases for a transactional client, a story and a fork, played with KafkaJS: node --test
import assert from 'node:assert/strict'
import { test } from 'node:test'

import kafkajs from 'kafkajs'

import { newCluster } from '../odradek.mjs'

const { Kafka, logLevel } = kafkajs

const MINUTE = 60_000

/** A client and its transactional producer, which are gone after the test. */
async function till(t, cluster) {
  const kafka = new Kafka({ brokers: cluster.brokers, logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50, retries: 10 } })
  const producer = kafka.producer({ transactionalId: 'till-1', maxInFlightRequests: 1, idempotent: true })
  await producer.connect()
  t.after(() => producer.disconnect())
  return { kafka, producer }
}

/** A transaction with one record in it. */
async function begin(producer, value) {
  const transaction = await producer.transaction()
  await transaction.send({ topic: 'orders', messages: [{ value }] })
  return transaction
}

/** The first value that a read_committed consumer gets. */
async function firstCommitted(kafka) {
  const consumer = kafka.consumer({ groupId: 'kitchen', readUncommitted: false })
  await consumer.connect()
  await consumer.subscribe({ topic: 'orders', fromBeginning: true })
  try {
    return await new Promise((resolve, reject) => {
      consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }).catch(reject)
    })
  } finally {
    await consumer.disconnect()
  }
}

test('a former self whose transaction is still ending', async (t) => {
  const cluster = await newCluster(t, { topics: ['orders'] })
  await cluster.arm({
    match: { api: 'INIT_PRODUCER_ID', transactional_id: 'till-1' },
    when: { times: 3 },
    act: { error: 'CONCURRENT_TRANSACTIONS' },
    expect: { hits: 3 },
  })
  const { kafka, producer } = await till(t, cluster)
  const transaction = await begin(producer, 'one coffee')
  await transaction.commit()
  await cluster.wait({ transaction: { id: 'till-1', state: 'CompleteCommit' } })
  assert.equal(await firstCommitted(kafka), 'one coffee')
})

test('a commit whose answer is lost', async (t) => {
  const cluster = await newCluster(t, { topics: ['orders'] })
  await cluster.arm({ match: { api: 'END_TXN' }, act: { disconnect: 'after' }, expect: { hits: 1 } })
  const { kafka, producer } = await till(t, cluster)
  const transaction = await begin(producer, 'one coffee')
  // KafkaJS does not ask again: it says that the commit has failed, and the transaction is committed all the same.
  await assert.rejects(transaction.commit(), { name: 'KafkaJSConnectionClosedError' })
  await cluster.wait({ transaction: { id: 'till-1', state: 'CompleteCommit' } })
  assert.equal(await firstCommitted(kafka), 'one coffee')
})

test('markers that wait', async (t) => {
  const cluster = await newCluster(t, { brokers: 3, topics: ['orders'] })
  await cluster.arm({
    name: 'markers',
    match: { api: 'WRITE_TXN_MARKERS' },
    when: { times: 'all' },
    act: { hold: true },
    expect: { at_least: 1 },
  })
  const { kafka, producer } = await till(t, cluster)
  const transaction = await begin(producer, 'one coffee')
  await transaction.commit()
  await cluster.wait({ rule: { name: 'markers', held: 1 } })
  assert.equal((await cluster.get('partitions', 'orders', 0)).last_stable_offset, 0)
  await cluster.disarm('markers')
  await cluster.wait({ partition: { topic: 'orders', partition: 0, last_stable_offset: 2 } })
  assert.equal(await firstCommitted(kafka), 'one coffee')
})

test('a transaction that takes too long', async (t) => {
  const cluster = await newCluster(t, { topics: ['orders'] })
  const { producer } = await till(t, cluster)
  const transaction = await begin(producer, 'one coffee')
  await cluster.advance(2 * MINUTE)
  await cluster.wait({ transaction: { id: 'till-1', state: 'CompleteAbort' } })
  await assert.rejects(transaction.commit())
})

test('a story', async (t) => {
  const cluster = await newCluster(t, { story: 'concurrent-transactions-after-commit' })
  await commitTwo(await till(t, cluster))
  await cluster.verify()
})

async function commitTwo({ producer }) {
  for (const value of ['one coffee', 'one cake']) await (await begin(producer, value)).commit()
}

test('a state that is made once, and forked', async (t) => {
  const origin = await newCluster(t, { topics: ['orders'] })
  await begin((await till(t, origin)).producer, 'one coffee')
  const hanging = `hanging-${origin.id}` // a hub may have several suites
  await origin.snapshot(hanging)
  for (let count = 0; count < 2; count++) {
    const fork = await newCluster(t, { from: hanging })
    await fork.wait({ transaction: { id: 'till-1', state: 'Ongoing' } })
    await fork.advance(2 * MINUTE)
    await fork.wait({ transaction: { id: 'till-1', state: 'CompleteAbort' } })
  }
  assert.equal((await origin.get('transactions', 'till-1')).state, 'Ongoing')
})

test('a cluster with logins', async (t) => {
  const cluster = await newCluster(t, { topics: ['orders'], security: 'sasl-ssl', users: { alice: 'hush' } })
  const connect = async (password) => {
    const sasl = { mechanism: cluster.access.mechanism.toLowerCase(), username: 'alice', password }
    const kafka = new Kafka({ brokers: cluster.brokers, ssl: { ca: [cluster.access.ca] }, sasl, logLevel: logLevel.NOTHING })
    const admin = kafka.admin({ retry: { retries: 0 } })
    try {
      await admin.connect()
      return await admin.listTopics()
    } finally {
      await admin.disconnect()
    }
  }
  assert.ok((await connect('hush')).includes('orders'))
  await assert.rejects(connect('guessed'), /[Aa]uthentication/)
})
