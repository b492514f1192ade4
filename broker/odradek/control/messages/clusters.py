"""Bodies and answers about whole clusters."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from odradek.control.messages.common import Body, Port, View
from odradek.control.messages.deeds import TimeView
from odradek.control.messages.state import GroupView, ParkedView, PartitionSummary, TransactionView

__all__ = [
    "AccessView",
    "BrokerView",
    "ClusterMade",
    "ClusterView",
    "LEASE_S",
    "NewCluster",
    "NewSnapshot",
    "NewTopic",
    "Overview",
    "RuleSummary",
    "SnapshotView",
    "StoryLine",
]

LEASE_S = 60.0


class NewTopic(Body):
    """A topic that exists from the start; fields that are left out are decided by the configuration."""

    name: Annotated[str, Meta(min_length=1)]
    partitions: Annotated[int, Meta(ge=1)] | None = None
    replication_factor: Annotated[int, Meta(ge=1)] | None = None


# Clients remove `.` and `..` from a path, and a plain `$` would allow a line end.
NAME = r"^(?!\.\.?$)[A-Za-z0-9._-]{1,64}$(?!\n)"


class NewCluster(Body):
    """A cluster to be made; every field may be left out."""

    id: (
        Annotated[str, Meta(pattern=NAME, description="Its name in paths, neither . nor ..; else one is made.")] | None
    ) = None
    from_: (
        Annotated[str, Meta(description="A snapshot of this hub: the cluster is a fork, and goes on from there.")]
        | None
    ) = field(name="from", default=None)
    brokers: Annotated[int, Meta(ge=1, le=100, description="How many, with the ids 1, 2, …; else 1.")] | None = None
    node_ids: Annotated[list[int], Meta(description="The ids of the brokers in place of their number.")] | None = None
    topics: Annotated[
        list[str | NewTopic], Meta(description="NAME, NAME:PARTITIONS, NAME:PARTITIONS:REPLICAS, or objects.")
    ] = field(default_factory=list)
    config: Annotated[
        dict[str, str | int | float | bool], Meta(description="Broker keys by Kafka's names, with their values.")
    ] = field(default_factory=dict)
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
    """The settings that clients need besides the bootstrap; null if they need none, or the hub did not create them."""


class NewSnapshot(Body):
    """A snapshot to be taken of a cluster."""

    name: Annotated[str, Meta(pattern=NAME, description="Its name in paths, neither . nor ..")]


class SnapshotView(View):
    """A snapshot that the hub keeps: clusters are made `from` it."""

    name: str
    cluster: str
    """The cluster that it was taken of, which may be gone."""
    cluster_id: str
    """Kafka's, which forks have as well."""
    brokers: list[int]
    taken_at_ms: int
    """The time of the brokers then: milliseconds since 1970."""
    bytes_held: int
    """Of all record batches; forks share them."""
    directory: str | None
    """Where it is, if the logs of the cluster are in a directory."""


class AccessView(View):
    """How a client gets in; the certificates are PEM, so that no file of the hub is needed."""

    protocol: str
    """SSL, SASL_PLAINTEXT or SASL_SSL"""
    ca: str | None
    """The certificates that clients trust."""
    certificate: str | None
    """Key and certificate of a client, for listeners without a login."""
    mechanism: str | None
    users: dict[str, str]
    """Passwords by user; the settings are those of the first."""
    librdkafka: dict[str, str]
    """Settings of librdkafka, the bootstrap included."""
    java: dict[str, str]
    """Settings of Kafka's own clients and tools, the bootstrap included."""


class BrokerView(View):
    """A broker and its state."""

    id: int
    host: str
    port: int
    state: str
    """running, paused or stopped"""
    fenced: bool
    """Whether the controller has given up on it: it was stopped, or paused for too long."""
    controller: bool
    connections: int
    """Connections of clients."""
    parked: int
    """Requests that wait for something."""
    leads: int
    """Partitions, internal ones included."""
    now_ms: int
    """Its clock, at its last step: milliseconds since 1970."""


class StoryLine(View):
    """A story in a line: a cluster can be made of it, and its lesson read."""

    name: str
    about: str
    chapter: int
    """Stories of one theme have the same number, from 1; a reader begins with the first."""
    theme: str
    title: str
    symptom: str
    """The symptom that a user sees."""


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
