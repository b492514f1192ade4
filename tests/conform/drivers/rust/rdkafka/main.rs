//! rust-rdkafka: librdkafka from Rust.

mod driver;

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use driver::{Failure, Record, Request, Verbs, Wrong};
use rdkafka::config::{ClientConfig, FromClientConfig, FromClientConfigAndContext};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(20);
/// Settings of the Java client that librdkafka has under the same name.
const SETTINGS: &str = "client.id client.rack retry.backoff.ms retry.backoff.max.ms metadata.max.age.ms request.timeout.ms \
    transactional.id transaction.timeout.ms enable.idempotence acks retries linger.ms batch.size compression.type \
    max.in.flight.requests.per.connection delivery.timeout.ms group.id group.instance.id group.protocol isolation.level \
    auto.offset.reset enable.auto.commit session.timeout.ms heartbeat.interval.ms max.poll.interval.ms";
const OF_PRODUCERS: &str = "transactional.id transaction.timeout.ms enable.idempotence acks retries linger.ms batch.size \
    compression.type max.in.flight.requests.per.connection delivery.timeout.ms request.timeout.ms";
const OF_CONSUMERS: &str = "group.id group.instance.id group.protocol isolation.level auto.offset.reset enable.auto.commit \
    session.timeout.ms heartbeat.interval.ms max.poll.interval.ms";

type Answer = Result<(i32, i64), KafkaError>;

/// Tells what became of a record to the channel that came with it.
struct Delivering;

impl ClientContext for Delivering {}

impl ProducerContext for Delivering {
    type DeliveryOpaque = Box<Sender<Answer>>;

    fn delivery(&self, result: &DeliveryResult<'_>, told: Self::DeliveryOpaque) {
        let answer = result.as_ref().map(|at| (at.partition(), at.offset())).map_err(|(error, _)| error.clone());
        let _ = told.send(answer);
    }
}

struct Producing {
    producer: ThreadedProducer<Delivering>,
    transactional: bool,
    sent: Mutex<Vec<Receiver<Answer>>>,
}

#[derive(Default)]
struct RdKafka {
    producers: Mutex<HashMap<String, Arc<Producing>>>,
    consumers: Mutex<HashMap<String, Arc<BaseConsumer>>>,
}

fn named<T>(all: &Mutex<HashMap<String, Arc<T>>>, name: &str) -> Result<Arc<T>, KafkaError> {
    let found = all.lock().unwrap().get(name).cloned();
    found.ok_or_else(|| KafkaError::ClientCreation(format!("no client {name}")))
}

impl Producing {
    /// After a fatal error records say only that they were purged; what was fatal is told in its place, by the one
    /// variant that says so.
    fn told(&self, hears: Receiver<Answer>) -> Answer {
        let answer = hears.recv().unwrap_or(Err(KafkaError::Canceled));
        let fatal = || self.producer.client().fatal_error();
        answer.map_err(|error| fatal().map_or(error, |(code, _)| KafkaError::MessageConsumptionFatal(code)))
    }
}

/// NotLeaderForPartition to NOT_LEADER_FOR_PARTITION.
fn snake(camel: &str) -> String {
    let mut name = String::new();
    for letter in camel.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name.replace("FENCED", "PRODUCER_FENCED").replace("PRODUCER_PRODUCER", "PRODUCER")
}

impl RdKafka {
    fn producer(&self, r: &Request) -> Result<Arc<Producing>, KafkaError> {
        named(&self.producers, r.text("client"))
    }
}

impl Verbs for RdKafka {
    type Error = KafkaError;

    fn library(&self) -> (String, String) {
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
        Failure { name, class, message: error.to_string() }
    }

    fn init(&self, r: &Request) -> Result<(), Wrong<KafkaError>> {
        for needed in r.list("needs") {
            if !SETTINGS.split_whitespace().any(|known| needed == known) {
                return Err(Wrong::Unsupported(format!("librdkafka has no {needed}")));
            }
        }
        let consumer = r.text("role") == "consumer";
        let not_for_it = if consumer { OF_PRODUCERS } else { OF_CONSUMERS };
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", r.text("bootstrap")).set("client.id", r.client());
        if consumer {
            config.set("auto.offset.reset", "earliest").set("enable.auto.commit", "false");
        }
        for (key, value) in r.config() {
            if SETTINGS.split_whitespace().any(|known| key == known) && !not_for_it.split_whitespace().any(|other| key == other) {
                config.set(key, value.as_str().map_or(value.to_string(), str::to_owned));
            }
        }
        if consumer {
            self.consumers.lock().unwrap().insert(r.client(), Arc::new(BaseConsumer::from_config(&config)?));
            return Ok(());
        }
        if self.producer(r).is_err() {
            let (producer, sent) = (ThreadedProducer::from_config_and_context(&config, Delivering)?, Mutex::default());
            let made = Producing { producer, transactional: config.get("transactional.id").is_some(), sent };
            self.producers.lock().unwrap().insert(r.client(), Arc::new(made));
        }
        let made = self.producer(r)?;
        Ok(if made.transactional && !r.flag("lazy") { made.producer.init_transactions(PATIENCE)? })
    }

    fn begin(&self, r: &Request) -> Result<(), Wrong<KafkaError>> {
        self.producer(r)?.sent.lock().unwrap().clear();
        Ok(self.producer(r)?.producer.begin_transaction()?)
    }

    fn send(&self, r: &Request) -> Result<Option<(i32, i64)>, Wrong<KafkaError>> {
        let (told, hears) = channel();
        let mut record = BaseRecord::with_opaque_to(r.text("topic"), Box::new(told)).payload(r.text("value"));
        record.key = r.maybe_text("key");
        record.partition = r.number("partition").map(|at| at as i32);
        let made = self.producer(r)?;
        made.producer.send(record).map_err(|(error, _)| error)?;
        if r.flag("wait") {
            return Ok(Some(made.told(hears)?));
        }
        made.sent.lock().unwrap().push(hears);
        Ok(None)
    }

    fn flush(&self, r: &Request) -> Result<(), Wrong<KafkaError>> {
        let made = self.producer(r)?;
        made.producer.flush(PATIENCE)?;
        let sent = std::mem::take(&mut *made.sent.lock().unwrap());
        for hears in sent {
            made.told(hears)?;
        }
        Ok(())
    }

    fn send_offsets(&self, r: &Request) -> Result<(), Wrong<KafkaError>> {
        let Some(member) = r.maybe_text("consumer") else {
            return Err(Wrong::Unsupported("the metadata of a group comes from a consumer".into()));
        };
        let group = named(&self.consumers, member)?.group_metadata().ok_or(KafkaError::Canceled)?;
        let mut offsets = TopicPartitionList::new();
        for at in r.list("offsets") {
            let number = |name: &str| at[name].as_i64().unwrap_or_default();
            let topic = at["topic"].as_str().unwrap_or_default();
            offsets.add_partition_offset(topic, number("partition") as i32, Offset::Offset(number("offset")))?;
        }
        Ok(self.producer(r)?.producer.send_offsets_to_transaction(&offsets, &group, PATIENCE)?)
    }

    fn commit(&self, r: &Request) -> Result<(), Wrong<KafkaError>> {
        if let Ok(consumer) = named(&self.consumers, r.text("client")) {
            return Ok(consumer.commit_consumer_state(CommitMode::Sync)?);
        }
        Ok(self.producer(r)?.producer.commit_transaction(PATIENCE)?)
    }

    fn abort(&self, r: &Request) -> Result<(), Wrong<KafkaError>> {
        Ok(self.producer(r)?.producer.abort_transaction(PATIENCE)?)
    }

    fn subscribe(&self, r: &Request) -> Result<(), Wrong<KafkaError>> {
        let topics = r.list("topics");
        let topics: Vec<&str> = topics.iter().filter_map(Value::as_str).collect();
        Ok(named(&self.consumers, r.text("client"))?.subscribe(&topics)?)
    }

    fn poll(&self, r: &Request, most: usize, within: Duration) -> Result<Vec<Record>, Wrong<KafkaError>> {
        let (consumer, end) = (named(&self.consumers, r.text("client"))?, Instant::now() + within);
        let mut records = Vec::new();
        while records.len() < most && Instant::now() < end {
            if let Some(message) = consumer.poll(end - Instant::now()) {
                records.push(told(&message?));
            }
        }
        Ok(records)
    }

    fn close(&self, r: &Request) -> Result<(), Wrong<KafkaError>> {
        self.consumers.lock().unwrap().remove(&r.client());
        if let Some(made) = self.producers.lock().unwrap().remove(&r.client()) {
            made.producer.purge(rdkafka::producer::PurgeConfig::default().queue().inflight());
        }
        Ok(())
    }
}

fn told(message: &BorrowedMessage<'_>) -> Record {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Record {
        topic: message.topic().to_owned(),
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(text),
        value: message.payload().map(text).unwrap_or_default(),
    }
}

fn main() {
    driver::run(RdKafka::default());
}
