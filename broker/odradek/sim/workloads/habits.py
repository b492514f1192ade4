"""Habits of the clients of a run, which workloads draw from."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Habits"]


class Habits(Struct, frozen=True):
    """Probabilities, unless the field says that it is a count, a time or a switch."""

    newer: float = 0.6
    """A producer uses the newer style, if the level allows it."""
    gives_up: float = 0.25
    """To abort after the timeout of a batch, in place of a retry."""
    hurries: float = 0.0
    """To send a batch again soon, on another connection, while the first one may still be in flight."""
    hangs_up: float = 1.0
    """To close the connection after a timeout; without that the broker keeps the parked request."""
    commits: float = 0.7
    walks_away: float = 0.0
    """To die in the middle of a transaction; some do so anyway when the trouble is over."""
    in_flight: int = 1
    """Number of batches that are sent to a partition before the first answer."""
    idempotent: float = 0.0
    """To have no transactional id."""
    ids: int = 4
    """Number of transactional ids for the five producers: those with the same id are rivals."""
    succeeds: bool = False
    """Whether every other producer dies in its second transaction, and the next one takes over its id."""
    gives_up_offsets: float = 0.0
    """To abort after the timeout of an offset commit, in place of a retry."""
    workers: int = 2
    """Number of members of the group that consumes, transforms and produces."""
    timeout_ms: int = 8_000
    """Timeout of transactions."""
    pauses_ms: tuple[int, ...] = (0, 0, 5, 50, 200)
    """Pauses before a transaction."""
    together: float = 0.15
    """To send batches for several partitions in one request."""
    changes_mind: float = 0.15
    """To ask for an abort after a commit without an answer."""
    lingers: float = 0.0
    """To pause in the middle of a transaction, so that it may time out meanwhile."""
    dies: float = 0.0
    """Members of a group vanish without a request."""
    expires_ms: int = 0
    """Expiration of unused transactional ids; 0: the default of a week."""
    sessions: bool = False
    """Whether consumers use fetch sessions."""
    remade: float = 0.0
    """To write also to the topic that is deleted and made again."""
    looks_up: float = 0.0
    """To look up leaders and coordinators, in place of reading a broker's image."""
    lookers: int = 0
    """Number of clients that only look up."""
    watchers: int = 0
    """Number of admins that describe transactions and groups."""
    aborters: int = 0
    """Number of admins that abort transactions which hang in a partition, or seem to."""
    shared_groups: int = 0
    """Number of groups without members for which several producers commit offsets in transactions."""
    committers: int = 0
    """Number of clients that commit and read offsets of those groups without transactions."""
    fresh_groups: bool = False
    """Whether each transaction commits an offset of a new group."""
    rests_ms: tuple[int, ...] = (0,)
    """Pauses between an offset of such a group and the end of its transaction."""
    watches_members: bool = False
    """Whether the describing admins also describe the workers' group."""
    rejoins: float = 0.15
    """Members of a group rejoin with new metadata, which starts a rebalance."""
    away_ms: int = 0
    """Time until another member replaces one that vanished between heartbeats."""
    shares_names: bool = False
    """Whether two members share the name of a static member (KIP-345): the later one replaces the other."""
    sharers: int = 0
    """Number of members of a share group."""
    dawdles: float = 0.25
    """Members of a share group do not accept a record at once."""
    rejects: float = 0.0
    """Members of a share group reject records; the group has a dead letter queue then (KIP-1191)."""
    share_workers: int = 0
    """Number of members of a share group that copy records in transactions; only a dialect has them (KIP-1289)."""
    heartbeats: bool = False
    """Whether the workers' group uses the newer protocol (KIP-848)."""
    recovers: float = 0.0
    """To ask for the next epoch of an unknown producer id, and start anew if that is refused (KIP-360)."""
    ranges: bool = False
    """Whether such a group uses the range assignor: work moves to a new member, and its former owner stays."""
    session_ms: int = 0
    """Session timeout of such a group; 0: the default, which is longer than a run."""
