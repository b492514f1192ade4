//! One scenario of krafka.

mod admin;
mod group;
mod records;
mod transactions;

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use krafka::Kafka;
use krafka::auth::{AuthConfig, TlsConfig};
use playing::{Counts, Login, Options, Unsupported, run};

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(100);

fn security(login: &Login) -> Result<AuthConfig> {
    let Login { username, password, .. } = login;
    let sasl = match login.mechanism.as_str() {
        "PLAIN" => AuthConfig::sasl_plain(username, password),
        "SCRAM-SHA-256" => AuthConfig::sasl_scram_sha256(username, password),
        "SCRAM-SHA-512" => AuthConfig::sasl_scram_sha512(username, password),
        other => bail!("{other} is not a mechanism"),
    };
    Ok(sasl.with_tls(TlsConfig::new().with_ca_cert(&login.ca)))
}

/// Connections of their own for each client, as in programs of their own.
async fn connect(options: &Options) -> Result<Kafka> {
    let mut builder = Kafka::builder(&options.bootstrap);
    if let Some(login) = &options.login {
        builder = builder.security(security(login)?);
    }
    Ok(builder.connect().await?)
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
