"""Answers about the state of a cluster: transactions, groups, partitions, telemetry."""

from __future__ import annotations

from odradek.control.messages.common import View

__all__ = [
    "BatchView",
    "GroupMemberView",
    "GroupView",
    "GuardView",
    "MetricView",
    "OffsetView",
    "OpenTransactionView",
    "ParkedView",
    "PartitionSummary",
    "PartitionView",
    "PushView",
    "TopicPartitionView",
    "TransactionView",
]


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
    aborted_at_ms: int | None
    """When the coordinator aborts it if its producer does not end it before, by the brokers' clock; null: never."""


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
    """A producer whose first write in a partition is being verified with its coordinator."""

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
    """The newest ten, or so many as were asked for, oldest first."""


class MetricView(View):
    """One value of a metric that a client has pushed."""

    name: str
    kind: str
    """`gauge`, `sum`, `histogram`, `exponential_histogram` or `summary`."""
    value: float | None
    """For a histogram or summary its sum; null for none, and if it is not a number."""
    count: int | None
    """How many values a histogram or a summary is made of."""
    attributes: dict[str, str]


class PushView(View):
    """Metrics that a client has pushed (KIP-714)."""

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
    """The client's labels, such as `group_id`."""
    metrics: list[MetricView]
    """The metrics with the requested prefix."""


class ParkedView(View):
    """A request that waits for something."""

    broker: int
    api: str
    version: int
    correlation_id: int
    client_id: str | None
    from_broker: bool
    waits_for: list[str]
    """The event that wakes it; empty if it waits for another broker's answer or for time."""
    rule: str | None
    """The rule that holds, delays or has dropped it."""
    age_ms: int
    deadline_ms: int | None
    """When it waits no longer, by the brokers' clock."""


class PartitionSummary(View):
    """A partition in a line."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
