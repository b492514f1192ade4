"""How the clients of a run behave, for the workloads to draw from."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Habits"]


class Habits(Struct, frozen=True):
    """What is not a number of something is how often they do it."""

    newer: float = 0.6
    """How many are of the newer style, where the level allows it."""
    gives_up: float = 0.25
    """Not to send a batch again that was not answered in time, but to abort."""
    hurries: float = 0.0
    """To send a batch again soon, on another connection, while the first one may still be on its way."""
    hangs_up: float = 1.0
    """To close the connection then; a broker that is not told goes on with what is parked there."""
    commits: float = 0.7
    walks_away: float = 0.0
    """To die in the middle of a transaction; they do so besides when the trouble is over."""
    in_flight: int = 1
    """Batches that are sent to a partition before the first of them is answered."""
    idempotent: float = 0.0
    """To have no transactional id."""
    ids: int = 4
    """Transactional ids of the producers, who are five: those with the same one are rivals."""
    succeeds: bool = False
    """Every other producer dies in its second transaction, and the next one takes its id over."""
    gives_up_offsets: float = 0.0
    """Not to commit an offset again that was not answered in time, but to abort."""
    workers: int = 2
    """Members of the group that consumes, transforms and produces."""
    timeout_ms: int = 8_000
    """Of a transaction."""
    pauses_ms: tuple[int, ...] = (0, 0, 5, 50, 200)
    """Before a transaction."""
    together: float = 0.15
    """To send batches for several partitions in one request."""
    changes_mind: float = 0.15
    """To want a transaction aborted whose commit was not answered."""
    lingers: float = 0.0
    """To rest in the middle of a transaction, so that it may come to its timeout while it goes on."""
    dies: float = 0.0
    """Members of a group vanish without a word."""
    expires_ms: int = 0
    """After so long an id that is not used is forgotten; 0: as by default, after a week."""
    sessions: bool = False
    """To read in fetch sessions."""
    remade: float = 0.0
    """To write to the topic that is deleted and made again as well."""
    looks_up: float = 0.0
    """To ask who coordinates and leads what, in place of knowing as much as any broker."""
    lookers: int = 0
    """Clients that ask for nothing else."""
    watchers: int = 0
    """Admins who ask what transactions there are."""
    aborters: int = 0
    """Admins who abort what hangs in a partition, or seems to."""
    shared_groups: int = 0
    """Groups without members, whose offsets several producers commit in their transactions."""
    committers: int = 0
    """Clients that commit offsets of those groups without a transaction, and read them."""
    fresh_groups: bool = False
    """Each transaction commits an offset of a group that nobody has used before."""
    rests_ms: tuple[int, ...] = (0,)
    """Between an offset of such a group and the end of its transaction."""
    watches_members: bool = False
    """They ask who is in the group that works as well."""
    rejoins: float = 0.15
    """Members of a group have something new to say, for which the others have to join again."""
    away_ms: int = 0
    """How long it takes until another member comes in the place of one that has vanished between heartbeats."""
    shares_names: bool = False
    """Two members of a group each are one static member (KIP-345): who comes later takes the place of the other."""
    sharers: int = 0
    """Members of a share group."""
    dawdles: float = 0.25
    """Members of a share group do not accept at once what they are given."""
    heartbeats: bool = False
    """To be members of the newer protocol of groups."""
    recovers: float = 0.0
    """To ask for the next epoch of an id that its coordinator does not know any more, and then begin anew (KIP-360)."""
    ranges: bool = False
    """Members of the newer protocol are assigned ranges: work goes to whoever joins, and who had it stays a member."""
    session_ms: int = 0
    """Of a member of the newer protocol; 0: as by default, longer than a run."""
