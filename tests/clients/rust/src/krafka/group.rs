//! A consumer group whose members come and go.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use krafka::KrafkaError;
use krafka::consumer::{AutoOffsetReset, Consumer, IsolationLevel};
use krafka::error::ErrorCode;
use playing::{Counts, Options, partition, until};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::admin::Admin;
use crate::records::produce;
use crate::{POLL, connect};

const AGAIN: usize = 5;

/// A member of the group that commits only when told to.
pub async fn member(options: &Options, records_max: i32) -> Result<Consumer> {
    let settings = connect(options).await?.consumer(&options.group).enable_auto_commit(false);
    let settings = settings.heartbeat_interval(Duration::from_millis(300)).session_timeout(Duration::from_secs(6));
    let settings = settings.auto_offset_reset(AutoOffsetReset::Earliest);
    let consumer =
        settings.isolation_level(IsolationLevel::ReadCommitted).max_poll_records(records_max).build().await?;
    consumer.subscribe([&options.topic]).await?;
    Ok(consumer)
}

/// Commits what was polled; a commit that comes too late for a rebalance is dropped.
async fn commit(consumer: &Consumer) -> Result<()> {
    match consumer.commit().await {
        Err(KrafkaError::Broker {
            code: ErrorCode::RebalanceInProgress | ErrorCode::IllegalGeneration | ErrorCode::UnknownMemberId,
            ..
        }) => Ok(()),
        result => Ok(result?),
    }
}

#[derive(Default)]
struct State {
    assigned: BTreeSet<i32>,
    own: Vec<usize>,
}

/// A member that polls and commits in a task of its own until it is told to leave.
struct Joined {
    state: Arc<Mutex<State>>,
    leaving: Arc<AtomicBool>,
    task: JoinHandle<Result<()>>,
}

impl Joined {
    fn start(options: &Options) -> Self {
        let (state, leaving) = (Arc::default(), Arc::default());
        let task = tokio::spawn(follow(options.clone(), Arc::clone(&state), Arc::clone(&leaving)));
        Self { state, leaving, task }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no member panics with the lock")
    }

    async fn leave(self) -> Result<Vec<usize>> {
        self.leaving.store(true, Ordering::Relaxed);
        self.task.await??;
        let state = Arc::into_inner(self.state).context("the task has ended")?;
        Ok(state.into_inner()?.own)
    }
}

async fn follow(options: Options, state: Arc<Mutex<State>>, leaving: Arc<AtomicBool>) -> Result<()> {
    let consumer = member(&options, 500).await?;
    while !leaving.load(Ordering::Relaxed) {
        let records = consumer.poll(POLL).await?;
        let mut keys: Vec<usize> = Vec::new();
        for record in &records {
            keys.push(record.key_str().context("a record without key")?.parse()?);
        }
        if !records.is_empty() {
            commit(&consumer).await?;
        }
        let assigned = consumer.assignment().await.into_values().flatten().collect();
        let mut state = state.lock().expect("no member panics with the lock");
        state.assigned = assigned;
        state.own.extend(keys);
    }
    Ok(consumer.close().await?)
}

/// Waits until something holds for the members, none of which may end before.
async fn wait(options: &Options, what: &str, members: &[&Joined], holds: impl Fn() -> bool) -> Result<()> {
    let waited = until(options, what, async || {
        if members.iter().any(|member| member.task.is_finished()) {
            bail!("{what}: a member ended");
        }
        Ok(holds())
    });
    let assigned = || members.iter().map(|member| member.state().assigned.clone()).collect::<Vec<_>>();
    waited.await.with_context(|| format!("assigned {:?}", assigned()))
}

pub async fn group(options: &Options, counts: &mut Counts) -> Result<()> {
    let n = options.records;
    let admin = Admin::new(options).await?;
    admin.create_topic(&options.topic, &[]).await?;
    produce(options, 0..n, true).await?;
    let (first, second) = (Joined::start(options), Joined::start(options));
    let everything: BTreeSet<i32> = (0..options.partitions).collect();
    let split = || {
        let (a, b) = (first.state().assigned.clone(), second.state().assigned.clone());
        !a.is_empty() && !b.is_empty() && a.is_disjoint(&b) && &a | &b == everything
    };
    wait(options, "two members to split the partitions", &[&first, &second], split).await?;
    let seen = || first.state().own.iter().chain(&second.state().own).collect::<BTreeSet<_>>().len();
    wait(options, "the first records", &[&first, &second], || seen() == n).await?;
    let mut own = second.leave().await?;
    let takes_over = || first.state().assigned == everything;
    wait(options, "one member to take over all partitions", &[&first], takes_over).await?;
    produce(options, n..2 * n, true).await?;
    let seen = || first.state().own.iter().chain(&own).collect::<BTreeSet<_>>().len();
    wait(options, "the second records", &[&first], || seen() == 2 * n).await?;
    own.extend(first.leave().await?);
    counts.insert("repeated".into(), json!(own.len() - 2 * n));

    let (committed, ends) = (admin.group_offsets().await?, admin.ends().await?);
    ensure!(committed == ends, "committed {committed:?}, expected {ends:?}");
    admin.commit_outside(0, ends[&0] - AGAIN as i64).await?;
    produce(options, 2 * n..3 * n, true).await?;
    let third = Joined::start(options);
    wait(options, "a new member to resume", &[&third], || third.state().own.len() >= n + AGAIN).await?;
    sleep(Duration::from_millis(300)).await; // for those that should not come
    let mut own = third.leave().await?;
    own.sort_unstable();
    let in_first = (0..2 * n).rev().filter(|&i| partition(options, i) == 0);
    let mut expected: Vec<usize> = in_first.take(AGAIN).collect();
    expected.reverse();
    expected.extend(2 * n..3 * n);
    ensure!(own == expected, "resumed with {} records, expected exactly {}", own.len(), expected.len());
    counts.insert("records".into(), json!(3 * n + AGAIN));
    Ok(())
}
