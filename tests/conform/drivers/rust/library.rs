//! What drivers of Rust libraries have in common: clients by their names, records on their way, settings, names of errors.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::driver::{Done, Failure, Record, Request, Verbs, Wrong};

pub type Answer<T, E> = Result<T, Wrong<E>>;

/// A client library; what it does not say here, it cannot do.
#[allow(unused_variables)]
pub trait Library: Send + Sync + 'static {
    type Error: Send + 'static;
    type Producer: Send + Sync + 'static;
    type Consumer: Send + Sync + 'static;
    /// A record that the producer has taken.
    type Sent: Send + 'static;

    fn about(&self) -> (String, String);
    fn failure(&self, error: Self::Error) -> Failure;
    /// Whether clients of this role have a setting of the Java client.
    fn knows(&self, role: &str, setting: &str) -> bool;

    fn producer(&self, r: &Request, settings: &Settings) -> Answer<Self::Producer, Self::Error>;
    fn consumer(&self, r: &Request, settings: &Settings) -> Answer<Self::Consumer, Self::Error> {
        unsupported("it has no consumer groups")
    }

    /// Initialises the transactional id, if making a producer has not done that.
    fn init(&self, producer: &Self::Producer) -> Done<Self::Error> { Ok(()) }
    fn begin(&self, producer: &Self::Producer) -> Done<Self::Error> { no_transactions() }
    fn send(&self, producer: &Self::Producer, r: &Request) -> Answer<Self::Sent, Self::Error>;
    /// Waits until a record is acknowledged; gives its partition and offset.
    fn acknowledged(&self, producer: &Self::Producer, sent: Self::Sent) -> Answer<(i32, i64), Self::Error>;
    fn flush(&self, producer: &Self::Producer) -> Done<Self::Error> { Ok(()) }
    fn offsets(&self, producer: &Self::Producer, of: &Self::Consumer, r: &Request) -> Done<Self::Error> { no_transactions() }
    fn commit(&self, producer: &Self::Producer) -> Done<Self::Error> { no_transactions() }
    fn abort(&self, producer: &Self::Producer) -> Done<Self::Error> { no_transactions() }
    fn close(&self, producer: &Self::Producer) {}

    fn subscribe(&self, consumer: &Self::Consumer, topics: Vec<&str>) -> Done<Self::Error> { no_transactions() }
    /// What there is to read, within this time.
    fn poll(&self, consumer: &Self::Consumer, within: Duration) -> Answer<Vec<Record>, Self::Error> { Ok(vec![]) }
    fn commit_positions(&self, consumer: &Self::Consumer) -> Done<Self::Error> { Ok(()) }
    fn leave(&self, consumer: &Self::Consumer) -> Done<Self::Error> { Ok(()) }
}

pub fn unsupported<T, E>(what: impl Into<String>) -> Answer<T, E> {
    Err(Wrong::Unsupported(what.into()))
}

fn no_transactions<E>() -> Done<E> {
    unsupported("it has no transactions")
}

/// Whether `word` is one of those in `words`, which have spaces between them.
#[allow(dead_code)]
pub fn among(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|each| each == word)
}

/// UnknownTopicOrPartition to UNKNOWN_TOPIC_OR_PARTITION; of an error with fields, what stands before them.
pub fn snake(debug: &str) -> String {
    let name = debug.split([' ', '(']).next().unwrap_or("Error");
    let split = |letter: char| if letter.is_uppercase() { vec!['_', letter] } else { vec![letter.to_ascii_uppercase()] };
    name.chars().flat_map(split).collect::<String>().trim_start_matches('_').to_owned()
}

/// Those settings of a request that the library knows.
pub struct Settings(pub Map<String, Value>);

#[allow(dead_code)]
impl Settings {
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str)
    }
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.0.get(key).and_then(Value::as_bool)
    }
    pub fn time(&self, key: &str, otherwise_ms: u64) -> Duration {
        Duration::from_millis(self.0.get(key).and_then(Value::as_u64).unwrap_or(otherwise_ms))
    }
}

struct Named<T>(Mutex<HashMap<String, Arc<T>>>);

impl<T> Named<T> {
    fn get<E>(&self, name: &str) -> Answer<Arc<T>, E> {
        let found = self.0.lock().unwrap().get(name).cloned();
        found.ok_or_else(|| Wrong::Driver(format!("no client {name}")))
    }
    fn keep(&self, name: &str, made: T) {
        self.0.lock().unwrap().insert(name.to_owned(), Arc::new(made));
    }
    fn forget(&self, name: &str) -> Option<Arc<T>> {
        self.0.lock().unwrap().remove(name)
    }
}

struct Clients<L: Library> {
    library: L,
    producers: Named<(L::Producer, Mutex<Vec<L::Sent>>)>,
    consumers: Named<L::Consumer>,
}

pub fn run<L: Library>(library: L) {
    let (producers, consumers) = (Named(Mutex::default()), Named(Mutex::default()));
    crate::driver::run(Clients { library, producers, consumers });
}

impl<L: Library> Verbs for Clients<L> {
    type Error = L::Error;

    fn library(&self) -> (String, String) {
        self.library.about()
    }

    fn failure(&self, _client: &str, error: L::Error) -> Failure {
        self.library.failure(error)
    }

    fn init(&self, r: &Request) -> Done<L::Error> {
        let (library, name) = (&self.library, r.text("client"));
        if let Some(needed) = r.texts("needs").into_iter().find(|key| !library.knows(r.text("role"), key)) {
            return unsupported(format!("the library has no {needed}"));
        }
        let settings = r.config().into_iter().filter(|(key, _)| library.knows(r.text("role"), key));
        let settings = Settings(settings.collect());
        if r.text("role") == "consumer" {
            self.consumers.keep(name, library.consumer(r, &settings)?);
            return Ok(());
        }
        if self.producers.get::<()>(name).is_err() {
            self.producers.keep(name, (library.producer(r, &settings)?, Mutex::default()));
        }
        let initialises = settings.text("transactional.id").is_some() && !r.flag("lazy");
        if initialises { library.init(&self.producers.get(name)?.0) } else { Ok(()) }
    }

    fn begin(&self, r: &Request) -> Done<L::Error> {
        let at = self.producers.get(r.text("client"))?;
        at.1.lock().unwrap().clear();
        self.library.begin(&at.0)
    }

    fn send(&self, r: &Request) -> Answer<Option<(i32, i64)>, L::Error> {
        let at = self.producers.get(r.text("client"))?;
        let sent = self.library.send(&at.0, r)?;
        if r.flag("wait") {
            return self.library.acknowledged(&at.0, sent).map(Some);
        }
        at.1.lock().unwrap().push(sent);
        Ok(None)
    }

    fn flush(&self, r: &Request) -> Done<L::Error> {
        let at = self.producers.get(r.text("client"))?;
        self.library.flush(&at.0)?;
        let sent = std::mem::take(&mut *at.1.lock().unwrap());
        sent.into_iter().try_for_each(|each| self.library.acknowledged(&at.0, each).map(drop))
    }

    fn send_offsets(&self, r: &Request) -> Done<L::Error> {
        let Some(member) = r.maybe_text("consumer") else {
            return unsupported("the metadata of a group comes from a consumer");
        };
        self.library.offsets(&self.producers.get(r.text("client"))?.0, &*self.consumers.get(member)?, r)
    }

    fn commit(&self, r: &Request) -> Done<L::Error> {
        match self.consumers.get::<()>(r.text("client")) {
            Ok(consumer) => self.library.commit_positions(&consumer),
            Err(_) => self.library.commit(&self.producers.get(r.text("client"))?.0),
        }
    }

    fn abort(&self, r: &Request) -> Done<L::Error> {
        self.library.abort(&self.producers.get(r.text("client"))?.0)
    }

    fn subscribe(&self, r: &Request) -> Done<L::Error> {
        self.library.subscribe(&*self.consumers.get(r.text("client"))?, r.texts("topics"))
    }

    fn poll(&self, r: &Request, most: usize, within: Duration) -> Answer<Vec<Record>, L::Error> {
        let (consumer, end, mut records) = (self.consumers.get(r.text("client"))?, Instant::now() + within, Vec::new());
        while records.len() < most && Instant::now() < end {
            records.extend(self.library.poll(&consumer, end - Instant::now())?);
        }
        Ok(records)
    }

    fn close(&self, r: &Request) -> Done<L::Error> {
        if let Some(at) = self.producers.forget(r.text("client")) {
            self.library.close(&at.0);
        }
        self.consumers.forget(r.text("client")).map_or(Ok(()), |consumer| self.library.leave(&consumer))
    }
}
