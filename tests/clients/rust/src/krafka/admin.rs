//! Administration: the scenario, and what the other scenarios need of it.

use std::collections::BTreeMap;

use anyhow::{Context, Error, Result, bail, ensure};
use krafka::KrafkaError;
use krafka::admin::{
    AdminClient, AlterConsumerGroupOffsetsOptions, ConfigOp, ConfigResource, CreatePartitionsOptions,
    CreateTopicsOptions, DeleteConsumerGroupsOptions, DeleteRecordsOptions, DeleteTopicsOptions,
    DescribeClusterOptions, DescribeConfigsOptions, DescribeTopicsOptions, IncrementalAlterConfigsOptions,
    ListConsumerGroupOffsetsOptions, ListConsumerGroupsOptions, ListOffsetsOptions, ListTopicsOptions, NewTopic,
    OffsetSpec, TopicPartition,
};
use krafka::error::ErrorCode;
use playing::{Counts, Options, until};
use serde_json::json;

use crate::records::produce;
use crate::{connect, only};

const RETENTION: &str = "3600000";
const MESSAGE_BYTES: &str = "65536";

pub struct Admin<'a> {
    options: &'a Options,
    client: AdminClient,
}

impl<'a> Admin<'a> {
    pub async fn new(options: &'a Options) -> Result<Self> {
        Ok(Self { options, client: connect(options).await?.admin() })
    }

    pub async fn create_topic(&self, topic: &str, configs: &[(&str, &str)]) -> Result<()> {
        let mut new = NewTopic::new(topic, self.options.partitions, 1)?;
        for &(name, value) in configs {
            new = new.with_config(name, value);
        }
        only(self.client.create_topics([new], CreateTopicsOptions::default()).await?)
    }

    fn at(&self, partition: i32) -> TopicPartition {
        TopicPartition::new(&self.options.topic, partition)
    }

    async fn offset(&self, partition: i32, spec: OffsetSpec, committed: bool) -> Result<i64> {
        let options = ListOffsetsOptions::default().read_committed(committed);
        Ok(only(self.client.list_offsets([(self.at(partition), spec)], options).await?)?.offset)
    }

    pub async fn end_offset(&self, partition: i32) -> Result<i64> {
        self.offset(partition, OffsetSpec::Latest, false).await
    }

    /// The end offset of each partition.
    pub async fn ends(&self) -> Result<BTreeMap<i32, i64>> {
        let mut ends = BTreeMap::new();
        for partition in 0..self.options.partitions {
            ends.insert(partition, self.end_offset(partition).await?);
        }
        Ok(ends)
    }

    /// True while the last stable offset of partition 0 is behind the end of the log.
    pub async fn holds_back(&self) -> Result<bool> {
        let stable = self.offset(0, OffsetSpec::Latest, true).await?;
        Ok(stable < self.end_offset(0).await?)
    }

    /// The committed offsets of the topic; a partition without one is left out.
    pub async fn group_offsets(&self) -> Result<BTreeMap<i32, i64>> {
        let options = ListConsumerGroupOffsetsOptions::default().require_stable(true);
        let mut offsets = BTreeMap::new();
        for (at, answer) in self.client.list_consumer_group_offsets(&self.options.group, options).await? {
            if let Some(offset) = answer?.offset {
                ensure!(at.topic() == self.options.topic, "{} has an offset of {at:?}", self.options.group);
                offsets.insert(at.partition(), offset);
            }
        }
        Ok(offsets)
    }

    /// Commits from outside the group.
    pub async fn commit_outside(&self, partition: i32, offset: i64) -> Result<()> {
        let options = AlterConsumerGroupOffsetsOptions::default();
        let offsets = [(self.at(partition), offset)];
        only(self.client.alter_consumer_group_offsets(&self.options.group, offsets, options).await?)
    }

    async fn create(&self) -> Result<()> {
        self.create_topic(&self.options.topic, &[("retention.ms", RETENTION)]).await
    }

    async fn create_again(&self) -> Result<()> {
        match self.create().await {
            Ok(()) => bail!("expected TOPIC_ALREADY_EXISTS"),
            Err(error) => match error.downcast_ref() {
                Some(KrafkaError::Broker { code: ErrorCode::TopicAlreadyExists, .. }) => Ok(()),
                _ => Err(error.context("expected TOPIC_ALREADY_EXISTS")),
            },
        }
    }

    /// The number of in-sync replicas of each partition that has a leader.
    async fn partitions(&self) -> Result<Vec<usize>> {
        let answers = self.client.describe_topics([&self.options.topic], DescribeTopicsOptions::default()).await?;
        let described = only(answers)?.partitions;
        Ok(described.iter().filter(|partition| partition.leader.is_some()).map(|it| it.isr.len()).collect())
    }

    async fn describe(&self) -> Result<()> {
        let partitions = self.partitions().await?;
        ensure!(partitions == vec![1; self.options.partitions as usize], "partitions {partitions:?}");
        Ok(())
    }

    async fn config(&self, name: &str) -> Result<String> {
        let resource = ConfigResource::topic(&self.options.topic);
        let entries = only(self.client.describe_configs([resource], DescribeConfigsOptions::default()).await?)?;
        let entry = entries.into_iter().find(|entry| entry.name == name);
        entry.and_then(|entry| entry.value).with_context(|| format!("{name} has no value"))
    }

    async fn configs(&self) -> Result<()> {
        for (name, expected) in [("retention.ms", RETENTION), ("cleanup.policy", "delete")] {
            let value = self.config(name).await?;
            ensure!(value == expected, "{name} is {value}, expected {expected}");
        }
        Ok(())
    }

    async fn alter_config(&self) -> Result<()> {
        let name = "max.message.bytes";
        let change = (ConfigResource::topic(&self.options.topic), vec![ConfigOp::set(name, MESSAGE_BYTES)]);
        only(self.client.incremental_alter_configs([change], IncrementalAlterConfigsOptions::default()).await?)?;
        until(self.options, name, async || Ok(self.config(name).await? == MESSAGE_BYTES)).await
    }

    async fn create_partitions(&self) -> Result<()> {
        let total = self.options.partitions + 2;
        let more = [(&self.options.topic, total)];
        only(self.client.create_partitions(more, CreatePartitionsOptions::default()).await?)?;
        let expected = vec![1; total as usize];
        until(self.options, "new partitions", async || Ok(self.partitions().await? == expected)).await
    }

    async fn list_offsets(&self) -> Result<()> {
        produce(self.options, 0..10 * self.options.partitions as usize, true).await?;
        let offsets = (self.offset(0, OffsetSpec::Earliest, false).await?, self.end_offset(0).await?);
        ensure!(offsets == (0, 10), "first and end offset {offsets:?}, expected 0 and 10");
        Ok(())
    }

    async fn delete_records(&self) -> Result<()> {
        let first = only(self.client.delete_records([(self.at(0), 4)], DeleteRecordsOptions::default()).await?)?;
        let listed = self.offset(0, OffsetSpec::Earliest, false).await?;
        ensure!((first, listed) == (4, 4), "first offset {first}, listed {listed}, expected 4");
        Ok(())
    }

    async fn group_offsets_moved(&self) -> Result<()> {
        self.commit_outside(0, 7).await?;
        let mut listed = Vec::new();
        for answer in self.client.list_consumer_groups(ListConsumerGroupsOptions::default()).await?.into_values() {
            listed.extend(answer?.into_iter().map(|group| group.group_id));
        }
        ensure!(listed.contains(&self.options.group), "{} is not listed", self.options.group);
        let found = self.group_offsets().await?;
        ensure!(found == BTreeMap::from([(0, 7)]), "group offsets {found:?}, expected 7 in partition 0");
        Ok(())
    }

    async fn delete_group(&self) -> Result<()> {
        let group = [&self.options.group];
        only(self.client.delete_consumer_groups(group, DeleteConsumerGroupsOptions::default()).await?)?;
        let found = self.group_offsets().await?;
        ensure!(found.is_empty(), "offsets of a deleted group: {found:?}");
        Ok(())
    }

    async fn cluster(&self) -> Result<()> {
        let cluster = self.client.describe_cluster(DescribeClusterOptions::default()).await?;
        ensure!(!cluster.brokers.is_empty(), "no brokers");
        Ok(())
    }

    async fn listed(&self) -> Result<bool> {
        Ok(self.client.list_topics(ListTopicsOptions::default()).await?.contains(&self.options.topic))
    }

    async fn delete(&self) -> Result<()> {
        ensure!(self.listed().await?, "{} is not listed", self.options.topic);
        only(self.client.delete_topics([&self.options.topic], DeleteTopicsOptions::default()).await?)?;
        until(self.options, "the topic to be gone", async || Ok(!self.listed().await?)).await
    }
}

pub async fn admin(options: &Options, counts: &mut Counts) -> Result<()> {
    let admin = Admin::new(options).await?;
    let mut done = Vec::new();
    let mut step = |name: &'static str, result: Result<()>| {
        result.with_context(|| name)?;
        done.push(name);
        Ok::<(), Error>(())
    };
    step("create", admin.create().await)?;
    step("create again", admin.create_again().await)?;
    step("describe", admin.describe().await)?;
    step("configs", admin.configs().await)?;
    step("alter config", admin.alter_config().await)?;
    step("create partitions", admin.create_partitions().await)?;
    step("list offsets", admin.list_offsets().await)?;
    step("delete records", admin.delete_records().await)?;
    step("group offsets", admin.group_offsets_moved().await)?;
    step("delete group", admin.delete_group().await)?;
    step("cluster", admin.cluster().await)?;
    step("delete", admin.delete().await)?;
    counts.insert("steps".into(), json!(done));
    Ok(())
}
