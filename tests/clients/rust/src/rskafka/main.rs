//! One scenario of rskafka, which knows neither groups nor idempotence nor transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Error, Result, bail, ensure};
use playing::{Counts, Found, Login, Options, Unsupported, check_found, check_offsets, key, partition, run, until, value};
use rskafka::chrono::DateTime;
use rskafka::client::error::{Error as ClientError, ProtocolError};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
use rskafka::record::Record;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::task::JoinSet;

const RECORDS_PER_BATCH: usize = 400;
const FETCH_BYTES: Range<i32> = 1..1_000_000;
const FETCH_WAIT_MS: i32 = 500;
const PATIENCE_MS: i32 = 30_000;

fn codec(name: &str) -> Result<Compression> {
    Ok(match name {
        "none" => Compression::NoCompression,
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        _ => bail!("{name} is not a codec"),
    })
}

fn tls(login: &Login) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&login.ca)? {
        roots.add(certificate?)?;
    }
    Ok(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
}

fn sasl(login: &Login) -> Result<SaslConfig> {
    let credentials = Credentials::new(login.username.clone(), login.password.clone());
    Ok(match login.mechanism.as_str() {
        "PLAIN" => SaslConfig::Plain(credentials),
        "SCRAM-SHA-256" => SaslConfig::ScramSha256(credentials),
        "SCRAM-SHA-512" => SaslConfig::ScramSha512(credentials),
        other => bail!("{other} is not a mechanism"),
    })
}

async fn connect(options: &Options) -> Result<Client> {
    let brokers = options.bootstrap.split(',').map(str::to_owned).collect();
    let mut builder = ClientBuilder::new(brokers);
    if let Some(login) = &options.login {
        builder = builder.tls_config(tls(login)?).sasl_config(sasl(login)?);
    }
    Ok(builder.build().await?)
}

async fn create(client: &Client, options: &Options) -> Result<()> {
    Ok(client.controller_client()?.create_topic(&options.topic, options.partitions, 1, PATIENCE_MS).await?)
}

async fn leader(client: &Client, options: &Options, partition: i32) -> Result<PartitionClient> {
    Ok(client.partition_client(&options.topic, partition, UnknownTopicHandling::Retry).await?)
}

/// Writes the records of one partition batch by batch; their offsets.
async fn write(to: PartitionClient, numbers: Vec<usize>, compression: Compression) -> Result<Vec<i64>> {
    let mut offsets = Vec::new();
    for batch in numbers.chunks(RECORDS_PER_BATCH) {
        let records = batch.iter().map(|&i| Record {
            key: Some(key(i).into()),
            value: Some(value(i).into()),
            headers: BTreeMap::new(),
            timestamp: DateTime::UNIX_EPOCH,
        });
        offsets.extend(to.produce(records.collect(), compression).await?);
    }
    Ok(offsets)
}

/// Record i goes to partition i % partitions; the offsets given back must follow one another.
async fn produce(client: &Client, options: &Options, numbers: Range<usize>) -> Result<()> {
    let compression = codec(&options.compression)?;
    let mut writing = JoinSet::new();
    for at in 0..options.partitions {
        let to = leader(client, options, at).await?;
        let own: Vec<usize> = numbers.clone().filter(|&i| partition(options, i) == at).collect();
        writing.spawn(async move { write(to, own.clone(), compression).await.map(|offsets| (own, offsets)) });
    }
    let mut of_record = BTreeMap::new();
    while let Some(written) = writing.join_next().await {
        let (own, offsets) = written??;
        of_record.extend(own.into_iter().zip(offsets));
    }
    check_offsets(options, numbers, &of_record.into_values().collect::<Vec<_>>())
}

/// The records of a partition: the expected number, then one more fetch for those that should not come.
async fn read(from: PartitionClient, expected: usize, end: Instant) -> Result<Vec<Found>> {
    let mut found: Vec<Found> = Vec::new();
    let mut quiet = false;
    while !quiet {
        ensure!(Instant::now() < end, "timed out with {} of {expected} records", found.len());
        quiet = found.len() >= expected;
        let next = found.last().map_or(0, |record| record.offset + 1);
        let (records, _high_watermark) = from.fetch_records(next, FETCH_BYTES, FETCH_WAIT_MS).await?;
        found.extend(records.into_iter().map(|at| Found {
            partition: from.partition(),
            offset: at.offset,
            key: at.record.key.unwrap_or_default(),
            value: at.record.value.unwrap_or_default(),
        }));
    }
    ensure!(found.len() == expected, "read {} records, expected {expected}", found.len());
    Ok(found)
}

async fn produce_consume(options: &Options, counts: &mut Counts) -> Result<()> {
    let client = connect(options).await?;
    create(&client, options).await?;
    produce(&client, options, 0..options.records).await?;
    let end = Instant::now() + options.timeout;
    let mut reading = JoinSet::new();
    for at in 0..options.partitions {
        let from = leader(&client, options, at).await?;
        let expected = (0..options.records).filter(|&i| partition(options, i) == at).count();
        reading.spawn(async move { (at, read(from, expected, end).await) });
    }
    let mut found = BTreeMap::new();
    while let Some(read) = reading.join_next().await {
        let (at, records) = read?;
        found.insert(at, records?);
    }
    check_found(options, &found)?;
    counts.insert("records".into(), json!(options.records));
    Ok(())
}

async fn create_again(client: &Client, options: &Options) -> Result<()> {
    match create(client, options).await {
        Ok(()) => bail!("expected TOPIC_ALREADY_EXISTS"),
        Err(error) => match error.downcast_ref() {
            Some(ClientError::ServerError { protocol_error: ProtocolError::TopicAlreadyExists, .. }) => Ok(()),
            _ => Err(error.context("expected TOPIC_ALREADY_EXISTS")),
        },
    }
}

async fn partitions(client: &Client, options: &Options) -> Result<Option<BTreeSet<i32>>> {
    let topics = client.list_topics().await?;
    Ok(topics.into_iter().find(|topic| topic.name == options.topic).map(|topic| topic.partitions))
}

async fn describe(client: &Client, options: &Options) -> Result<()> {
    let found = partitions(client, options).await?;
    ensure!(found == Some((0..options.partitions).collect()), "partitions {found:?}");
    Ok(())
}

async fn list_offsets(client: &Client, options: &Options) -> Result<()> {
    produce(client, options, 0..10 * options.partitions as usize).await?;
    let from = leader(client, options, 0).await?;
    let offsets = (from.get_offset(OffsetAt::Earliest).await?, from.get_offset(OffsetAt::Latest).await?);
    ensure!(offsets == (0, 10), "first and end offset {offsets:?}, expected 0 and 10");
    Ok(())
}

async fn delete_records(client: &Client, options: &Options) -> Result<()> {
    let from = leader(client, options, 0).await?;
    from.delete_records(4, PATIENCE_MS).await?;
    let first = from.get_offset(OffsetAt::Earliest).await?;
    ensure!(first == 4, "first offset {first}, expected 4");
    Ok(())
}

async fn delete(client: &Client, options: &Options) -> Result<()> {
    ensure!(partitions(client, options).await?.is_some(), "{} is not listed", options.topic);
    client.controller_client()?.delete_topic(&options.topic, PATIENCE_MS).await?;
    let gone = async || Ok(partitions(client, options).await?.is_none());
    until(options, "the topic to be gone", gone).await
}

async fn admin(options: &Options, counts: &mut Counts) -> Result<()> {
    let client = connect(options).await?;
    let mut done = Vec::new();
    let mut step = |name: &'static str, result: Result<()>| {
        result.with_context(|| name)?;
        done.push(name);
        Ok::<(), Error>(())
    };
    step("create", create(&client, options).await)?;
    step("create again", create_again(&client, options).await)?;
    step("describe", describe(&client, options).await)?;
    step("list offsets", list_offsets(&client, options).await)?;
    step("delete records", delete_records(&client, options).await)?;
    step("delete", delete(&client, options).await)?;
    counts.insert("steps".into(), json!(done));
    Ok(())
}

async fn play(options: &Options, counts: &mut Counts) -> Result<()> {
    match options.scenario.as_str() {
        "produce-consume" => produce_consume(options, counts).await,
        "admin" => admin(options, counts).await,
        other => Err(Unsupported(format!("rskafka has no means for {other}")).into()),
    }
}

#[tokio::main]
async fn main() {
    run("rskafka", play).await;
}
