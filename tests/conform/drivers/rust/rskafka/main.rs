//! rskafka, which knows neither groups nor idempotence nor transactions.

mod driver;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use driver::{Failure, Request, Verbs, Wrong};
use rskafka::chrono::DateTime;
use rskafka::client::error::Error;
use rskafka::client::partition::{Compression, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

const SETTINGS: &str = "client.id";

type Answer = Result<(i32, i64), Error>;

struct RsKafka {
    runtime: Runtime,
    clients: Mutex<HashMap<String, Arc<Client>>>,
    sent: Mutex<HashMap<String, Vec<JoinHandle<Answer>>>>,
}

async fn write(client: Arc<Client>, topic: String, partition: i32, record: Record) -> Answer {
    let to = client.partition_client(topic, partition, UnknownTopicHandling::Retry).await?;
    Ok((partition, to.produce(vec![record], Compression::NoCompression).await?[0]))
}

/// UnknownTopicOrPartition to UNKNOWN_TOPIC_OR_PARTITION.
fn snake(camel: &str) -> String {
    let split = |letter: char| if letter.is_uppercase() { vec!['_', letter] } else { vec![letter.to_ascii_uppercase()] };
    camel.chars().flat_map(split).collect::<String>().trim_start_matches('_').to_owned()
}

impl Verbs for RsKafka {
    type Error = Error;

    fn library(&self) -> (String, String) {
        ("rskafka".into(), env!("CRATE_VERSION").into())
    }

    /// The library does not say what an error means for its user.
    fn failure(&self, error: Error) -> Failure {
        let name = match &error {
            Error::ServerError { protocol_error, .. } => snake(&format!("{protocol_error:?}")),
            other => snake(format!("{other:?}").split([' ', '(']).next().unwrap_or("ERROR")),
        };
        Failure { name, class: "unknown", message: error.to_string() }
    }

    fn init(&self, r: &Request) -> Result<(), Wrong<Error>> {
        let config = r.config();
        if r.text("role") == "consumer" || config.contains_key("transactional.id") {
            return Err(Wrong::Unsupported("rskafka has no groups and no transactions".into()));
        }
        if config.get("enable.idempotence").is_some_and(|wanted| wanted == true) {
            return Err(Wrong::Unsupported("rskafka has no idempotent producer".into()));
        }
        if let Some(needed) = r.list("needs").iter().find(|needed| *needed != SETTINGS) {
            return Err(Wrong::Unsupported(format!("rskafka has no {needed}")));
        }
        let brokers = r.text("bootstrap").split(',').map(str::to_owned).collect();
        let made = self.runtime.block_on(ClientBuilder::new(brokers).client_id(r.client()).build())?;
        self.clients.lock().unwrap().insert(r.client(), Arc::new(made));
        Ok(())
    }

    fn send(&self, r: &Request) -> Result<Option<(i32, i64)>, Wrong<Error>> {
        let found = self.clients.lock().unwrap().get(&r.client()).cloned();
        let client = found.ok_or_else(|| Error::InvalidResponse(format!("no client {}", r.client())))?;
        let record = Record {
            key: r.maybe_text("key").map(|key| key.as_bytes().to_vec()),
            value: Some(r.text("value").as_bytes().to_vec()),
            headers: BTreeMap::new(),
            timestamp: DateTime::UNIX_EPOCH,
        };
        let partition = r.number("partition").unwrap_or(0) as i32;
        let writing = self.runtime.spawn(write(client, r.text("topic").to_owned(), partition, record));
        if r.flag("wait") {
            return Ok(Some(self.runtime.block_on(writing).expect("a task that ends")?));
        }
        self.sent.lock().unwrap().entry(r.client()).or_default().push(writing);
        Ok(None)
    }

    fn flush(&self, r: &Request) -> Result<(), Wrong<Error>> {
        let sent = self.sent.lock().unwrap().remove(&r.client()).unwrap_or_default();
        for writing in sent {
            self.runtime.block_on(writing).expect("a task that ends")?;
        }
        Ok(())
    }

    fn close(&self, r: &Request) -> Result<(), Wrong<Error>> {
        self.clients.lock().unwrap().remove(&r.client());
        Ok(())
    }
}

fn main() {
    let runtime = Runtime::new().expect("threads");
    driver::run(RsKafka { runtime, clients: Mutex::default(), sent: Mutex::default() });
}
