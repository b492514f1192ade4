//! What the programs share: the command line, whom they log in as, the line of JSON at the end, and the records that the scenarios write.

use std::collections::BTreeMap;
use std::env::{self, VarError};
use std::fmt;
use std::ops::Range;
use std::process::exit;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

const SCENARIOS: [&str; 8] =
    ["produce-consume", "idempotent", "group", "admin", "transactions", "txn-offsets", "zombie", "txn-timeout"];
const FAILED: i32 = 1;
const WRONG_ARGUMENTS: i32 = 2;
const UNSUPPORTED: i32 = 3;

/// What a scenario counted, for the line of JSON.
pub type Counts = Map<String, Value>;

/// How to log in to a broker over SASL_SSL, as the environment says it.
#[derive(Clone)]
pub struct Login {
    /// A PEM file with the certificate that vouches for the broker's.
    pub ca: String,
    pub mechanism: String,
    pub username: String,
    pub password: String,
}

impl Login {
    /// None where the environment names no CA: the broker speaks plaintext.
    fn from_environment() -> Result<Option<Self>> {
        let said = |name| env::var(name).with_context(|| format!("{name} is missing"));
        match env::var("CLIENT_SSL_CA") {
            Err(VarError::NotPresent) => Ok(None),
            ca => Ok(Some(Self {
                ca: ca?,
                mechanism: said("CLIENT_SASL_MECHANISM")?,
                username: said("CLIENT_SASL_USERNAME")?,
                password: said("CLIENT_SASL_PASSWORD")?,
            })),
        }
    }
}

/// The one argument style of all client programs: `--name value`.
#[derive(Clone)]
pub struct Options {
    pub bootstrap: String,
    pub scenario: String,
    pub topic: String,
    pub group: String,
    pub transactional_id: String,
    pub compression: String,
    pub records: usize,
    pub partitions: i32,
    pub transactions: usize,
    pub timeout: Duration,
    pub login: Option<Login>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            bootstrap: String::new(),
            scenario: String::new(),
            topic: "checked".into(),
            group: String::new(),
            transactional_id: String::new(),
            compression: "none".into(),
            records: 1000,
            partitions: 3,
            transactions: 20,
            timeout: Duration::from_secs(60),
            login: Login::from_environment()?,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().with_context(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--bootstrap" => options.bootstrap = value,
                "--scenario" => options.scenario = value,
                "--topic" => options.topic = value,
                "--group" => options.group = value,
                "--transactional-id" => options.transactional_id = value,
                "--compression" => options.compression = value,
                "--records" => options.records = value.parse()?,
                "--partitions" => options.partitions = value.parse()?,
                "--transactions" => options.transactions = value.parse()?,
                "--timeout" => options.timeout = Duration::from_secs(value.parse()?),
                _ => bail!("{name} is not an option"),
            }
        }
        ensure!(!options.bootstrap.is_empty(), "--bootstrap HOST:PORT is missing");
        ensure!(SCENARIOS.contains(&options.scenario.as_str()), "--scenario is one of {}", SCENARIOS.join(", "));
        if options.group.is_empty() {
            options.group = format!("{}-group", options.topic);
        }
        if options.transactional_id.is_empty() {
            options.transactional_id = format!("{}-id", options.topic);
        }
        Ok(options)
    }
}

/// The client has no means for what was asked.
#[derive(Debug)]
pub struct Unsupported(pub String);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unsupported {}

/// The version of a package as Cargo.lock has it.
fn version(package: &str) -> &'static str {
    include_str!("../Cargo.lock")
        .split_once(&format!("\nname = \"{package}\"\nversion = \""))
        .and_then(|(_, rest)| rest.split('"').next())
        .unwrap_or("unknown")
}

/// Plays the scenario that the command line names with `package`, prints the result and ends the process.
pub async fn run(package: &str, play: impl AsyncFnOnce(&Options, &mut Counts) -> Result<()>) -> ! {
    let options = Options::parse(env::args().skip(1)).unwrap_or_else(|wrong| {
        eprintln!("{wrong:#}");
        exit(WRONG_ARGUMENTS)
    });
    let mut counts = Counts::new();
    let start = Instant::now();
    let played = play(&options, &mut counts).await;
    let unsupported = played.as_ref().is_err_and(|error| error.is::<Unsupported>());
    let result = json!({
        "ok": played.is_ok(),
        "client": format!("{package} {}", version(package)),
        "scenario": options.scenario,
        "seconds": start.elapsed().as_millis() as f64 / 1000.0,
        "counts": counts,
        "error": played.as_ref().err().map(|error| format!("{error:#}")),
        "unsupported": unsupported,
    });
    println!("{result}");
    // Without waiting for the tasks of clients that a failed scenario left open.
    exit(match played {
        Ok(()) => 0,
        Err(_) if unsupported => UNSUPPORTED,
        Err(_) => FAILED,
    })
}

/// Waits for a condition, as long as the options allow.
pub async fn until(options: &Options, what: &str, mut holds: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + options.timeout;
    while !holds().await? {
        ensure!(Instant::now() < end, "timed out waiting for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

pub fn key(i: usize) -> String {
    i.to_string()
}

pub fn value(i: usize) -> String {
    format!("record-{i:06}-{:x<86}", "")
}

/// The partition of record i.
pub fn partition(options: &Options, i: usize) -> i32 {
    (i % options.partitions as usize) as i32
}

/// The offsets given to the records must follow one another in each partition.
pub fn check_offsets(options: &Options, numbers: Range<usize>, offsets: &[i64]) -> Result<()> {
    ensure!(offsets.len() == numbers.len(), "produced {} of {} records", offsets.len(), numbers.len());
    let mut following = BTreeMap::new();
    for (i, &offset) in numbers.zip(offsets) {
        let partition = partition(options, i);
        let expected = following.insert(partition, offset + 1).unwrap_or(offset);
        ensure!(offset == expected, "offset {offset} given in partition {partition}, expected {expected}");
    }
    Ok(())
}

/// A record as a consumer finds it.
#[derive(Debug, PartialEq)]
pub struct Found {
    pub partition: i32,
    pub offset: i64,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// The partitions must hold records 0, 1, 2, ... unchanged and in order, from offset 0 on.
pub fn check_found(options: &Options, found: &BTreeMap<i32, Vec<Found>>) -> Result<()> {
    for (&partition, records) in found {
        for (n, record) in records.iter().enumerate() {
            let i = n * options.partitions as usize + partition as usize;
            let expected = Found { partition, offset: n as i64, key: key(i).into(), value: value(i).into() };
            ensure!(*record == expected, "found {record:?}, expected {expected:?}");
        }
    }
    Ok(())
}
