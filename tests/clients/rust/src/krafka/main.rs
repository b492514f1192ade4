//! One scenario of krafka.

mod admin;
mod group;
mod records;
mod transactions;

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use anyhow::{Context, Result};
use krafka::Kafka;
use playing::{Counts, Options, Unsupported, run};

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(100);

/// Connections of their own for each client, as in programs of their own.
async fn connect(options: &Options) -> Result<Kafka> {
    Ok(Kafka::builder(&options.bootstrap).connect().await?)
}

/// The answer of a request for one thing.
fn only<K: Hash + Eq, V>(answers: HashMap<K, krafka::Result<V>>) -> Result<V> {
    Ok(answers.into_values().next().context("an answer for nothing")??)
}

async fn play(options: &Options, counts: &mut Counts) -> Result<()> {
    match options.scenario.as_str() {
        "produce-consume" => records::produce_consume(options, counts, false).await,
        "idempotent" => records::produce_consume(options, counts, true).await,
        "group" => group::group(options, counts).await,
        "admin" => admin::admin(options, counts).await,
        "transactions" => transactions::transactions(options, counts).await,
        "txn-offsets" => transactions::txn_offsets(options, counts).await,
        "zombie" => transactions::zombie(options, counts).await,
        "txn-timeout" => transactions::txn_timeout(options, counts).await,
        other => Err(Unsupported(format!("krafka has no means for {other}")).into()),
    }
}

#[tokio::main]
async fn main() {
    run("krafka", play).await;
}
