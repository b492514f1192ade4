//! A driver for `odradek conform`: fill in the ten verbs and `failure`; the loop at the end needs no change.
//!
//! A verb gives what the client gives; `failure` gives an error its name and class. Give `Wrong::Unsupported` for something
//! that the client cannot do. Needs the crate serde_json. As a module of your program: `driver::run(MyClient::default())`.

use std::io::{BufRead, Write, stdin, stdout};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};

pub enum Wrong<E> {
    Unsupported(String),
    Client(E),
    /// Not the client, but its driver.
    Driver(String),
}

impl<E> From<E> for Wrong<E> {
    fn from(error: E) -> Self {
        Wrong::Client(error)
    }
}

/// An error as the judge reads it. Name: as in Kafka's table of errors (PRODUCER_FENCED). Class: what the client tells its
/// user to do: retriable, abortable, fatal or unknown.
pub struct Failure {
    pub name: String,
    pub class: &'static str,
    pub message: String,
}

/// The fields of a request.
pub struct Request(pub Map<String, Value>);

#[allow(dead_code)]
impl Request {
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }
    pub fn maybe_text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }
    pub fn number(&self, name: &str) -> Option<i64> {
        self.0.get(name).and_then(Value::as_i64)
    }
    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or_default()
    }
    /// Of needs and topics.
    pub fn texts(&self, name: &str) -> Vec<&str> {
        self.list(name).filter_map(Value::as_str).collect()
    }
    /// Topic, partition and offset.
    pub fn offsets(&self) -> Vec<(&str, i32, i64)> {
        let number = |at: &Value, name: &str| at[name].as_i64().unwrap_or_default();
        let all = self.list("offsets");
        all.map(|at| (at["topic"].as_str().unwrap_or_default(), number(at, "partition") as i32, number(at, "offset"))).collect()
    }
    fn list(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.0.get(name).and_then(Value::as_array).into_iter().flatten()
    }
    pub fn config(&self) -> Map<String, Value> {
        self.0.get("config").and_then(Value::as_object).cloned().unwrap_or_default()
    }
}

pub struct Record {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    pub key: Option<String>,
    pub value: String,
}

#[allow(dead_code)]
impl Record {
    pub fn of(topic: &str, partition: i32, offset: i64, key: Option<&[u8]>, value: Option<&[u8]>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Record { topic: topic.to_owned(), partition, offset, key: key.map(text), value: value.map(text).unwrap_or_default() }
    }
}

pub type Done<E> = Result<(), Wrong<E>>;

fn todo<E, T>(verb: &str) -> Result<T, Wrong<E>> {
    Err(Wrong::Unsupported(verb.to_owned()))
}

/// What you fill in, in an `impl` for your client.
#[allow(unused_variables)]
pub trait Verbs: Send + Sync + 'static {
    type Error: Send + 'static;

    fn library(&self) -> (String, String);
    /// The name of the client, and what its verb gave.
    fn failure(&self, client: &str, error: Self::Error) -> Failure;

    /// Makes a client of the text("role") producer or consumer; text("bootstrap"), config() by the names of the Java client,
    /// texts("needs"): keys of it without which the scenario has no sense: Unsupported if you lack one. A producer with a
    /// transactional.id initialises its transactions here, unless flag("lazy"): then at a second init.
    fn init(&self, r: &Request) -> Done<Self::Error> { todo("init") }
    fn begin(&self, r: &Request) -> Done<Self::Error> { todo("begin") }
    /// text("topic"), text("value"), maybe_text("key"), number("partition"); flag("wait"): waits for the acknowledgement,
    /// and gives the partition and the offset.
    fn send(&self, r: &Request) -> Result<Option<(i32, i64)>, Wrong<Self::Error>> { todo("send") }
    /// Waits for all that was sent; gives the first error since the last flush.
    fn flush(&self, r: &Request) -> Done<Self::Error> { todo("flush") }
    /// text("group"), offsets(), and the client maybe_text("consumer"), whose group metadata goes with them.
    fn send_offsets(&self, r: &Request) -> Done<Self::Error> { todo("send_offsets") }
    /// Of the transaction; of a consumer, its positions.
    fn commit(&self, r: &Request) -> Done<Self::Error> { todo("commit") }
    /// Records that it drops fail; the next flush or commit must not give their errors again.
    fn abort(&self, r: &Request) -> Done<Self::Error> { todo("abort") }
    /// texts("topics"), text("mode"): classic or consumer (KIP-848).
    fn subscribe(&self, r: &Request) -> Done<Self::Error> { todo("subscribe") }
    /// Reads until there are `most` records or the time is over; no records are no error.
    fn poll(&self, r: &Request, most: usize, within: Duration) -> Result<Vec<Record>, Wrong<Self::Error>> { todo("poll") }
    /// Forgets the client; an open transaction is left as it is where the client can do that.
    fn close(&self, r: &Request) -> Done<Self::Error> { todo("close") }
}

// ---- The loop: a request a line, an answer a line ----------------------------------------------------------------------

const VERBS: [&str; 10] =
    ["init", "begin", "send", "flush", "send_offsets", "commit", "abort", "subscribe", "poll", "close"];
// The judge waits for 30 s, or 5 s beyond the timeout_ms of a request.
const PATIENCE_MS: i64 = 25_000;
const POLL_GRACE_MS: i64 = 4_000;

pub fn run<V: Verbs>(verbs: V) {
    let (verbs, mut answers) = (Arc::new(verbs), stdout());
    let mut say = |line: Value| writeln!(answers, "{line}").and_then(|()| answers.flush());
    let (library, version) = verbs.library();
    let hello = json!({"hello": {"library": library, "version": version, "language": "rust", "verbs": VERBS}});
    let mut going = say(hello);
    for line in stdin().lock().lines().map_while(Result::ok) {
        let Ok(Value::Object(fields)) = serde_json::from_str(&line) else { break };
        going = going.and_then(|()| say(answer(&verbs, Request(fields))));
    }
    std::process::exit(i32::from(going.is_err())); // the client's threads must not hold the process
}

fn answer<V: Verbs>(verbs: &Arc<V>, request: Request) -> Value {
    let id = request.0.get("id").cloned();
    let grace = if request.text("verb") == "poll" { POLL_GRACE_MS } else { 0 };
    let limit = Duration::from_millis((request.number("timeout_ms").unwrap_or(PATIENCE_MS) + grace) as u64);
    let (said, hears) = mpsc::channel();
    let in_thread = Arc::clone(verbs); // a call that never ends costs its request alone; it is not cancelled
    thread::spawn(move || said.send(call(&*in_thread, &request)));
    let wrong = |name: &str, why: &str| json!({"error": {"name": name, "class": "unknown", "message": why}});
    let mut answer = hears.recv_timeout(limit).unwrap_or_else(|why| match why {
        mpsc::RecvTimeoutError::Timeout => wrong("TIMED_OUT", "the client has not finished"),
        mpsc::RecvTimeoutError::Disconnected => wrong("ERROR", "the call panicked: standard error says where"),
    });
    answer["id"] = json!(id);
    answer
}

fn call<V: Verbs>(verbs: &V, request: &Request) -> Value {
    match perform(verbs, request) {
        Ok(done) => json!({"done": done}),
        Err(Wrong::Unsupported(why)) => json!({"unsupported": why}),
        Err(Wrong::Driver(why)) => json!({"error": {"name": "ERROR", "class": "unknown", "message": why}}),
        Err(Wrong::Client(error)) => {
            let Failure { name, class, message } = verbs.failure(request.text("client"), error);
            json!({"error": {"name": name, "class": class, "message": message}})
        }
    }
}

fn perform<V: Verbs>(verbs: &V, r: &Request) -> Result<Value, Wrong<V::Error>> {
    let done = |_| json!({});
    match r.text("verb") {
        "init" => verbs.init(r).map(done),
        "begin" => verbs.begin(r).map(done),
        "send" => verbs.send(r).map(|at| at.map_or(json!({}), |(p, o)| json!({"partition": p, "offset": o}))),
        "flush" => verbs.flush(r).map(done),
        "send_offsets" => verbs.send_offsets(r).map(done),
        "commit" => verbs.commit(r).map(done),
        "abort" => verbs.abort(r).map(done),
        "subscribe" => verbs.subscribe(r).map(done),
        "close" => verbs.close(r).map(done),
        "poll" => {
            let (most, within) = (r.number("max").unwrap_or(500), r.number("timeout_ms").unwrap_or(0));
            let records = verbs.poll(r, most as usize, Duration::from_millis(within as u64))?;
            let told = records.into_iter().map(|at| {
                json!({"topic": at.topic, "partition": at.partition, "offset": at.offset, "key": at.key, "value": at.value})
            });
            Ok(json!({"records": told.collect::<Vec<_>>()}))
        }
        other => todo(other),
    }
}
