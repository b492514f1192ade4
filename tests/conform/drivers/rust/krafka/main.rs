//! krafka.

mod driver;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use driver::{Failure, Record, Request, Verbs, Wrong};
use krafka::consumer::{AutoOffsetReset, Consumer, GroupProtocol, IsolationLevel};
use krafka::producer::{Acks, DeliveryHandle, Producer, TopicPartitionOffset, TransactionalProducer};
use krafka::{Kafka, KrafkaError};
use serde_json::Value;
use tokio::runtime::Runtime;

/// Settings of the Java client that krafka has.
const SETTINGS: &str = "client.id transactional.id transaction.timeout.ms enable.idempotence acks linger.ms batch.size \
    delivery.timeout.ms retry.backoff.ms request.timeout.ms metadata.max.age.ms max.block.ms group.id group.instance.id \
    group.protocol isolation.level auto.offset.reset enable.auto.commit session.timeout.ms heartbeat.interval.ms";

enum Made {
    Plain(Producer),
    Transactional(TransactionalProducer),
    Member(Consumer),
}

struct Krafka {
    runtime: Runtime,
    clients: Mutex<HashMap<String, Arc<Made>>>,
    sent: Mutex<HashMap<String, Vec<DeliveryHandle>>>,
}

/// UnknownTopicOrPartition to UNKNOWN_TOPIC_OR_PARTITION.
fn snake(camel: &str) -> String {
    let split = |letter: char| if letter.is_uppercase() { vec!['_', letter] } else { vec![letter.to_ascii_uppercase()] };
    camel.chars().flat_map(split).collect::<String>().trim_start_matches('_').to_owned()
}

impl Krafka {
    fn named(&self, r: &Request, field: &str) -> Result<Arc<Made>, KrafkaError> {
        let found = self.clients.lock().unwrap().get(r.text(field)).cloned();
        found.ok_or_else(|| KrafkaError::config(format!("no client {}", r.text(field))))
    }

    fn transactional<T>(
        &self, r: &Request, what: impl AsyncFnOnce(&TransactionalProducer) -> Result<T, KrafkaError>,
    ) -> Result<T, Wrong<KrafkaError>> {
        match &*self.named(r, "client")? {
            Made::Transactional(producer) => Ok(self.runtime.block_on(what(producer))?),
            _ => Err(KrafkaError::config("not a transactional producer").into()),
        }
    }

    fn member<T>(
        &self, r: &Request, what: impl AsyncFnOnce(&Consumer) -> Result<T, KrafkaError>,
    ) -> Result<T, Wrong<KrafkaError>> {
        match &*self.named(r, "client")? {
            Made::Member(consumer) => Ok(self.runtime.block_on(what(consumer))?),
            _ => Err(KrafkaError::config("not a consumer").into()),
        }
    }

    async fn make(&self, r: &Request) -> Result<Made, KrafkaError> {
        let config = r.config();
        let text = |key: &str| config.get(key).and_then(Value::as_str);
        let flag = |key: &str| config.get(key).and_then(Value::as_bool);
        let time = |key: &str, otherwise: u64| Duration::from_millis(config.get(key).and_then(Value::as_u64).unwrap_or(otherwise));
        let kafka = Kafka::builder(r.text("bootstrap")).client_id(text("client.id").unwrap_or(r.text("client")));
        let kafka = kafka.request_timeout(time("request.timeout.ms", 30_000)).metadata_max_age(time("metadata.max.age.ms", 300_000));
        let kafka = kafka.connect().await?;
        if r.text("role") == "consumer" {
            let reset = if text("auto.offset.reset") == Some("latest") { AutoOffsetReset::Latest } else { AutoOffsetReset::Earliest };
            let committed = text("isolation.level") == Some("read_committed");
            let isolation = if committed { IsolationLevel::ReadCommitted } else { IsolationLevel::ReadUncommitted };
            let mut made = kafka.consumer(text("group.id").unwrap_or_default()).auto_offset_reset(reset).isolation_level(isolation);
            made = made.enable_auto_commit(flag("enable.auto.commit").unwrap_or(false)).max_poll_records(1);
            if text("group.protocol") == Some("consumer") {
                made = made.group_protocol(GroupProtocol::Consumer);
            } else {
                made = made.session_timeout(time("session.timeout.ms", 10_000)).heartbeat_interval(time("heartbeat.interval.ms", 3_000));
            }
            if let Some(instance) = text("group.instance.id") {
                made = made.group_instance_id(instance);
            }
            return Ok(Made::Member(made.build().await?));
        }
        let mut made = kafka.producer().retry_backoff(time("retry.backoff.ms", 100)).linger(time("linger.ms", 0));
        made = made.delivery_timeout(time("delivery.timeout.ms", 120_000)).max_block(time("max.block.ms", 60_000));
        made = match text("acks") {
            Some("0") => made.acks(Acks::None),
            Some("1") => made.acks(Acks::Leader),
            Some(_) => made.acks(Acks::All),
            None => made,
        };
        made = flag("enable.idempotence").into_iter().fold(made, |made, enable| made.idempotent(enable));
        match text("transactional.id") {
            None => Ok(Made::Plain(made.build().await?)),
            Some(id) => {
                let made = made.transaction_timeout(time("transaction.timeout.ms", 60_000));
                Ok(Made::Transactional(made.build_transactional(id).await?))
            }
        }
    }
}

impl Verbs for Krafka {
    type Error = KrafkaError;

    fn library(&self) -> (String, String) {
        ("krafka".into(), env!("CRATE_VERSION").into())
    }

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
            other => snake(format!("{other:?}").split([' ', '(']).next().unwrap_or("ERROR")),
        };
        Failure { name, class, message: error.to_string() }
    }

    fn init(&self, r: &Request) -> Result<(), Wrong<KrafkaError>> {
        for needed in r.list("needs") {
            if !SETTINGS.split_whitespace().any(|known| needed == known) {
                return Err(Wrong::Unsupported(format!("krafka has no {needed}")));
            }
        }
        if r.flag("lazy") && r.config().contains_key("transactional.id") {
            return Err(Wrong::Unsupported("a producer initialises its transactions when it is made".into()));
        }
        let made = self.runtime.block_on(self.make(r))?;
        self.clients.lock().unwrap().insert(r.client(), Arc::new(made));
        Ok(())
    }

    fn begin(&self, r: &Request) -> Result<(), Wrong<KrafkaError>> {
        self.sent.lock().unwrap().remove(&r.client());
        self.transactional(r, async |producer| producer.begin())
    }

    fn send(&self, r: &Request) -> Result<Option<(i32, i64)>, Wrong<KrafkaError>> {
        let mut record = krafka::Record::new(r.text("topic"), r.text("value").to_owned());
        record = r.number("partition").into_iter().fold(record, |record, at| record.partition(at as i32));
        record = r.maybe_text("key").into_iter().fold(record, |record, key| record.key(key.to_owned()));
        let handle = match &*self.named(r, "client")? {
            Made::Plain(producer) => self.runtime.block_on(producer.enqueue(record))?,
            Made::Transactional(producer) => self.runtime.block_on(producer.enqueue(record))?,
            Made::Member(_) => return Err(KrafkaError::config("not a producer").into()),
        };
        if r.flag("wait") {
            let at = self.runtime.block_on(handle)?;
            return Ok(Some((at.partition, at.offset)));
        }
        self.sent.lock().unwrap().entry(r.client()).or_default().push(handle);
        Ok(None)
    }

    fn flush(&self, r: &Request) -> Result<(), Wrong<KrafkaError>> {
        match &*self.named(r, "client")? {
            Made::Plain(producer) => self.runtime.block_on(producer.flush())?,
            Made::Transactional(producer) => self.runtime.block_on(producer.flush())?,
            Made::Member(_) => {}
        }
        let sent = self.sent.lock().unwrap().remove(&r.client()).unwrap_or_default();
        for handle in sent {
            let _ = self.runtime.block_on(handle)?;
        }
        Ok(())
    }

    fn send_offsets(&self, r: &Request) -> Result<(), Wrong<KrafkaError>> {
        let Some(_) = r.maybe_text("consumer") else {
            return Err(Wrong::Unsupported("the metadata of a group comes from a consumer".into()));
        };
        let Made::Member(ref consumer) = *self.named(r, "consumer")? else {
            return Err(KrafkaError::config("not a consumer").into());
        };
        let place = |at: &Value| {
            let number = |name: &str| at[name].as_i64().unwrap_or_default();
            TopicPartitionOffset::new(at["topic"].as_str().unwrap_or_default(), number("partition") as i32, number("offset"))
        };
        let offsets: Vec<_> = r.list("offsets").iter().map(place).collect();
        let group = self.runtime.block_on(consumer.group_metadata());
        let group = group.ok_or_else(|| KrafkaError::config("the consumer is no member yet"))?;
        self.transactional(r, async |producer| producer.send_offsets(&offsets, &group).await)
    }

    fn commit(&self, r: &Request) -> Result<(), Wrong<KrafkaError>> {
        match &*self.named(r, "client")? {
            Made::Member(consumer) => Ok(self.runtime.block_on(consumer.commit())?),
            _ => self.transactional(r, async |producer| producer.commit().await),
        }
    }

    fn abort(&self, r: &Request) -> Result<(), Wrong<KrafkaError>> {
        self.transactional(r, async |producer| producer.abort().await)
    }

    fn subscribe(&self, r: &Request) -> Result<(), Wrong<KrafkaError>> {
        let topics = r.list("topics");
        let topics: Vec<&str> = topics.iter().filter_map(Value::as_str).collect();
        self.member(r, async |consumer| consumer.subscribe(topics).await)
    }

    fn poll(&self, r: &Request, most: usize, within: Duration) -> Result<Vec<Record>, Wrong<KrafkaError>> {
        let (end, text) = (Instant::now() + within, |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned());
        let mut records = Vec::new();
        while records.len() < most && Instant::now() < end {
            for from in self.member(r, async |consumer| consumer.poll(end - Instant::now()).await)? {
                let (topic, partition, offset) = (from.topic.to_string(), from.partition, from.offset);
                let (key, value) = (from.key.as_deref().map(text), from.value.as_deref().map(text).unwrap_or_default());
                records.push(Record { topic, partition, offset, key, value });
            }
        }
        Ok(records)
    }

    fn close(&self, r: &Request) -> Result<(), Wrong<KrafkaError>> {
        let closing = self.named(r, "client")?;
        self.clients.lock().unwrap().remove(&r.client());
        if let Made::Member(consumer) = &*closing {
            self.runtime.block_on(consumer.close())?;
        }
        Ok(()) // a producer is dropped: closing it would end its transaction
    }
}

fn main() {
    let runtime = Runtime::new().expect("threads");
    driver::run(Krafka { runtime, clients: Mutex::default(), sent: Mutex::default() });
}
