//! rust-rdkafka: librdkafka from Rust.

mod driver;
mod library;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use driver::{Done, Failure, Record, Request};
use library::{Answer, Library, Settings, among, snake};
use rdkafka::config::{ClientConfig, FromClientConfig, FromClientConfigAndContext};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, PurgeConfig, ThreadedProducer};
use rdkafka::{ClientContext, Offset, TopicPartitionList};

const PATIENCE: Duration = Duration::from_secs(20);
// Settings of the Java client that librdkafka has under the same name.
const BOTH: &str = "client.id client.rack retry.backoff.ms retry.backoff.max.ms metadata.max.age.ms";
const PRODUCERS: &str = "transactional.id transaction.timeout.ms enable.idempotence acks retries linger.ms batch.size \
    compression.type max.in.flight.requests.per.connection delivery.timeout.ms request.timeout.ms";
const CONSUMERS: &str = "group.id group.instance.id group.protocol isolation.level auto.offset.reset enable.auto.commit \
    session.timeout.ms heartbeat.interval.ms max.poll.interval.ms";
const SINCE_2_4: &str = "retry.backoff.max.ms group.protocol";

type Told = Result<(i32, i64), KafkaError>;

/// Tells what became of a record to the channel that came with it.
struct Delivering;

impl ClientContext for Delivering {}

impl ProducerContext for Delivering {
    type DeliveryOpaque = Box<Sender<Told>>;

    fn delivery(&self, result: &DeliveryResult<'_>, tells: Self::DeliveryOpaque) {
        let told = result.as_ref().map(|at| (at.partition(), at.offset())).map_err(|(error, _)| error.clone());
        let _ = tells.send(told);
    }
}

struct RdKafka;
type Producing = ThreadedProducer<Delivering>;

fn config(r: &Request, settings: &Settings) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", r.text("bootstrap")).set("client.id", r.text("client"));
    if r.text("role") == "consumer" {
        config.set("auto.offset.reset", "earliest").set("enable.auto.commit", "false");
    }
    for (key, value) in &settings.0 {
        config.set(key, value.as_str().map_or(value.to_string(), str::to_owned));
    }
    config
}

impl Library for RdKafka {
    type Error = KafkaError;
    type Producer = Producing;
    type Consumer = BaseConsumer;
    type Sent = Receiver<Told>;

    fn about(&self) -> (String, String) {
        let librdkafka = rdkafka::util::get_rdkafka_version().1;
        ("rust-rdkafka (librdkafka)".into(), format!("{} ({librdkafka})", env!("CRATE_VERSION")))
    }

    fn failure(&self, error: KafkaError) -> Failure {
        let name = error.rdkafka_error_code().map_or("ERROR".into(), |code| snake(&format!("{code:?}")));
        let class = match &error {
            KafkaError::MessageConsumptionFatal(_) => "fatal",
            KafkaError::Transaction(told) if told.is_fatal() => "fatal",
            KafkaError::Transaction(told) if told.txn_requires_abort() => "abortable",
            KafkaError::Transaction(told) if told.is_retriable() => "retriable",
            _ => "unknown",
        };
        let name = if name == "FENCED" { "PRODUCER_FENCED".into() } else { name };
        Failure { name, class, message: error.to_string() }
    }

    fn knows(&self, role: &str, setting: &str) -> bool {
        let older = rdkafka::util::get_rdkafka_version().0 < 0x0204_0000;
        let own = if role == "consumer" { CONSUMERS } else { PRODUCERS };
        (among(BOTH, setting) || among(own, setting)) && !(older && among(SINCE_2_4, setting))
    }

    fn producer(&self, r: &Request, settings: &Settings) -> Answer<Producing, KafkaError> {
        Ok(Producing::from_config_and_context(&config(r, settings), Delivering)?)
    }

    fn consumer(&self, r: &Request, settings: &Settings) -> Answer<BaseConsumer, KafkaError> {
        Ok(BaseConsumer::from_config(&config(r, settings))?)
    }

    fn init(&self, producer: &Producing) -> Done<KafkaError> { Ok(producer.init_transactions(PATIENCE)?) }
    fn begin(&self, producer: &Producing) -> Done<KafkaError> { Ok(producer.begin_transaction()?) }
    fn flush(&self, producer: &Producing) -> Done<KafkaError> { Ok(producer.flush(PATIENCE)?) }
    fn commit(&self, producer: &Producing) -> Done<KafkaError> { Ok(producer.commit_transaction(PATIENCE)?) }
    fn abort(&self, producer: &Producing) -> Done<KafkaError> { Ok(producer.abort_transaction(PATIENCE)?) }
    fn close(&self, producer: &Producing) { producer.purge(PurgeConfig::default().queue().inflight()) }

    fn send(&self, producer: &Producing, r: &Request) -> Answer<Receiver<Told>, KafkaError> {
        let (tells, hears) = channel();
        let mut record = BaseRecord::with_opaque_to(r.text("topic"), Box::new(tells)).payload(r.text("value"));
        record.key = r.maybe_text("key");
        record.partition = r.number("partition").map(|at| at as i32);
        Ok(producer.send(record).map(|()| hears).map_err(|(error, _)| error)?)
    }

    /// After a fatal error records say only that they were purged; what was fatal is told in its place, by the one variant
    /// that says so.
    fn acknowledged(&self, producer: &Producing, hears: Receiver<Told>) -> Answer<(i32, i64), KafkaError> {
        let told = hears.recv().unwrap_or(Err(KafkaError::Canceled));
        let fatal = || producer.client().fatal_error();
        Ok(told.map_err(|error| fatal().map_or(error, |(code, _)| KafkaError::MessageConsumptionFatal(code)))?)
    }

    fn offsets(&self, producer: &Producing, of: &BaseConsumer, r: &Request) -> Done<KafkaError> {
        let (group, mut offsets) = (of.group_metadata().ok_or(KafkaError::Canceled)?, TopicPartitionList::new());
        for (topic, partition, offset) in r.offsets() {
            offsets.add_partition_offset(topic, partition, Offset::Offset(offset))?;
        }
        Ok(producer.send_offsets_to_transaction(&offsets, &group, PATIENCE)?)
    }

    fn subscribe(&self, consumer: &BaseConsumer, topics: Vec<&str>) -> Done<KafkaError> { Ok(consumer.subscribe(&topics)?) }

    fn poll(&self, consumer: &BaseConsumer, within: Duration) -> Answer<Vec<Record>, KafkaError> {
        let from = consumer.poll(within).transpose()?;
        Ok(from.iter().map(|at| Record::of(at.topic(), at.partition(), at.offset(), at.key(), at.payload())).collect())
    }

    fn commit_positions(&self, consumer: &BaseConsumer) -> Done<KafkaError> {
        Ok(consumer.commit_consumer_state(CommitMode::Sync)?)
    }
}

fn main() {
    library::run(RdKafka);
}
