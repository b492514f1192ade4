//! rskafka, which knows neither groups nor idempotence nor transactions.

mod driver;
mod library;

use std::collections::BTreeMap;
use std::sync::Arc;

use driver::{Failure, Request};
use library::{Answer, Library, Settings, snake, unsupported};
use rskafka::chrono::DateTime;
use rskafka::client::error::Error;
use rskafka::client::partition::{Compression, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

type Told = Result<(i32, i64), Error>;

struct RsKafka(Runtime);

async fn write(client: Arc<Client>, topic: String, partition: i32, record: Record) -> Told {
    let to = client.partition_client(topic, partition, UnknownTopicHandling::Retry).await?;
    Ok((partition, to.produce(vec![record], Compression::NoCompression).await?[0]))
}

impl Library for RsKafka {
    type Error = Error;
    type Producer = Arc<Client>;
    type Consumer = ();
    type Sent = JoinHandle<Told>;

    fn about(&self) -> (String, String) {
        ("rskafka".into(), env!("CRATE_VERSION").into())
    }

    /// The library does not say what an error means for its user.
    fn failure(&self, error: Error) -> Failure {
        let name = match &error {
            Error::ServerError { protocol_error, .. } => snake(&format!("{protocol_error:?}")),
            other => snake(&format!("{other:?}")),
        };
        Failure { name, class: "unknown", message: error.to_string() }
    }

    fn knows(&self, _: &str, setting: &str) -> bool {
        setting == "client.id"
    }

    fn producer(&self, r: &Request, _: &Settings) -> Answer<Arc<Client>, Error> {
        let config = r.config();
        if config.contains_key("transactional.id") {
            return unsupported("rskafka has no transactions");
        }
        if config.get("enable.idempotence").is_some_and(|wanted| wanted == true) {
            return unsupported("rskafka has no idempotent producer");
        }
        let brokers = r.text("bootstrap").split(',').map(str::to_owned).collect();
        Ok(Arc::new(self.0.block_on(ClientBuilder::new(brokers).client_id(r.text("client")).build())?))
    }

    fn send(&self, client: &Arc<Client>, r: &Request) -> Answer<JoinHandle<Told>, Error> {
        let record = Record {
            key: r.maybe_text("key").map(|key| key.as_bytes().to_vec()),
            value: Some(r.text("value").as_bytes().to_vec()),
            headers: BTreeMap::new(),
            timestamp: DateTime::UNIX_EPOCH,
        };
        let partition = r.number("partition").unwrap_or(0) as i32;
        Ok(self.0.spawn(write(Arc::clone(client), r.text("topic").to_owned(), partition, record)))
    }

    fn acknowledged(&self, _: &Arc<Client>, writing: JoinHandle<Told>) -> Answer<(i32, i64), Error> {
        Ok(self.0.block_on(writing).expect("a task that ends")?)
    }
}

fn main() {
    library::run(RsKafka(Runtime::new().expect("threads")));
}
