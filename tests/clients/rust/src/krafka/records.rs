//! Records written and read.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use krafka::consumer::{AutoOffsetReset, IsolationLevel};
use krafka::{Compression, Record};
use playing::{Counts, Found, Options, check_found, check_offsets, key, partition, value};
use serde_json::json;

use crate::admin::Admin;
use crate::{POLL, connect};

/// Small, so that even a thousand records are several batches in each partition.
/// The client sends one at a time for each partition, idempotent or not, and those of several partitions together.
const BATCH_BYTES: usize = 4096;
const READ_MAX: i32 = 5000;

fn codec(name: &str) -> Result<Compression> {
    Ok(match name {
        "none" => Compression::None,
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        _ => bail!("{name} is not a codec"),
    })
}

pub async fn produce_consume(options: &Options, counts: &mut Counts, idempotent: bool) -> Result<()> {
    Admin::new(options).await?.create_topic(&options.topic, &[]).await?;
    produce(options, 0..options.records, idempotent).await?;
    let found = read(options, &options.topic, IsolationLevel::ReadUncommitted, options.records).await?;
    check_found(options, &found)?;
    counts.insert("records".into(), json!(options.records));
    Ok(())
}

/// Record i goes to partition i % partitions; the offsets given back must follow one another.
pub async fn produce(options: &Options, numbers: Range<usize>, idempotent: bool) -> Result<()> {
    let settings = connect(options).await?.producer().compression(codec(&options.compression)?);
    let producer = settings.idempotent(idempotent).batch_size(BATCH_BYTES).build().await?;
    let mut sent = Vec::new();
    for i in numbers.clone() {
        let record = Record::new(&options.topic, value(i)).partition(partition(options, i)).key(key(i));
        sent.push(producer.enqueue(record).await?);
    }
    let mut offsets = Vec::new();
    for delivery in sent {
        offsets.push(delivery.await?.offset);
    }
    producer.close().await?;
    check_offsets(options, numbers, &offsets)
}

/// The records by partition: the expected number, then half a second more for those that should not come.
pub async fn read(
    options: &Options,
    topic: &str,
    isolation: IsolationLevel,
    expected: usize,
) -> Result<BTreeMap<i32, Vec<Found>>> {
    let settings = connect(options).await?.consumer_without_group().auto_offset_reset(AutoOffsetReset::Earliest);
    let consumer = settings.isolation_level(isolation).max_poll_records(READ_MAX).build().await?;
    consumer.assign(topic, (0..options.partitions).collect()).await?;
    let mut found: BTreeMap<i32, Vec<Found>> = BTreeMap::new();
    let mut count = 0;
    let mut quiet = false;
    let mut end = Instant::now() + options.timeout;
    while Instant::now() < end {
        if count >= expected && !quiet {
            quiet = true;
            end = Instant::now() + Duration::from_millis(500);
        }
        for record in consumer.poll(POLL).await? {
            let (key, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
            let (partition, offset) = (record.partition, record.offset);
            let as_found = Found { partition, offset, key: key.into(), value: value.into() };
            found.entry(partition).or_default().push(as_found);
            count += 1;
        }
    }
    consumer.close().await?;
    ensure!(count == expected, "read {count} records {isolation:?}, expected {expected}");
    Ok(found)
}
