"""A sentence about each key: the documentation in DescribeConfigs (KIP-569)."""

from collections.abc import Mapping

from odradek.config.keys import name_of
from odradek.config.table import TOPIC_KEYS
from odradek.config.without_effect import INERT_KEYS

__all__ = ["BROKER_TEXTS", "CLIENT_METRICS_TEXTS", "GROUP_TEXTS", "TOPIC_TEXTS", "broker_text"]

WITHOUT_EFFECT = "Taken because Kafka has the key; it changes nothing here."


def _table(text: str) -> dict[str, str]:
    """One line for each key: its name, at least two spaces, its sentence."""
    lines = (line.partition("  ") for line in text.strip().splitlines())
    return {name: sentence.strip() for name, _, sentence in lines}


TOPIC_TEXTS: Mapping[str, str] = _table("""
cleanup.policy  Whether old records are deleted by age and size, or superseded values of a key are compacted away, or both.
compression.type  The compression of stored batches; "producer" leaves each as it came.
compression.gzip.level  How hard gzip tries; it has no effect here.
compression.lz4.level  How hard lz4 tries; it has no effect here.
compression.zstd.level  How hard zstd tries; it has no effect here.
delete.retention.ms  How long tombstones and transaction markers outlive their compaction, for readers that are behind.
errors.deadletterqueue.group.enable  Whether the topic may be the dead letter queue of share groups.
file.delete.delay.ms  How long deleted files stay on disk, in a data directory.
flush.messages  After how many records a log is forced to disk, where there is a data directory.
flush.ms  After what time a log is forced to disk, where there is a data directory and log.flush.scheduler.interval.ms.
follower.replication.throttled.replicas  The followers whose replication is slowed down; nothing is replicated here.
index.interval.bytes  How many bytes lie between two entries of an index; there are no index files here.
internal.segment.bytes  The size of a segment, where a test wants it below the least that segment.bytes may be.
leader.replication.throttled.replicas  The leaders whose replication is slowed down; nothing is replicated here.
local.retention.bytes  How much of a tiered log stays local; there is no tiered storage here.
local.retention.ms  How long a tiered log stays local; there is no tiered storage here.
max.compaction.lag.ms  A record is compacted after this time at the latest, however little of the log is dirty.
max.decompressed.message.bytes  The largest size that a batch may have when it is unpacked.
max.message.bytes  The largest batch that is taken, as it is on the wire.
message.timestamp.after.max.ms  How far in the future the timestamp of a record may be.
message.timestamp.before.max.ms  How far in the past the timestamp of a record may be.
message.timestamp.type  Whether a record has the time at which it was made, or at which it was appended.
min.cleanable.dirty.ratio  A log is compacted when this part of it has not been compacted before.
min.compaction.lag.ms  A record is not compacted before this time.
min.insync.replicas  How many replicas must be in sync for a produce with acks=all.
preallocate  Whether files are made at their full size; there are no files here.
remote.copy.lag.bytes  How much is kept back from tiered storage, of which there is none here.
remote.copy.lag.ms  How long records are kept back from tiered storage, of which there is none here.
remote.log.copy.disable  Whether nothing more is copied to tiered storage, of which there is none here.
remote.log.delete.on.disable  Whether what is tiered goes when tiering ends; there is no tiered storage here.
remote.storage.enable  Whether the topic is tiered; there is no tiered storage here.
retention.bytes  Oldest segments go while a partition has more than this without them; -1 keeps all.
retention.ms  Segments go when their youngest record is older than this; -1 keeps all.
segment.bytes  The size at which a segment is closed and the next begins; only closed ones are compacted.
segment.index.bytes  The size of a segment's index; no segment ends for it here.
segment.jitter.ms  By how much segments are closed early at random; it has no effect here.
segment.ms  The age at which a segment is closed, full or not.
unclean.leader.election.enable  Whether a replica out of sync may lead where no other is there; what it lacks is lost.
""")  # noqa: E501

_BROKER_ALONE = _table("""
socket.request.max.bytes  The largest request that is read; a larger one ends its connection.
socket.listen.backlog.size  How many connections may wait to be accepted.
connections.max.idle.ms  A connection that has said nothing for this time is closed; -1 leaves them all.
max.connections  How many connections of clients a broker has at once; a further one waits until there is room.
max.connections.per.ip  How many connections one address may have; a further one is hung up on.
max.connections.per.ip.overrides  The same for single addresses, as ADDRESS:NUMBER,…; names but localhost are not looked up.
max.connection.creation.rate  How many new connections a second a broker takes; a further one waits, and those behind it.
queued.max.requests  How many requests may wait for a thread; there are no threads here.
queued.max.request.bytes  How many bytes may wait for a thread; there are no threads here.
quota.window.num  Over how many windows the use of a client is measured, the one that is being filled included.
quota.window.size.seconds  How long each of these windows is; nobody is throttled for longer for what their requests or connections use.
controller.quota.window.num  How many windows of a client's rate of changes to topics may be saved up.
controller.quota.window.size.seconds  How long each of these windows is.
request.timeout.ms  How long a broker waits for the answer of another.
telemetry.max.bytes  The most bytes of metrics that a client may push at once, compressed.
unstable.api.versions.enable  Whether versions of requests are served that may still change.
unstable.feature.versions.enable  Whether levels of features are supported that may still change.
broker.rack  The rack of the broker, by which replicas are spread and consumers sent to a near one; of several brokers in one process all racks, separated by commas.
fetch.max.bytes  The most bytes that one fetch gets, but for a first batch that is larger.
max.incremental.fetch.session.cache.slots  How many incremental fetch sessions are remembered.
max.request.partition.size.limit  The most partitions on one page of DescribeTopicPartitions.
num.partitions  How many partitions a topic gets whose creator does not say.
default.replication.factor  How many replicas a topic gets whose creator does not say; with several brokers up to three.
auto.create.topics.enable  Whether a topic comes into being when a client asks for it.
delete.topic.enable  Whether topics can be deleted.
log.cleaner.enable  Whether logs are compacted; they always are here.
log.cleaner.backoff.ms  How often it is looked for logs that want to be compacted.
log.retention.check.interval.ms  How often it is looked for segments that retention does not keep.
offset.metadata.max.bytes  The longest text that a committed offset may carry.
offsets.commit.timeout.ms  How long what a group coordinator writes waits for its replicas.
offsets.retention.minutes  How long the offsets of an empty group are kept.
unclean.leader.election.interval.ms  How often leaderless partitions get a leader out of sync, where that is allowed.
offsets.retention.check.interval.ms  How often it is looked for offsets that are too old.
offsets.topic.num.partitions  The partitions of the topic of committed offsets.
offsets.topic.replication.factor  The replicas of the topic of committed offsets.
offsets.topic.segment.bytes  The size of a segment of the topic of committed offsets.
offsets.topic.compression.codec  The compression of what group coordinators write: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
group.coordinator.rebalance.protocols  The group protocols that are served: classic and consumer here.
group.initial.rebalance.delay.ms  How long a new group waits for more members before its first generation.
group.min.session.timeout.ms  The shortest session that a member may ask for.
group.max.session.timeout.ms  The longest session that a member may ask for.
group.max.size  The most members of a group.
group.consumer.assignors  The assignors of consumer groups; the first is that of members which prefer none.
group.consumer.migration.policy  Which protocol a group with members may change to.
group.consumer.max.size  The most members of a consumer group.
group.consumer.heartbeat.interval.ms  How often a member of a consumer group reports.
group.consumer.min.heartbeat.interval.ms  The least that a group may set its heartbeat interval to.
group.consumer.max.heartbeat.interval.ms  The most that a group may set its heartbeat interval to.
group.consumer.session.timeout.ms  How long a silent member of a consumer group stays.
group.consumer.min.session.timeout.ms  The least that a group may set its session timeout to.
group.consumer.max.session.timeout.ms  The most that a group may set its session timeout to.
group.consumer.assignment.interval.ms  The time between two assignments of a consumer group.
group.consumer.min.assignment.interval.ms  The least that a group may set its assignment interval to.
group.consumer.max.assignment.interval.ms  The most that a group may set its assignment interval to.
group.consumer.regex.refresh.interval.ms  How often the patterns of a consumer group are resolved again at least.
group.streams.assignors  The assignors of streams groups; the first is that of groups which name none.
group.streams.max.size  The most members of a streams group.
group.streams.heartbeat.interval.ms  How often a member of a streams group reports.
group.streams.min.heartbeat.interval.ms  The least that a group may set its heartbeat interval to.
group.streams.max.heartbeat.interval.ms  The most that a group may set its heartbeat interval to.
group.streams.session.timeout.ms  How long a silent member of a streams group stays.
group.streams.min.session.timeout.ms  The least that a group may set its session timeout to.
group.streams.max.session.timeout.ms  The most that a group may set its session timeout to.
group.streams.assignment.interval.ms  The time between two assignments of a streams group.
group.streams.min.assignment.interval.ms  The least that a group may set its assignment interval to.
group.streams.max.assignment.interval.ms  The most that a group may set its assignment interval to.
group.streams.initial.rebalance.delay.ms  How long the first assignment of a streams group waits for members.
group.streams.num.standby.replicas  How many copies of the state of a task are kept.
group.streams.max.standby.replicas  The most copies that a group may ask for.
group.streams.rack.aware.assignment.tags  Tags that every client of a streams group has to have; the assignor does not look at them.
group.streams.task.offset.interval.ms  How often a member tells how far its tasks are.
group.streams.min.task.offset.interval.ms  The least that a group may set that interval to.
group.streams.acceptable.recovery.lag  How far behind a copy may be that counts as caught up, as members are told.
group.share.max.size  The most members of a share group.
group.share.heartbeat.interval.ms  How often a member of a share group reports.
group.share.min.heartbeat.interval.ms  The least that a share group may set its heartbeat interval to.
group.share.max.heartbeat.interval.ms  The most that a share group may set its heartbeat interval to.
group.share.session.timeout.ms  How long a silent member of a share group stays.
group.share.min.session.timeout.ms  The least that a share group may set its session timeout to.
group.share.max.session.timeout.ms  The most that a share group may set its session timeout to.
group.share.assignment.interval.ms  The time between two assignments of a share group.
group.share.min.assignment.interval.ms  The least that a share group may set its assignment interval to.
group.share.max.assignment.interval.ms  The most that a share group may set its assignment interval to.
group.share.record.lock.duration.ms  How long a member of a share group may keep a record before others get it.
group.share.min.record.lock.duration.ms  The least that a share group may set the duration of its locks to.
group.share.max.record.lock.duration.ms  The most that a share group may set the duration of its locks to.
group.share.delivery.count.limit  How often a record is delivered before a share group gives it up.
group.share.min.delivery.count.limit  The least that a share group may set its limit of deliveries to.
group.share.max.delivery.count.limit  The most that a share group may set its limit of deliveries to.
group.share.partition.max.record.locks  How many records of a partition are on their way to a share group at most.
group.share.min.partition.max.record.locks  The least that a share group may set its limit of locks to.
group.share.max.partition.max.record.locks  The most that a share group may set its limit of locks to.
errors.deadletterqueue.auto.create.topics.enable  Whether the topic of a dead letter queue is created if it is missing.
errors.deadletterqueue.topic.name.prefix  The beginning of the names that dead letter queues must have.
group.share.max.share.sessions  The most sessions of ShareFetch that a broker keeps.
share.coordinator.state.topic.num.partitions  The partitions of the topic of share groups' states.
share.coordinator.state.topic.replication.factor  The replicas of the topic of share groups' states.
share.coordinator.state.topic.min.isr  How many replicas of the topic of share groups' states must be in sync.
share.coordinator.state.topic.compression.codec  The compression of what share coordinators write: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
share.coordinator.state.topic.segment.bytes  The size of a segment of the topic of share groups' states.
share.coordinator.snapshot.update.records.per.snapshot  After how many updates the state of a share partition is written as a whole.
share.coordinator.write.timeout.ms  How long a record of the share coordinator may take to be committed.
producer.id.expiration.ms  A partition forgets a producer that has written nothing for this time.
producer.id.expiration.check.interval.ms  How often it is looked for producers to forget.
transactional.id.expiration.ms  A transactional id is forgotten when it was not used for this time.
transaction.max.timeout.ms  The longest timeout that a transaction may ask for.
transaction.abort.timed.out.transaction.cleanup.interval.ms  How often it is looked for transactions to abort, their time being over.
transaction.remove.expired.transaction.cleanup.interval.ms  How often it is looked for transactional ids to forget.
transaction.partition.verification.enable  Whether a leader asks the coordinator before it takes the first record of a transaction (KIP-890).
transaction.two.phase.commit.enable  Whether transactions may leave their end to another system (KIP-939).
transaction.state.log.num.partitions  The partitions of the topic of transactions.
transaction.state.log.replication.factor  The replicas of the topic of transactions.
transaction.state.log.min.isr  How many replicas of the topic of transactions must be in sync.
transaction.state.log.segment.bytes  The size of a segment of the topic of transactions.
add.partitions.to.txn.retry.backoff.ms  How long a leader waits before it asks a coordinator again that is still ending the transaction before.
add.partitions.to.txn.retry.backoff.max.ms  How long such asking goes on before the client is told.
broker.session.timeout.ms  How long a silent broker is taken to be alive; here one that is stopped is fenced at once, one that is paused after this.
broker.heartbeat.interval.ms  How often a broker reports to the controller; there is no need here.
metadata.max.idle.interval.ms  How often a record that says nothing goes to the metadata log; none does here.
metadata.log.segment.bytes  The size of a segment of the metadata log.
metadata.log.segment.ms  The age at which a segment of the metadata log is closed, even if it is small.
metadata.max.retention.bytes  The size of the metadata log and its snapshots above which the oldest go; the newest snapshot stays.
metadata.max.retention.ms  The age at which a metadata snapshot goes, and the log before the next one.
metadata.log.max.record.bytes.between.snapshots  How many bytes of metadata cause a snapshot, in a data directory.
metadata.log.max.snapshot.interval.ms  How long metadata waits for a snapshot, in a data directory; 0: for ever.
advertised.listeners  Where clients are told to connect.
broker.id  The id of the broker, as node.id.
listeners  Where the broker listens.
node.id  The id of the broker.
process.roles  Whether the process is a broker, or the controller as well.
odradek.as.kafka  The release of Kafka that the broker is served as.
odradek.log.memory.bytes.max  The memory for all logs of the process; the oldest segments go first.
odradek.internal.topics.at.start  Whether the coordinators' topics, and producer ids to give out, are there from the start.
odradek.auto.created.topics.at.once  Whether a Metadata request that creates a topic is answered with it at once; otherwise the next request is, as in Kafka.
replica.selector.class  Which replica a consumer is sent to: the leader, unless this is Kafka's RackAwareReplicaSelector, which knows racks.
replica.lag.time.max.ms  A replica that lacks something for longer than this is out of sync.
odradek.replica.lag.ms  How long the replicas of a broker take to acknowledge what their leaders append; -1 is for ever.
odradek.telemetry  Whether the metrics that clients push are taken, and clients are told so.
odradek.fetch.yields  Whether a Fetch that waits is answered at once when its connection has another request that does not wait, and within 10 ms while its client is about to read other partitions.
odradek.strict.replication  Whether more replicas than brokers are refused, as Kafka does, and not lowered.
odradek.metadata.version  The level of metadata.version of a new cluster.
odradek.transaction.version  The level of transaction.version of a new cluster.
odradek.group.version  The level of group.version of a new cluster.
odradek.eligible.leader.replicas.version  The level of eligible.leader.replicas.version of a new cluster.
odradek.kraft.version  The level of kraft.version of a new cluster.
odradek.streams.version  The level of streams.version of a new cluster.
odradek.share.version  The level of share.version of a new cluster.
odradek.metadata.batch.records.max  How many records an operation on the metadata writes before it becomes a metadata transaction.
""")  # noqa: E501

GROUP_TEXTS: Mapping[str, str] = _table("""
consumer.heartbeat.interval.ms  How often a member of the group reports, where the group has its own time for it.
consumer.session.timeout.ms  How long a silent member stays in the group, where the group has its own time for it.
consumer.assignment.interval.ms  The time between two assignments, where the group has its own.
errors.deadletterqueue.copy.record.enable  Whether dead letters have the key and value of the record.
errors.deadletterqueue.topic.name  The dead letter queue of the share group; none if it is empty.
share.assignment.interval.ms  The time between two assignments, where the share group has its own.
share.auto.offset.reset  Where a share group begins to read a partition.
share.delivery.count.limit  How often a record is delivered at most.
share.heartbeat.interval.ms  How often a member of the share group reports, where it has its own time for it.
share.isolation.level  Whether a share group sees records of transactions that were aborted.
share.partition.max.record.locks  How many records of a partition may be locked at once.
share.record.lock.duration.ms  How long a record is locked for who acquired it.
share.renew.acknowledge.enable  Whether the lock of a record may be renewed.
share.session.timeout.ms  How long a silent member stays in the share group, where it has its own time for it.
streams.assignment.interval.ms  The time between two assignments, where the streams group has its own.
streams.assignor.name  The assignor of the streams group.
streams.heartbeat.interval.ms  How often a member of the streams group reports, where it has its own time for it.
streams.initial.rebalance.delay.ms  How long the first assignment waits for members, where the group has its own.
streams.num.standby.replicas  How many copies of the state of a task are kept, where the group has its own number.
streams.rack.aware.assignment.tags  Tags that every client of the group has to have; the assignor does not look at them.
streams.session.timeout.ms  How long a silent member stays in the streams group, where it has its own time for it.
""")


CLIENT_METRICS_TEXTS: Mapping[str, str] = _table("""
interval.ms  How often a client pushes the metrics.
match  Patterns for what is known of clients, such as client_id=a.*; the subscription is for those that match all.
metrics  The beginnings of the names of the metrics that are wanted; * for all.
""")


def _of_topics() -> dict[str, str]:
    """Broker keys that give a topic's default have the sentence of the topic's key."""
    texts: dict[str, str] = {}
    for name, key in TOPIC_KEYS.items():
        for attribute in key.rule.synonyms:
            texts.setdefault(name_of(attribute), f"For topics without their own {name}: {TOPIC_TEXTS[name]}")
    return texts


BROKER_TEXTS: Mapping[str, str] = _of_topics() | _BROKER_ALONE


def broker_text(name: str) -> str | None:
    """The sentence of a broker key; None for an unknown key."""
    return BROKER_TEXTS.get(name) or (WITHOUT_EFFECT if name in INERT_KEYS else None)
