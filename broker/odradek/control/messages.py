"""The bodies and answers of the hub: what is sent as JSON, and what the OpenAPI document is made of."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

__all__ = [
    "AccessView",
    "AdvertiseBody",
    "AlterConfigs",
    "BrokerView",
    "ClusterMade",
    "ClusterView",
    "EpochBody",
    "EventBody",
    "EventsPage",
    "GroupMemberView",
    "GroupView",
    "LevelBody",
    "MoveCoordinator",
    "MoveLeader",
    "Moved",
    "NewCluster",
    "NewTopic",
    "OffsetView",
    "Overview",
    "Problem",
    "PushView",
    "Released",
    "ReleaseBody",
    "TimeBody",
    "TimeView",
    "TopicPartitionView",
    "TransactionView",
]

LEASE_S = 60.0
Port = Annotated[int, Meta(ge=0, le=65535)]
BrokerId = Annotated[int, Meta(ge=0)]
Unclean = Annotated[bool, Meta(description="To a broker that is out of sync, too; what it lacks is lost.")]


class Body(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What a client sends: a field that there is not is refused."""


class View(Struct, kw_only=True):
    """What a client is told."""


# ---------------------------------------------------------------------- clusters


class NewTopic(Body):
    """A topic that exists from the start; what is left out is left to the configuration."""

    name: Annotated[str, Meta(min_length=1)]
    partitions: Annotated[int, Meta(ge=1)] | None = None
    replication_factor: Annotated[int, Meta(ge=1)] | None = None


class NewCluster(Body):
    """A cluster to be made; every field may be left out."""

    id: (
        Annotated[str, Meta(pattern="^[A-Za-z0-9._-]{1,64}$", description="Its name in paths; else one is made.")]
        | None
    ) = None
    brokers: Annotated[int, Meta(ge=1, le=100, description="How many, with the ids 1, 2, …; else 1.")] | None = None
    node_ids: Annotated[list[int], Meta(description="The ids of the brokers in place of their number.")] | None = None
    topics: Annotated[
        list[str | NewTopic], Meta(description="NAME, NAME:PARTITIONS, NAME:PARTITIONS:REPLICAS, or objects.")
    ] = []
    config: Annotated[
        dict[str, str | int | float | bool], Meta(description="Broker keys by Kafka's names, with their values.")
    ] = {}
    as_kafka: Annotated[str, Meta(description="Be this release of Kafka, such as 3.6.")] | None = None
    dialect: Annotated[str, Meta(description="A dialect of Kafka, in place of a release.")] | None = None
    transaction_version: Annotated[int, Meta(ge=0)] | None = None
    seed: Annotated[int, Meta(description="Of every random choice of the brokers.")] | None = None
    port: Annotated[Port, Meta(description="Of the first broker, the others take the next; 0: free ones.")] = 0
    advertised_host: Annotated[str, Meta(description="The host that clients are told.")] | None = None
    security: (
        Annotated[str, Meta(description="plaintext, ssl, sasl-plaintext or sasl-ssl: what clients need to get in.")]
        | None
    ) = None
    users: (
        Annotated[dict[str, str], Meta(description="Passwords by user, where clients log in; else one is made up.")]
        | None
    ) = None
    lease_s: Annotated[
        float, Meta(ge=0, description="It is removed after so much silence; 0: never. A connected client breaks it.")
    ] = LEASE_S
    story: Annotated[str, Meta(description="One of `odradek stories`: its rules, and its cluster.")] | None = None
    rules: Annotated[Any, Meta(description="Rules that are there from the start: a plan, or a list of rules.")] = None


class ClusterMade(View):
    """A cluster, as far as a client has to know it to begin."""

    id: str
    bootstrap: str
    """`HOST:PORT` of every broker, separated by commas."""
    brokers: list[BrokerView]
    lease_s: float
    access: AccessView | None = None
    """What clients need beside the bootstrap; null where they need nothing, or the hub did not set it up."""


class AccessView(View):
    """How a client gets in; the certificates are PEM, so that no file of the hub is needed."""

    protocol: str
    """SSL, SASL_PLAINTEXT or SASL_SSL"""
    ca: str | None
    """What clients trust."""
    certificate: str | None
    """Key and certificate of a client, where nobody logs in."""
    mechanism: str | None
    users: dict[str, str]
    """Passwords by user; the settings are those of the first."""
    librdkafka: dict[str, str]
    """Settings of librdkafka, the bootstrap included."""
    java: dict[str, str]
    """Settings of Kafka's own clients and tools, the bootstrap included."""


class BrokerView(View):
    """A broker, and what it is doing."""

    id: int
    host: str
    port: int
    state: str
    """running, paused or stopped"""
    fenced: bool
    """Whether the controller has given up on it: it was stopped, or paused for too long."""
    controller: bool
    connections: int
    """Of clients."""
    parked: int
    """Requests that wait for something."""
    leads: int
    """Partitions, internal ones included."""
    now_ms: int
    """Its clock, at its last step: milliseconds since 1970."""


class Overview(View):
    """A hub."""

    odradek: str
    """The version."""
    clusters: list[ClusterMade]


class ClusterView(View):
    """The whole state of a cluster."""

    id: str
    bootstrap: str
    controller: int
    features: dict[str, int]
    brokers: list[BrokerView]
    partitions: list[PartitionSummary]
    transactions: list[TransactionView]
    groups: list[GroupView]
    parked: list[ParkedView]
    rules: list[RuleSummary]
    time: TimeView
    last_event: int


class RuleSummary(View):
    """A rule in a line."""

    name: str
    matched: int
    hits: int
    held: int
    unmet: str | None


class PartitionSummary(View):
    """A partition in a line."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int


class Problem(Struct, kw_only=True, omit_defaults=True):
    """What is wrong, as RFC 9457 has it."""

    title: str
    status: int
    detail: str
    """One sentence."""
    type: str = "about:blank"
    field: str | None = None
    """The JSON path of what is wrong in the body."""
    nearest: Any = None
    """What came nearest to what was waited for."""


# ---------------------------------------------------------------------- state


class TopicPartitionView(View):
    """A partition by its name."""

    topic: str
    partition: int


class TransactionView(View):
    """A transactional id as its coordinator has it."""

    transactional_id: str
    state: str
    """Empty, Ongoing, PrepareCommit, …: as DescribeTransactions names them."""
    producer_id: int
    producer_epoch: int
    coordinator: int
    timeout_ms: int
    start_ms: int
    """When its transaction began, by the brokers' clock; -1 if none is open."""
    last_update_ms: int
    partitions: list[TopicPartitionView]
    owed_markers: list[TopicPartitionView]
    """Partitions whose marker is decided and not written yet."""


class GroupMemberView(View):
    """A member of a group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str


class OffsetView(View):
    """An offset that a group has committed."""

    topic: str
    partition: int
    offset: int
    metadata: str | None


class GroupView(View):
    """A group as its coordinator has it."""

    group_id: str
    state: str
    type: str
    protocol_type: str
    coordinator: int
    members: list[GroupMemberView]
    offsets: list[OffsetView]


class OpenTransactionView(View):
    """A transaction that is open in a partition."""

    producer_id: int
    producer_epoch: int
    first_offset: int


class GuardView(View):
    """A producer whose transaction is about to begin in a partition: its coordinator is being asked."""

    producer_id: int
    producer_epoch: int
    lowest_sequence: int
    since_ms: int


class BatchView(View):
    """A batch of a log."""

    base_offset: int
    last_offset: int
    records: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    marker: str | None
    """COMMIT or ABORT, if it is one."""
    max_timestamp: int


class PartitionView(View):
    """A partition as its leader has it."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    open_transactions: list[OpenTransactionView]
    guards: list[GuardView]
    last_batches: list[BatchView]
    """The newest ten, oldest first."""


class MetricView(View):
    """One value of a metric that a client has pushed."""

    name: str
    kind: str
    """`gauge`, `sum`, `histogram`, `exponential_histogram` or `summary`."""
    value: float | None
    """Of a histogram and a summary the sum; null for none, and for what is no number."""
    count: int | None
    """How many values a histogram or a summary is made of."""
    attributes: dict[str, str]


class PushView(View):
    """What a client has pushed of its metrics (KIP-714)."""

    broker: int
    at_ms: int
    """By the broker's clock."""
    client_instance_id: str
    client_id: str
    client_software_name: str
    client_software_version: str
    subscription_id: int
    terminating: bool
    """Whether it is the client's last."""
    compression: str
    compressed_bytes: int
    labels: dict[str, str]
    """What the client says of itself, such as `group_id`."""
    metrics: list[MetricView]
    """Those whose names begin as was asked for."""


class ParkedView(View):
    """A request that waits for something."""

    broker: int
    api: str
    version: int
    correlation_id: int
    client_id: str | None
    from_broker: bool
    waits_for: list[str]
    """What would wake it; empty for one that waits for another broker's answer or for time."""
    rule: str | None
    """The rule that holds it."""
    age_ms: int
    deadline_ms: int | None
    """When it waits no longer, by the brokers' clock."""


# ---------------------------------------------------------------------- what is done to a cluster


class AdvertiseBody(Body):
    """The address that clients are told of a broker; it listens where it did."""

    port: Annotated[int, Meta(ge=1, le=65535)]
    host: Annotated[str, Meta(min_length=1, description="The host; else it stays.")] | None = None
    listener: Annotated[str, Meta(description="Of this listener; else of the first.")] | None = None


class MoveLeader(Body):
    """Another leader for a partition, or the same one in a new leader epoch; the next in sync if none is named."""

    to: BrokerId | None = None
    unclean: Unclean = False


class MoveCoordinator(Body):
    """Another coordinator; the next broker in sync if none is named."""

    to: BrokerId | None = None
    unclean: Unclean = False


class Moved(View):
    """Who it is now."""

    broker: int


class EpochBody(Body):
    """The producer epoch that an idle transactional id goes on at."""

    epoch: Annotated[int, Meta(ge=0, le=32767)]


class LevelBody(Body):
    """The finalized level of a feature."""

    level: Annotated[int, Meta(ge=0)]


class AlterConfigs(Body):
    """Configs of a topic, a group or a broker, or of all brokers if none is named; null takes one back."""

    configs: dict[str, str | int | float | bool | None]
    topic: str | None = None
    group: str | None = None
    broker: BrokerId | None = None


class CoordinatorLoad(Body):
    """How long coordinators take to load from now on."""

    load_ms: Annotated[int, Meta(ge=0)]


class TimeBody(Body):
    """One or several, done in this order: freeze, advance, resume."""

    freeze: bool = False
    advance_ms: Annotated[int, Meta(ge=0)] = 0
    resume: bool = False


class TimeView(View):
    """The brokers' clock."""

    now_ms: int
    ahead_ms: int
    """Of the machine's clock; below 0 where it has stood still."""
    frozen: bool


class ReleaseBody(Body):
    """How many of the requests that a rule holds are served, the longest held first; all if it is not said."""

    count: Annotated[int, Meta(ge=1)] | None = None


class Released(View):
    """How many were released."""

    released: int


class Verdict(View):
    """What the rules say about what they expect."""

    unmet: list[str]
    """A sentence for each expectation that is not met."""


# ---------------------------------------------------------------------- events and waiting


class EventBody(View):
    """Something that happened in a broker (docs/events.md)."""

    seq: int
    at_ms: int
    """By the brokers' clock."""
    node: int
    kind: str
    fields: dict[str, Any]


class EventsPage(View):
    """The events that the ring still holds."""

    events: list[EventBody]
    last: int
    """The number of the newest event of all; ask with `after` that one for those that follow."""
    lost: int = 0
    """So many that were asked for have left the ring."""


class ForEvent(Body):
    """An event of a kind, with these fields, after this number; the `count`-th of them."""

    kind: str
    fields: dict[str, Any] = {}
    after: Annotated[int, Meta(ge=0)] = 0
    count: Annotated[int, Meta(ge=1)] = 1


class ForRule(Body):
    """A rule that has been hit so often, or holds so many requests now."""

    name: str
    hits: Annotated[int, Meta(ge=1)] | None = None
    held: Annotated[int, Meta(ge=1)] | None = None


class ForTransaction(Body):
    """A transactional id in a state, such as CompleteCommit; `none`: forgotten."""

    id: str
    state: str


class ForPartition(Body):
    """A partition whose offsets have come so far."""

    topic: str
    partition: Annotated[int, Meta(ge=0)]
    last_stable_offset: Annotated[int, Meta(ge=0)] | None = None
    high_watermark: Annotated[int, Meta(ge=0)] | None = None


class ForGroup(Body):
    """A group in a state, such as Stable, with so many members."""

    id: str
    state: str | None = None
    members: Annotated[int, Meta(ge=0)] | None = None


class ForTelemetry(Body):
    """So many pushes of clients with a metric whose name begins so, of this client, as its last or not (KIP-714)."""

    metric: str = ""
    client_id: str | None = None
    terminating: bool | None = None
    count: Annotated[int, Meta(ge=1)] = 1


class WaitBody(Body):
    """What to wait for: one of these, or several that have to be so at once."""

    event: ForEvent | None = None
    rule: ForRule | None = None
    transaction: ForTransaction | None = None
    partition: ForPartition | None = None
    group: ForGroup | None = None
    telemetry: ForTelemetry | None = None
    timeout_ms: Annotated[int, Meta(ge=0, le=600_000)] = 10_000


class Came(View):
    """What was waited for is so."""

    waited_ms: int
    found: list[Any]
    """The event, the rule, the transaction, the partition, the group and the push, of those that were asked for."""
