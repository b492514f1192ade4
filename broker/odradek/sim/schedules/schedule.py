"""The schedule of a run: who does what, and what goes wrong when. It is data, so that a finding shrinks by deletion.

Each part has a seed of its own for what is not written out in it (jitter, which broker dies), so that what is left
behaves the same when something else is deleted. Times are milliseconds of virtual time since the trouble began.
"""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches
from typing import Literal

import msgspec
from msgspec import Struct

from odradek.node.rules.model import Rule

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
"""Of the topic that all of it is about."""
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
"""What goes wrong besides rules (`odradek.sim.schedules.nemesis.DEEDS` says how)."""
Ending = Literal["commit", "abort", "walk away"]


class Send(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Batches for one partition, sent one behind the other before the first of them is answered."""

    partition: int
    topic: Literal["t", "remade"] = "t"
    """The one that is deleted and made again has a single partition."""
    records: tuple[int, ...] = (1,)
    """How many records each batch has."""
    patience_ms: int = 3_000
    """How long the client waits for the answers."""
    gives_up: bool = False
    """It does not send again what was not answered in time, but aborts."""
    hangs_up: bool = True
    """It closes the connection then; a broker that is not told goes on with what is parked there."""
    pause_ms: int = 0


class Txn(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a producer does in one transaction."""

    seed: int = 0
    pause_ms: int = 0
    """Before it begins."""
    sends: tuple[Send, ...] = ()
    offset: bool = False
    """It commits an offset of its own group as well."""
    offset_patience_ms: int = 0
    """So long it waits for the answer to that, and aborts then; 0: it asks until it is answered."""
    groups: tuple[str, ...] = ()
    """It commits an offset of each of these groups as well; others may do so, too."""
    rests_ms: int = 0
    """So long it rests then, before it ends."""
    together: bool = False
    """One batch for each partition goes out in one request for each leader, in place of requests of their own."""
    changes_mind: bool = False
    """A commit that is not answered is asked for no more: it wants the transaction aborted."""
    ending: Ending = "commit"


class Player(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One producer, an instance of a transactional id."""

    name: str
    transactional_id: str
    newer: bool = False
    """It knows transaction.version 2: it adds no partitions, and its epoch grows with each transaction."""
    speaks: bool = False
    """It is the producer of its brokers' dialect, in place of Kafka's."""
    idempotent: bool = False
    """It has no transactional id: its records are written once and in order, and not in transactions."""
    begins_ms: int = 0
    """So late it comes."""
    works: bool = False
    """It is a member of a group, and its transactions are consume, transform, produce."""
    dies: float = 0.0
    """How often, as such, it vanishes without a word, and another member comes in its place."""
    instance_id: str = ""
    """It is this static member, as such (KIP-345): who comes later with its name takes its place."""
    rejoins: float = 0.15
    """How often, as such, it has something new to say, for which the others have to join again."""
    away_ms: int = 0
    """So long it takes until another one comes in its place; it vanishes between heartbeats then."""
    looks_up: bool = False
    """It asks who coordinates and leads what, and goes on with what it was told until that is refused."""
    recovers: bool = False
    """Whose id is not known any more asks for its next epoch, and begins anew only when that is refused (KIP-360)."""
    seed: int = 0
    transactions: tuple[Txn, ...] = ()

    def __post_init__(self) -> None:
        if self.speaks and self.looks_up:
            raise ValueError("who speaks a dialect does not look up who leads")


class Deed(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Something that goes wrong. Of kind `rule` it is a rule as docs/rules.md has it, for `lasts_ms`."""

    at_ms: int
    kind: str
    seed: int = 0
    rule: Rule | None = None
    lasts_ms: int = 0
    then: str = ""
    """What is done when the rule has hit for the first time: one of `KINDS`."""

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
    """Of transaction.version: that at the start, and the others that it may change to."""
    verification: bool = True
    brokers: int = 3
    replicas: int = 3
    """With one, a partition has no leader while its broker is away."""
    dialect: str | None = None
    careful: bool = False
    """Producers of the dialect do what its text has forgotten, where one has."""
    slowest_ms: int = 0
    """The longest delay of a message between brokers."""
    load_ms: int = 0
    """How long a coordinator takes to load."""
    transaction_timeout_ms: int = 8_000
    id_expiration_ms: int = 0
    """After so long a transactional id that is not used is forgotten; 0: as by default, after a week."""
    producer_expiration_ms: int = 0
    """After so long leaders forget a producer that writes nothing; 0: as by default, after a day."""
    segments_ms: int = 0
    """Segments of logs end after so long, and coordinators' logs are compacted at once; 0: as by default, hardly."""
    min_insync: int = 1
    """So many replicas have to have what is written."""
    lag_ms: int = 0
    """So long each replica takes to acknowledge, as long as nothing else is said."""
    sessions: bool = False
    """Consumers read in fetch sessions (KIP-227)."""
    consumers_look_up: bool = False
    """They ask who leads what they read, as producers that `looks_up` do."""
    lookers: int = 0
    """Clients that ask all the time who leads and coordinates what."""
    watchers: int = 0
    """Admins who ask what transactions there are."""
    aborters: int = 0
    """Admins who abort what hangs in a partition, or seems to."""
    committers: int = 0
    """Clients that commit offsets without a transaction, and read them, of groups that several transactions use."""
    watches_members: bool = False
    """They ask who is in the group that works as well."""
    sharers: int = 0
    """Members of a share group, which reads all of it (KIP-932)."""
    dawdles: float = 0.25
    """How often such a member does not accept at once what it is given."""
    heartbeats: bool = False
    """Members belong to a group of the newer protocol (KIP-848)."""
    ranges: bool = False
    """Members of such a group are assigned ranges, by their names: who joins may get what another one has."""
    session_ms: int = 0
    """So long a member of such a group may be silent; 0: as by default, longer than a run."""
    duration_ms: int = 4_000
    """Of the trouble; what is begun is ended after that, and everything has to come to rest."""
    players: tuple[Player, ...] = ()
    consumers: tuple[int, ...] = ()
    """The partitions that somebody reads all the time."""
    deeds: tuple[Deed, ...] = ()

    def __post_init__(self) -> None:
        if not self.levels or not set(self.levels) <= {0, 1, 2}:
            raise ValueError("levels are some of 0, 1 and 2")
        if not self.brokers >= 1 or not 1 <= self.replicas <= self.brokers:
            raise ValueError("there is at least one broker, and at most as many replicas")
        partitions = {send.partition for each in self.players for txn in each.transactions for send in txn.sends}
        if not {*partitions, *self.consumers} <= set(range(PARTITIONS)):
            raise ValueError(f"partitions are 0 to {PARTITIONS - 1}")

    @property
    def remakes(self) -> bool:
        """Whether anything is written to the topic that is deleted and made again."""
        return any(send.topic != "t" for each in self.players for txn in each.transactions for send in txn.sends)

    @property
    def groups(self) -> dict[str, int]:
        """The groups besides their producers' own of which transactions commit offsets, and how many do so."""
        used = Counter(group for each in self.players for txn in each.transactions for group in txn.groups)
        return dict(sorted(used.items()))

    @property
    def steps(self) -> int:
        """How many steps it has: what clients send and end, and what goes wrong."""
        sent = sum(
            len(txn.sends) + txn.offset + len(txn.groups) + 1 for player in self.players for txn in player.transactions
        )
        others = self.sharers + self.watchers + self.aborters + self.committers + self.lookers
        return sent + len(self.deeds) + len(self.consumers) + others


def schedule_text(schedule: Schedule) -> str:
    """The schedule as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(schedule), indent=1).decode() + "\n"


def read_schedule(text: str | bytes) -> Schedule:
    """The schedule that a JSON text is. Raises msgspec.ValidationError (a ValueError) for what makes none."""
    return msgspec.json.decode(text, type=Schedule)
