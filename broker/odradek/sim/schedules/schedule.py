"""The schedule of a run: the work of clients, and the faults. It is data, so that a finding shrinks by deletion.

Each part has a seed of its own for details that it does not state (jitter, which broker dies), so that the other parts
behave the same when one is deleted. Times are milliseconds of virtual time since the trouble began.
"""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches
from typing import Literal

import msgspec
from msgspec import Struct

from odradek.faults.model import Rule

__all__ = [
    "KINDS",
    "PARTITIONS",
    "REMADE",
    "Deed",
    "Player",
    "Schedule",
    "Send",
    "Txn",
    "read_schedule",
    "schedule_text",
]

REMADE = "remade"
PARTITIONS = 3
"""Number of partitions of the topic `t`."""
KINDS = (
    "move a leader",
    "move a coordinator",
    "lose connections",
    "hold markers",
    "remove a broker",
    "return a broker",
    "crash a broker",
    "crash a broker unnoticed",
    "restart a broker",
    "kill all brokers",
    "cut the power",
    "deafen a broker",
    "change a lag",
    "silence a replica",
    "replace a coordinator amid markers",
    "repeat a marker late",
    "pause a broker",
    "set a clock ahead",
    "set a clock back",
    "set a clock days ahead",
    "change the level",
    "use up epochs",
    "fence a producer",
    "remake a topic",
)
"""The kinds of deeds besides rules (see `odradek.sim.schedules.nemesis.DEEDS`)."""
Ending = Literal["commit", "abort", "walk away"]


class Send(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Batches for one partition, sent without waiting for the answer to the first."""

    partition: int
    topic: Literal["t", "remade"] = "t"
    """`remade` is deleted and made again during the run; it has one partition."""
    records: tuple[int, ...] = (1,)
    """Number of records of each batch."""
    patience_ms: int = 3_000
    """How long the client waits for the answers."""
    gives_up: bool = False
    """It aborts after a timeout, in place of a retry."""
    hangs_up: bool = True
    """It closes the connection after a timeout; without that the broker keeps the parked request."""
    pause_ms: int = 0


class Txn(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The work of a producer in one transaction."""

    seed: int = 0
    pause_ms: int = 0
    """Pause before the transaction begins."""
    sends: tuple[Send, ...] = ()
    offset: bool = False
    """It also commits an offset of its own group."""
    offset_patience_ms: int = 0
    """How long it waits for the answer to that before it aborts; 0: it asks until it has an answer."""
    groups: tuple[str, ...] = ()
    """It also commits an offset of each of these groups, which other clients may do as well."""
    rests_ms: int = 0
    """Pause before the transaction ends."""
    together: bool = False
    """The batches for one leader go out in one request, in place of one request each."""
    changes_mind: bool = False
    """After a commit without an answer it asks for an abort."""
    ending: Ending = "commit"


class Player(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One producer, an instance of a transactional id."""

    name: str
    transactional_id: str
    newer: bool = False
    """It uses transaction.version 2: it adds no partitions, and its epoch grows with each transaction."""
    speaks: bool = False
    """It is a producer of the dialect, in place of one of Kafka."""
    idempotent: bool = False
    """It has no transactional id: its records are written once and in order, without transactions."""
    begins_ms: int = 0
    """When it starts."""
    works: bool = False
    """It is a member of a group, and its transactions consume, transform and produce."""
    dies: float = 0.0
    """Probability that such a member vanishes without a request, and another one takes its place."""
    instance_id: str = ""
    """Static membership (KIP-345): a later member with this name takes its place."""
    rejoins: float = 0.15
    """Probability that such a member rejoins with new metadata, which starts a rebalance."""
    away_ms: int = 0
    """Time until another member takes its place; with this it vanishes between heartbeats."""
    looks_up: bool = False
    """It looks up coordinators and leaders, and uses the answers until a broker refuses."""
    recovers: bool = False
    """If its producer id is unknown it asks for its next epoch, and starts anew only if that is refused (KIP-360)."""
    seed: int = 0
    transactions: tuple[Txn, ...] = ()

    def __post_init__(self) -> None:
        if self.speaks and self.looks_up:
            raise ValueError("who speaks a dialect does not look up who leads")


class Deed(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A fault. A deed of kind `rule` applies a rule (docs/rules.md) for `lasts_ms`."""

    at_ms: int
    kind: str
    seed: int = 0
    rule: Rule | None = None
    lasts_ms: int = 0
    then: str = ""
    """The kind of the deed to do at the rule's first hit: one of `KINDS`."""

    def __post_init__(self) -> None:
        if self.rule is None:
            _check_kind(self.kind)
        if self.then:
            _check_kind(self.then)
            if self.rule is None:
                raise ValueError("what is to follow follows from a rule's hit")


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        near = get_close_matches(kind, KINDS, 1)
        meant = f"did you mean {near[0]}?" if near else f"there is {', '.join(KINDS)}"
        raise ValueError(f"there is no deed {kind}: {meant}")


class Schedule(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Everything that a run depends on."""

    seed: int
    workload: str = "general"
    levels: tuple[int, ...] = (2,)
    """Levels of transaction.version: the first at the start, then those that it may change to."""
    verification: bool = True
    brokers: int = 3
    replicas: int = 3
    """Replicas of each partition. With one, a partition has no leader while its broker is away."""
    dialect: str | None = None
    careful: bool = False
    """Producers of the dialect also do the steps that its text leaves out."""
    slowest_ms: int = 0
    """The longest delay (ms) of a message between brokers."""
    load_ms: int = 0
    """How long a coordinator takes to load."""
    transaction_timeout_ms: int = 8_000
    id_expiration_ms: int = 0
    """Expiration of unused transactional ids; 0: the default of a week."""
    producer_expiration_ms: int = 0
    """Expiration of idle producers at leaders; 0: the default of a day."""
    segments_ms: int = 0
    """Age at which segments roll; coordinators' logs are compacted at once then. 0: the defaults."""
    min_insync: int = 1
    """min.insync.replicas."""
    disk: Literal["none", "unsynced", "synced"] = "none"
    """Whether the logs are files, and on the device before anything is acknowledged."""
    lag_ms: int = 0
    """How long a replica takes to acknowledge, unless a deed changes it."""
    sessions: bool = False
    """Consumers read in fetch sessions (KIP-227)."""
    consumers_look_up: bool = False
    """Consumers look up leaders, like producers with `looks_up`."""
    lookers: int = 0
    """Number of clients that look up leaders and coordinators all the time."""
    watchers: int = 0
    """Number of admins that describe transactions and groups."""
    aborters: int = 0
    """Number of admins that abort transactions which hang in a partition, or seem to."""
    committers: int = 0
    """Number of clients that commit and read offsets without transactions, in groups that transactions also use."""
    watches_members: bool = False
    """The describing admins also describe the workers' group."""
    sharers: int = 0
    """Number of members of a share group that reads the topic `t` (KIP-932)."""
    dawdles: float = 0.25
    """Probability that such a member does not accept a record at once."""
    rejects: float = 0.0
    """Probability that it rejects a record; the group has a dead letter queue then (KIP-1191)."""
    share_workers: int = 0
    """Number of members of another share group that copies `t` in transactions (KIP-1289)."""
    heartbeats: bool = False
    """The workers' group uses the newer protocol (KIP-848)."""
    ranges: bool = False
    """Such a group uses the range assignor: a new member may get a partition that another one has."""
    session_ms: int = 0
    """Session timeout of such a group; 0: the default, which is longer than a run."""
    duration_ms: int = 4_000
    """Duration of the trouble. After it, open transactions are ended and everything must come to rest."""
    players: tuple[Player, ...] = ()
    consumers: tuple[int, ...] = ()
    """The partitions that have a consumer."""
    deeds: tuple[Deed, ...] = ()

    def __post_init__(self) -> None:
        if not self.levels or not set(self.levels) <= {0, 1, 2}:
            raise ValueError("levels are some of 0, 1 and 2")
        if not self.brokers >= 1 or not 1 <= self.replicas <= self.brokers:
            raise ValueError("there is at least one broker, and at most as many replicas")
        self._check_disk()
        partitions = {send.partition for each in self.players for txn in each.transactions for send in txn.sends}
        if not {*partitions, *self.consumers} <= set(range(PARTITIONS)):
            raise ValueError(f"partitions are 0 to {PARTITIONS - 1}")

    def _check_disk(self) -> None:
        kinds = {kind for deed in self.deeds for kind in (deed.kind, deed.then)}
        if "kill all brokers" in kinds and self.disk == "none":
            raise ValueError("after all brokers were killed there is nothing without a disk")
        if "cut the power" in kinds and self.disk != "synced":
            raise ValueError("what was acknowledged outlives a power cut on a synced disk only")

    @property
    def remakes(self) -> bool:
        """Whether a producer writes to the topic that is deleted and made again."""
        return any(send.topic != "t" for each in self.players for txn in each.transactions for send in txn.sends)

    @property
    def groups(self) -> dict[str, int]:
        """Number of transactions that commit offsets, by group; without the producers' own groups."""
        used = Counter(group for each in self.players for txn in each.transactions for group in txn.groups)
        return dict(sorted(used.items()))

    @property
    def steps(self) -> int:
        """The number of steps: sends and ends of clients, and deeds."""
        sent = sum(
            len(txn.sends) + txn.offset + len(txn.groups) + 1 for player in self.players for txn in player.transactions
        )
        others = self.sharers + self.share_workers + self.watchers + self.aborters + self.committers + self.lookers
        return sent + len(self.deeds) + len(self.consumers) + others


def schedule_text(schedule: Schedule) -> str:
    """The schedule as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(schedule), indent=1).decode() + "\n"


def read_schedule(text: str | bytes) -> Schedule:
    """Read a schedule from JSON. Raises msgspec.ValidationError (a ValueError) if it is not valid."""
    return msgspec.json.decode(text, type=Schedule)
