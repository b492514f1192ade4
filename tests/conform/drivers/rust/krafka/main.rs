//! krafka.

mod driver;
mod library;

use std::time::Duration;

use driver::{Done, Failure, Record, Request};
use krafka::consumer::{AutoOffsetReset, Consumer, GroupProtocol, IsolationLevel};
use krafka::producer::{Acks, DeliveryHandle, Producer, TopicPartitionOffset, TransactionalProducer};
use krafka::{Kafka, KrafkaError};
use library::{Answer, Library, Settings, among, snake, unsupported};
use tokio::runtime::Runtime;

/// Settings of the Java client that krafka has.
const SETTINGS: &str = "client.id transactional.id transaction.timeout.ms enable.idempotence acks linger.ms \
    delivery.timeout.ms retry.backoff.ms request.timeout.ms metadata.max.age.ms max.block.ms group.id group.instance.id \
    group.protocol isolation.level auto.offset.reset enable.auto.commit session.timeout.ms heartbeat.interval.ms";

enum Made {
    Plain(Producer),
    Transactional(TransactionalProducer),
}

use Made::{Plain, Transactional};

impl Made {
    fn transactional(&self) -> Result<&TransactionalProducer, KrafkaError> {
        match self {
            Transactional(producer) => Ok(producer),
            Plain(_) => Err(KrafkaError::config("not a transactional producer")),
        }
    }
}

struct Krafka(Runtime);

impl Krafka {
    /// Wait for the library, which is asynchronous.
    fn wait<T>(&self, what: impl Future<Output = Result<T, KrafkaError>>) -> Answer<T, KrafkaError> { Ok(self.0.block_on(what)?) }

    fn connected(&self, r: &Request, settings: &Settings) -> Answer<Kafka, KrafkaError> {
        let kafka = Kafka::builder(r.text("bootstrap")).client_id(settings.text("client.id").unwrap_or(r.text("client")));
        let (request, connect) = (settings.time("request.timeout.ms", 30_000), Duration::from_secs(10));
        let kafka = kafka.request_timeout(request).connect_timeout(connect.min(request)); // it refuses a longer one
        self.wait(kafka.metadata_max_age(settings.time("metadata.max.age.ms", 300_000)).connect())
    }
}

impl Library for Krafka {
    type Error = KrafkaError;
    type Producer = Made;
    type Consumer = Consumer;
    type Sent = DeliveryHandle;

    fn about(&self) -> (String, String) { ("krafka".into(), env!("CRATE_VERSION").into()) }

    fn failure(&self, error: KrafkaError) -> Failure {
        let class = match &error {
            error if error.is_fatal() => "fatal",
            error if error.requires_abort() => "abortable",
            error if error.is_retriable() => "retriable",
            _ => "unknown",
        };
        let name = match &error {
            KrafkaError::Broker { code, .. } => snake(&format!("{code:?}")),
            KrafkaError::Fenced { .. } => "PRODUCER_FENCED".into(),
            other => snake(&format!("{other:?}")),
        };
        Failure { name, class, message: error.to_string() }
    }

    fn knows(&self, _: &str, setting: &str) -> bool { among(SETTINGS, setting) }

    fn consumer(&self, r: &Request, s: &Settings) -> Answer<Consumer, KrafkaError> {
        let reset = if s.text("auto.offset.reset") == Some("latest") { AutoOffsetReset::Latest } else { AutoOffsetReset::Earliest };
        let committed = s.text("isolation.level") == Some("read_committed");
        let isolation = if committed { IsolationLevel::ReadCommitted } else { IsolationLevel::ReadUncommitted };
        let made = self.connected(r, s)?.consumer(s.text("group.id").unwrap_or_default()).auto_offset_reset(reset);
        let made = made.isolation_level(isolation).enable_auto_commit(s.flag("enable.auto.commit").unwrap_or(false)).max_poll_records(1);
        let made = match s.text("group.protocol") {
            Some("consumer") => made.group_protocol(GroupProtocol::Consumer), // its timers are the broker's
            _ => made.session_timeout(s.time("session.timeout.ms", 10_000)).heartbeat_interval(s.time("heartbeat.interval.ms", 3_000)),
        };
        let made = s.text("group.instance.id").into_iter().fold(made, |made, instance| made.group_instance_id(instance));
        self.wait(made.build())
    }

    fn producer(&self, r: &Request, s: &Settings) -> Answer<Made, KrafkaError> {
        if r.flag("lazy") && s.text("transactional.id").is_some() {
            return unsupported("a producer initialises its transactions when it is made");
        }
        let made = self.connected(r, s)?.producer().retry_backoff(s.time("retry.backoff.ms", 100)).linger(s.time("linger.ms", 0));
        let made = made.delivery_timeout(s.time("delivery.timeout.ms", 120_000)).max_block(s.time("max.block.ms", 60_000));
        let acks = s.text("acks").map(|acks| match acks { "0" => Acks::None, "1" => Acks::Leader, _ => Acks::All });
        let made = acks.into_iter().fold(made, |made, acks| made.acks(acks));
        let made = s.flag("enable.idempotence").into_iter().fold(made, |made, enable| made.idempotent(enable));
        let Some(id) = s.text("transactional.id") else {
            return Ok(Plain(self.wait(made.build())?));
        };
        let made = made.transaction_timeout(s.time("transaction.timeout.ms", 60_000));
        Ok(Transactional(self.wait(made.build_transactional(id))?))
    }

    fn begin(&self, producer: &Made) -> Done<KrafkaError> { Ok(producer.transactional()?.begin()?) }
    fn commit(&self, producer: &Made) -> Done<KrafkaError> { self.wait(producer.transactional()?.commit()) }
    fn abort(&self, producer: &Made) -> Done<KrafkaError> { self.wait(producer.transactional()?.abort()) }

    fn send(&self, producer: &Made, r: &Request) -> Answer<DeliveryHandle, KrafkaError> {
        let record = krafka::Record::new(r.text("topic"), r.text("value").to_owned());
        let record = r.number("partition").into_iter().fold(record, |record, at| record.partition(at as i32));
        let record = r.maybe_text("key").into_iter().fold(record, |record, key| record.key(key.to_owned()));
        match producer {
            Plain(producer) => self.wait(producer.enqueue(record)),
            Transactional(producer) => self.wait(producer.enqueue(record)),
        }
    }

    fn acknowledged(&self, _: &Made, sent: DeliveryHandle) -> Answer<(i32, i64), KrafkaError> {
        let at = self.wait(sent)?;
        Ok((at.partition, at.offset))
    }

    fn flush(&self, producer: &Made) -> Done<KrafkaError> {
        match producer {
            Plain(producer) => self.wait(producer.flush()),
            Transactional(producer) => self.wait(producer.flush()),
        }
    }

    fn offsets(&self, producer: &Made, of: &Consumer, r: &Request) -> Done<KrafkaError> {
        let all = r.offsets().into_iter().map(|(topic, partition, offset)| TopicPartitionOffset::new(topic, partition, offset));
        let group = self.0.block_on(of.group_metadata()).ok_or_else(|| KrafkaError::config("the consumer is no member yet"))?;
        self.wait(producer.transactional()?.send_offsets(&all.collect::<Vec<_>>(), &group))
    }

    fn subscribe(&self, consumer: &Consumer, topics: Vec<&str>) -> Done<KrafkaError> { self.wait(consumer.subscribe(topics)) }
    fn commit_positions(&self, consumer: &Consumer) -> Done<KrafkaError> { self.wait(consumer.commit()) }
    fn leave(&self, consumer: &Consumer) -> Done<KrafkaError> { self.wait(consumer.close()) }

    fn poll(&self, consumer: &Consumer, within: Duration) -> Answer<Vec<Record>, KrafkaError> {
        let read = self.wait(consumer.poll(within))?;
        let told = read.iter().map(|at| Record::of(&at.topic, at.partition, at.offset, at.key.as_deref(), at.value.as_deref()));
        Ok(told.collect())
    }
}

fn main() {
    library::run(Krafka(Runtime::new().expect("threads")));
}
