//! Transactions committed, aborted, fenced and timed out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use krafka::Record;
use krafka::consumer::{ConsumerRecord, IsolationLevel};
use krafka::producer::{TopicPartitionOffset, TransactionalProducer};
use playing::{Counts, Options, partition, until};
use serde_json::json;

use crate::admin::Admin;
use crate::group::member;
use crate::records::{produce, read};
use crate::{POLL, connect};

const RECORDS_PER_TRANSACTION: usize = 10;
const MINUTE: Duration = Duration::from_mins(1);

async fn transactional(options: &Options, timeout: Duration) -> Result<TransactionalProducer> {
    let settings = connect(options).await?.producer().transaction_timeout(timeout);
    Ok(settings.build_transactional(&options.transactional_id).await?)
}

/// Writes the records and waits until they are written.
async fn write(producer: &TransactionalProducer, records: impl IntoIterator<Item = Record>) -> Result<()> {
    let mut sent = Vec::new();
    for record in records {
        sent.push(producer.enqueue(record).await?);
    }
    for delivery in sent {
        let _ = delivery.await?;
    }
    Ok(())
}

/// Begins a transaction and writes its records, named after it, to all partitions in turn.
async fn send(producer: &TransactionalProducer, options: &Options, name: &str) -> Result<Vec<String>> {
    producer.begin()?;
    let values: Vec<String> = (0..RECORDS_PER_TRANSACTION).map(|i| format!("{name}-{i}")).collect();
    let records = values.iter().enumerate().map(|(i, value)| {
        Record::new(&options.topic, value.clone()).partition(partition(options, i)).key(name.to_owned())
    });
    write(producer, records).await?;
    Ok(values)
}

/// The topic must hold exactly these values for a reader of this isolation level, in this order per partition.
async fn expect(options: &Options, isolation: IsolationLevel, values: &[String]) -> Result<()> {
    let mut expected: BTreeMap<i32, Vec<&str>> = BTreeMap::new();
    for value in values {
        let (_, i) = value.rsplit_once('-').context("a value has a number")?;
        expected.entry(partition(options, i.parse()?)).or_default().push(value);
    }
    let records = read(options, &options.topic, isolation, values.len()).await?;
    let mut found: BTreeMap<i32, Vec<&str>> = BTreeMap::new();
    for record in records.values().flatten() {
        found.entry(record.partition).or_default().push(str::from_utf8(&record.value)?);
    }
    ensure!(found == expected, "{isolation:?} read {found:?}, expected {expected:?}");
    Ok(())
}

async fn refused(producer: &TransactionalProducer) -> Result<String> {
    match producer.commit().await {
        Ok(()) => bail!("the commit was not refused"),
        Err(error) => Ok(error.to_string()),
    }
}

pub async fn transactions(options: &Options, counts: &mut Counts) -> Result<()> {
    let admin = Admin::new(options).await?;
    admin.create_topic(&options.topic, &[]).await?;
    let producer = transactional(options, MINUTE).await?;
    let (mut everything, mut committed) = (Vec::new(), Vec::new());
    for n in 0..options.transactions {
        let values = send(&producer, options, &format!("t{n}")).await?;
        everything.extend(values.clone());
        if n % 2 == 0 {
            producer.commit().await?;
            committed.extend(values);
        } else {
            producer.abort().await?;
        }
    }
    let last = send(&producer, options, "open").await?;
    everything.extend(last.clone());
    expect(options, IsolationLevel::ReadUncommitted, &everything).await?;
    expect(options, IsolationLevel::ReadCommitted, &committed).await?;
    ensure!(admin.holds_back().await?, "an open transaction does not hold back the last stable offset");
    producer.commit().await?;
    committed.extend(last);
    expect(options, IsolationLevel::ReadCommitted, &committed).await?;
    producer.close().await?;
    counts.insert("transactions".into(), json!(options.transactions + 1));
    counts.insert("committed_records".into(), json!(committed.len()));
    Ok(())
}

pub async fn txn_offsets(options: &Options, counts: &mut Counts) -> Result<()> {
    let output = format!("{}-out", options.topic);
    let admin = Admin::new(options).await?;
    for topic in [&options.topic, &output] {
        admin.create_topic(topic, &[]).await?;
    }
    produce(options, 0..options.records, true).await?;
    copy(options, &output, counts).await?;
    let (committed, ends) = (admin.group_offsets().await?, admin.ends().await?);
    ensure!(committed == ends, "committed {committed:?}, expected {ends:?}");
    let found = read(options, &output, IsolationLevel::ReadCommitted, options.records).await?;
    let keys: BTreeSet<_> = found.values().flatten().map(|record| &record.key).collect();
    ensure!(keys.len() == options.records, "copied {} different records of {}", keys.len(), options.records);
    Ok(())
}

/// Copies all records, with their offsets in the same transactions, every third of which is aborted.
async fn copy(options: &Options, output: &str, counts: &mut Counts) -> Result<()> {
    let producer = transactional(options, MINUTE).await?;
    let consumer = member(options, (options.records / 20).max(1).try_into()?).await?;
    let end = Instant::now() + options.timeout;
    let (mut copied, mut made, mut aborted) = (0, 0, 0);
    while copied < options.records {
        ensure!(Instant::now() < end, "timed out with {copied} records copied in {made} transactions");
        let records = consumer.poll(POLL).await?;
        if records.is_empty() {
            continue;
        }
        producer.begin()?;
        write(&producer, records.iter().map(|record| of(record, output))).await?;
        let next: BTreeMap<i32, i64> = records.iter().map(|record| (record.partition, record.offset + 1)).collect();
        let offsets: Vec<_> =
            next.iter().map(|(&partition, &at)| TopicPartitionOffset::new(&options.topic, partition, at)).collect();
        let membership = consumer.group_metadata().await.context("a member that polled has joined")?;
        producer.send_offsets(&offsets, &membership).await?;
        made += 1;
        if made % 3 == 0 {
            producer.abort().await?;
            aborted += 1;
            for record in records.iter().rev() {
                consumer.seek(&options.topic, record.partition, record.offset).await?; // at last to the first of each
            }
        } else {
            producer.commit().await?;
            copied += records.len();
        }
    }
    consumer.close().await?;
    producer.close().await?;
    counts.insert("transactions".into(), json!(made));
    counts.insert("aborted".into(), json!(aborted));
    counts.insert("records".into(), json!(copied));
    Ok(())
}

/// The copy of a record.
fn of(record: &ConsumerRecord, output: &str) -> Record {
    let copy = Record::new(output, record.value.clone().unwrap_or_default()).partition(record.partition);
    copy.key(record.key.clone().unwrap_or_default())
}

pub async fn zombie(options: &Options, counts: &mut Counts) -> Result<()> {
    Admin::new(options).await?.create_topic(&options.topic, &[]).await?;
    let old = transactional(options, MINUTE).await?;
    let mut committed = send(&old, options, "before").await?;
    old.commit().await?;
    send(&old, options, "zombie").await?;
    let owner = transactional(options, MINUTE).await?;
    counts.insert("fenced".into(), json!(refused(&old).await?));
    committed.extend(send(&owner, options, "after").await?);
    owner.commit().await?;
    expect(options, IsolationLevel::ReadCommitted, &committed).await?;
    Ok(owner.close().await?)
}

pub async fn txn_timeout(options: &Options, counts: &mut Counts) -> Result<()> {
    let admin = Admin::new(options).await?;
    admin.create_topic(&options.topic, &[]).await?;
    let slow = transactional(options, Duration::from_millis(1500)).await?;
    send(&slow, options, "slow").await?;
    let aborted = async || Ok(!admin.holds_back().await?);
    until(options, "the coordinator to abort the transaction", aborted).await?;
    counts.insert("refused".into(), json!(refused(&slow).await?));
    let next = transactional(options, MINUTE).await?;
    let values = send(&next, options, "next").await?;
    next.commit().await?;
    expect(options, IsolationLevel::ReadCommitted, &values).await?;
    Ok(next.close().await?)
}
