"""What the runs are about: a general one, and those that look for one family of races.

A race that needs several things in a row is hardly ever met where everything happens now and then.
So each of the others turns most of it off and a little of it far up, the clients' habits with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from random import Random
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from odradek.sim.faults import RULES
from odradek.sim.habits import Habits
from odradek.sim.schedule import KINDS

__all__ = ["FOCUSES", "GENERAL", "Focus"]


class Focus(Struct, frozen=True):
    """The tables that a run draws from."""

    weights: Mapping[str, int]
    """How often the nemesis does what."""
    levels: tuple[tuple[int, ...], ...] = ((2,), (1, 2), (2, 1), (0,), (0, 1, 2))
    """Levels of transaction.version: the first is that at the start."""
    habits: Habits = Habits()
    slowest_ms: tuple[int, ...] = (0, 5, 40, 120)
    """Of messages between brokers."""
    segments_ms: tuple[int, ...] = (0, 0, 300)
    """How long segments of logs last; 0: for ever, as far as a run is concerned."""
    producer_expiration_ms: tuple[int, ...] = (0,)
    """After how long a leader forgets a producer; 0: not in a run."""
    min_insync: tuple[int, ...] = (1,)
    """How many replicas have to have what is written."""
    lag_ms: int = 0
    """How long each replica takes to acknowledge what is written."""
    gaps_ms: tuple[int, int] = (20, 250)
    """From one thing that goes wrong to the next: at least, and at most."""
    follow_ups: tuple[str, ...] = ()
    """What is done when a rule has hit for the first time, one of them for each rule."""
    swarm: bool = False
    """Each run turns most of it off, some of it far up, and draws habits of its own."""

    def __post_init__(self) -> None:
        known = [*KINDS, *RULES]
        for name in self.weights:
            if name not in known:
                near = get_close_matches(name, known, 1)
                meant = f"did you mean {near[0]}?" if near else f"there is {', '.join(known)}"
                raise ValueError(f"there is no fault {name}: {meant}")

    def drawn(self, dice: Random) -> tuple[Habits, dict[str, int]]:
        """The habits and weights of one run."""
        weights = dict(self.weights)
        if not self.swarm:
            return self.habits, weights
        weights = {deed: weight for deed in weights if (weight := dice.choice((0, 0, 0, 1, 5)))}
        habits = replace(
            self.habits,
            newer=dice.choice((0.0, 0.5, 1.0)),
            gives_up=dice.choice((0.0, 0.2, 0.6)),
            hangs_up=dice.choice((0.2, 1.0)),
            commits=dice.choice((0.5, 0.8)),
            walks_away=dice.choice((0.0, 0.0, 0.1)),
            in_flight=dice.choice((1, 1, 2, 4)),
            timeout_ms=dice.choice((1_500, 8_000)),
        )
        # Without the newer style a leader that has never heard of a producer takes any sequence (KIP-360).
        return (replace(habits, in_flight=1) if habits.newer < 1 else habits), weights


def _focus(weights: dict[str, int], **how: object) -> Focus:
    return Focus(MappingProxyType(weights), **how)  # type: ignore[arg-type]


OLDER = ((0,), (1,))
"""The levels at which one epoch serves many transactions."""

GENERAL = _focus(
    {
        "move a leader": 2,
        "move a coordinator": 2,
        "lose connections": 1,
        "lose requests": 1,
        "lose answers": 1,
        "delay requests": 1,
        "delay records": 3,
        "hold markers": 1,
        "remove a broker": 1,
        "return a broker": 1,
        "crash a broker": 1,
        "restart a broker": 2,
        "deafen a broker": 1,
        "replace a coordinator amid markers": 3,
        "change the level": 2,
    },
    habits=Habits(watchers=1),
)

DUPLICATES = _focus(
    {"lose answers of records": 4, "delay answers of records": 2, "move a leader": 1},
    habits=Habits(gives_up=0.0, in_flight=2),
    levels=((2,), (1, 2)),
)
"""Batches are written, and their producers are not told."""

LOST_ANSWERS = _focus(
    {"lose answers of coordinators": 8, "lose requests": 3, "delay answers of records": 1, "move a coordinator": 2},
    habits=Habits(gives_up=0.4, changes_mind=0.4, commits=0.6),
    slowest_ms=(0, 5, 40),
)
"""Coordinators decide, and their clients are not told."""

RIVALS = _focus(
    {"lose answers of coordinators": 3, "delay records": 3, "delay markers": 2, "move a coordinator": 2},
    habits=Habits(ids=2, gives_up=0.4, commits=0.5, pauses_ms=(0, 50, 200, 600)),
    slowest_ms=(0, 5, 40),
)
"""Instances take the ids of others over, which go on with what they have begun."""

LATE_VERDICTS = _focus(
    {"delay verdicts": 6, "delay records": 1, "move a coordinator": 1},
    habits=Habits(newer=0.2, gives_up=0.6, hangs_up=0.3),
    levels=((0,), (1,), (1, 2), (2,)),
    slowest_ms=(0, 5, 40),
)
"""A leader hears that a transaction is open when it is over."""

LATE_RECORDS = _focus(
    {"delay records": 6, "move a leader": 1},
    habits=Habits(newer=0.0, gives_up=0.6),
    levels=OLDER,
    slowest_ms=(0, 5),
)
"""Batches of older clients arrive when their transaction is over."""

LATE_MARKERS = _focus(
    {"replace a coordinator amid markers": 8, "delay records": 1},
    habits=Habits(newer=0.0, gives_up=0.0, commits=0.5),
    levels=OLDER,
    slowest_ms=(0, 5, 40),
)
"""Markers of older clients' transactions arrive when their coordinator is replaced and the next transaction is open."""

IN_FLIGHT = _focus(
    {
        "move a leader": 2,
        "hold markers": 2,
        "lose requests": 2,
        "delay records": 2,
        "lose answers": 1,
        "delay verdicts": 1,
        "lose connections": 2,
    },
    # Without the newer style a leader that has never heard of a producer takes any sequence (KIP-360).
    habits=Habits(newer=1.0, gives_up=0.1, in_flight=4),
    levels=((2,), (1, 2)),
)
"""Several batches of a producer are on their way to a partition, and the first of them is not taken at once."""

WALKING_AWAY = _focus(
    {"move a coordinator": 2, "crash a broker": 1, "restart a broker": 2, "delay records": 2},
    habits=Habits(walks_away=0.1, lingers=0.2, timeout_ms=1_500, watchers=1),
)
"""Transactions are left open, and nobody but their coordinator can end them."""

OVERTAKING = _focus(
    {"lose verdicts": 4, "delay verdicts": 2, "move a coordinator": 2},
    # Where leaders move, one that has never heard of a producer takes any sequence (KIP-360).
    habits=Habits(newer=0.0, gives_up=0.0, in_flight=4),
    levels=OLDER,
    slowest_ms=(0, 5, 40),
)
"""The first of several batches is refused for a while, and those behind it are not."""

LATE_ACKNOWLEDGEMENTS = _focus(
    {"delay acknowledgements": 5, "move a leader": 6},
    habits=Habits(newer=0.5, gives_up=0.0),
    levels=((1,), (2,), (0,)),
    slowest_ms=(0, 5),
)
"""A marker is acknowledged when its partition has another leader and the next transaction is about to end."""

SWARM = _focus(
    {
        **GENERAL.weights,
        "lose answers of records": 1,
        "delay verdicts": 1,
        "repeat requests": 1,
        "delay acknowledgements": 1,
    },
    levels=((2,), (1, 2), (0,), (1,)),
    swarm=True,
)
"""Each run is about something else."""

LAGGING = _focus(
    {
        "change a lag": 6,
        "move a leader": 2,
        "move a coordinator": 2,
        "crash a broker": 1,
        "restart a broker": 3,
        "remove a broker": 1,
        "return a broker": 2,
        "delay records": 1,
    },
    slowest_ms=(0, 5, 40),
    min_insync=(1, 2),
)
"""Replicas lag and fall out of sync, and leaders go with what they had not told anybody."""

REFUSALS = _focus(
    {"refuse records": 6, "delay records": 1, "lose answers of records": 1},
    # Without the newer style a leader that has never heard of a producer takes any sequence (KIP-360).
    habits=Habits(newer=1.0, gives_up=0.1, in_flight=4, idempotent=0.3),
    levels=((2,),),
    slowest_ms=(0, 5, 40),
)
"""One of several batches is refused for a moment, and those behind it are not."""

IDEMPOTENT = _focus(
    {"delay records": 6, "lose answers of records": 2, "refuse records": 6, "move a leader": 1},
    habits=Habits(idempotent=0.8, gives_up=0.4, hangs_up=0.7, in_flight=4),
)
"""Producers without transactions: what they have given up arrives when they have gone on."""

LATE_LEADERS = _focus(
    {"delay verdicts": 6, "move a leader": 6, "deafen a broker": 2, "pause a broker": 2},
    habits=Habits(newer=0.4, gives_up=0.1),
    slowest_ms=(0, 5, 40),
)
"""A leader is replaced while records wait for the verdict of their coordinator, or without noticing it."""

REPEATED_MARKERS = _focus(
    {"repeat a marker late": 8, "delay verdicts": 3},
    habits=Habits(newer=1.0, gives_up=0.0, commits=0.6),
    levels=((2,),),
    slowest_ms=(0, 5, 40),
)
"""A marker of a newer client's transaction arrives once more when the next transaction is open, or about to be."""

SUCCESSORS = _focus(
    {"delay records": 1, "lose answers": 1, "move a coordinator": 1},
    habits=Habits(succeeds=True, timeout_ms=200_000),
)
"""Producers die with a transaction open, and others with the same id take it over: long before it times out."""

SLOW_MARKERS = _focus(
    {"delay markers": 6, "delay records": 6, "delay requests": 2},
    habits=Habits(newer=0.0, gives_up=0.6),
    levels=OLDER,
    slowest_ms=(0, 5, 40),
)
"""Batches of older clients arrive when their transaction has its marker, and others still wait for theirs."""

REMOVED_LEADERS = _focus(
    {"deafen a broker": 5, "remove a broker": 4, "return a broker": 5, "move a coordinator": 1},
    habits=Habits(gives_up=0.1),
)
"""Leaders are called gone, and go on until they hear of it."""

WORKING = _focus(
    {"delay markers": 6, "lose answers": 1, "move a coordinator": 3},
    habits=Habits(workers=5, newer=0.5, gives_up=0.0, dies=0.1),
    slowest_ms=(0, 5, 40),
)
"""Work goes from one member of a group to the next while the offset of the one before is not decided yet."""

WORN_EPOCHS = _focus(
    {"use up epochs": 8, "delay records": 1, "lose answers of coordinators": 4, "move a coordinator": 1},
    habits=Habits(gives_up=0.1),
    slowest_ms=(0, 5, 40),
)
"""Epochs come to their end, and producers go on with other ids."""

FORGOTTEN_IDS = _focus(
    {"move a coordinator": 1, "delay records": 2, "lose answers": 1},
    habits=Habits(pauses_ms=(0, 0, 50, 1_500), expires_ms=400, gives_up=0.1, walks_away=0.05, timeout_ms=1_500),
    slowest_ms=(0, 5, 40),
    producer_expiration_ms=(0, 700),
)
"""Transactional ids are forgotten while their producers rest, or are about to go on."""

FENCING_ADMINS = _focus(
    {"fence a producer": 6, "delay records": 2, "move a coordinator": 1, "delay markers": 1},
    habits=Habits(gives_up=0.1, watchers=1),
    slowest_ms=(0, 5, 40),
)
"""Admins fence producers (KIP-98's InitProducerId of somebody else) in the middle of what they do."""

FOLLOW_UPS = _focus(
    {"delay verdicts": 3, "delay markers": 3, "delay acknowledgements": 2, "delay records": 2},
    habits=Habits(newer=0.5, gives_up=0.1),
    slowest_ms=(0, 5, 40),
    follow_ups=("move a leader", "move a coordinator", "pause a broker", "deafen a broker", "fence a producer"),
)
"""As soon as a message is held up, a leader or a coordinator is replaced, stands still, or a producer is fenced."""

SESSIONS = _focus(
    {"move a leader": 3, "delay records": 1, "delay markers": 2, "crash a broker": 1, "restart a broker": 3},
    habits=Habits(sessions=True),
    slowest_ms=(0, 5, 40),
)
"""Consumers read in fetch sessions, which tell only what is new, and end with their brokers."""

HEARTBEATS = _focus(
    {"delay markers": 6, "lose answers": 1, "move a coordinator": 1},
    habits=Habits(workers=5, newer=0.5, gives_up=0.0, dies=0.1, heartbeats=True),
    slowest_ms=(0, 5, 40),
)
"""As `working`, with members of the newer protocol (KIP-848), whose epochs tell old members' offsets apart."""

SHARING = _focus(
    {
        "delay markers": 3,
        "delay records": 2,
        "move a leader": 2,
        "crash a broker": 1,
        "restart a broker": 3,
        "deafen a broker": 2,
    },
    habits=Habits(sharers=3, commits=0.5, workers=0),
    slowest_ms=(0, 5, 40),
)
"""Members of a share group (KIP-932) take what is committed, and say what becomes of it, or nothing, or die."""

MOVING_SHARES = _focus(
    {"delay states": 8, "move a leader": 6, "delay markers": 1},
    habits=Habits(sharers=3, dawdles=0.6, commits=0.8, workers=0, ids=2, pauses_ms=(50, 200)),
    slowest_ms=(0, 5, 40),
)
"""What leaders say of records of a share group arrives when others lead their partitions, and have given them out."""

REMADE = _focus(
    {"remake a topic": 8, "delay markers": 3, "delay records": 2, "delay verdicts": 2, "deafen a broker": 2},
    habits=Habits(remade=0.7, gives_up=0.1, workers=0),
    slowest_ms=(0, 5, 40),
)
"""A topic is deleted in the middle of transactions that write to it, and made again before their markers come."""

DEPOSED_COORDINATORS = _focus(
    {"deafen a broker": 6, "move a coordinator": 6, "delay acknowledgements": 6, "delay markers": 2},
    habits=Habits(newer=0.5, gives_up=0.1, gives_up_offsets=0.1),
    slowest_ms=(0, 5, 40),
)
"""Coordinators are replaced without noticing it while their markers are on their way."""

RESTLESS_LEADERS = _focus(
    {"move a leader": 12, "move a coordinator": 6, "delay verdicts": 2, "delay markers": 2},
    habits=Habits(gives_up=0.1),
    slowest_ms=(40, 120, 400),
)
"""Leaders are replaced again before everybody has heard of them."""

LATE_OFFSETS = _focus(
    {"delay verdicts": 8, "delay requests": 2, "move a coordinator": 1},
    habits=Habits(newer=0.3, gives_up=0.1, gives_up_offsets=0.7),
    levels=((0,), (1,), (1, 2), (2,)),
    slowest_ms=(0, 5, 40),
)
"""Offsets that their producers have given up arrive, or are verified, when their transaction is over."""

HURRIED = _focus(
    {"delay records": 4, "delay answers of records": 6, "delay verdicts": 3},
    # Without the newer style a leader that has never heard of a producer takes any sequence (KIP-360).
    habits=Habits(newer=1.0, gives_up=0.0, hurries=0.7, hangs_up=0.4, in_flight=4),
    levels=((2,), (1, 2)),
    slowest_ms=(0, 5, 40),
)
"""Batches are sent again on other connections while the first ones are on their way, or are written."""

LAST_EPOCHS = _focus(
    {"use up epochs": 4, "lose answers of coordinators": 8, "delay markers": 1},
    habits=Habits(newer=0.5, commits=0.4, gives_up=0.1, recovers=1.0, pauses_ms=(0, 0, 5, 50)),
    levels=((2,), (1,), (1, 2)),
    slowest_ms=(0, 5, 40),
)
"""Epochs come to their end while answers are lost, and producers ask for the next one with the id that they had."""

LAST_BUMPS = _focus(
    {"use up epochs": 8, "lose answers of coordinators": 8, "delay records": 8},
    habits=Habits(newer=0.0, commits=0.4, gives_up=0.8, pauses_ms=(20, 60), workers=0, ids=7),
    levels=((1,),),
    slowest_ms=(0, 5),
)
"""Older clients abort, and ask for the next epoch when there is none left."""

LINGERING = _focus(
    {"delay verdicts": 1, "delay records": 1},
    habits=Habits(lingers=0.8, timeout_ms=1_500, gives_up=0.1, newer=0.8),
    levels=((2,), (1, 2), (0,)),
    slowest_ms=(0, 5),
)
"""Producers rest in the middle of transactions, for longer than these may be open."""

SLOW_LOGS = _focus(
    {"change a lag": 6, "delay records": 1},
    habits=Habits(
        lingers=0.4, pauses_ms=(0, 50, 400, 600), timeout_ms=1_500, expires_ms=400, gives_up=0.1, recovers=0.5
    ),
    slowest_ms=(0, 5, 40),
    min_insync=(1, 2),
)
"""What coordinators decide is not replicated yet when a transaction times out, or an id is to be forgotten."""

REJOINING = _focus(
    {
        "remove a broker": 6,
        "return a broker": 8,
        "deafen a broker": 8,
        "delay proposals": 6,
        "move a leader": 4,
        "change a lag": 5,
    },
    habits=Habits(pauses_ms=(50, 200, 400), gives_up=0.1, workers=0),
    slowest_ms=(0, 5, 40),
    lag_ms=30,
)
"""Replicas come back in sync while their leader has not heard of it, and lead before they have everything."""

LATE_PROPOSALS = _focus(
    {
        "remove a broker": 6,
        "return a broker": 8,
        "deafen a broker": 8,
        "delay proposals": 6,
        "move a leader": 4,
        "silence a replica": 1,
    },
    habits=Habits(pauses_ms=(50, 200, 400), gives_up=0.1, workers=0),
    slowest_ms=(0, 5, 40),
    lag_ms=30,
)
"""What a leader proposes about its replicas arrives when the controller has changed them since."""

SILENT_REPLICAS = _focus(
    {"silence a replica": 1},
    habits=Habits(gives_up=0.0),
    slowest_ms=(0, 5, 40),
    gaps_ms=(300, 2_500),
)
"""Replicas acknowledge nothing for a while, and nothing else goes wrong."""

FORGOTTEN_PRODUCERS = _focus(
    {"lose answers of records": 6, "delay records": 2, "move a leader": 1},
    habits=Habits(idempotent=0.7, gives_up=0.1, in_flight=2, pauses_ms=(0, 50, 200, 1_500)),
    levels=((2,), (1, 2)),
    slowest_ms=(0, 5),
    producer_expiration_ms=(3_000,),
)
"""Producers are silent for nearly as long as leaders remember them, and batches are sent again meanwhile."""

MOVING_WORK = _focus(
    {"delay markers": 6, "lose answers": 1, "move a coordinator": 1},
    habits=Habits(
        workers=5,
        newer=0.5,
        gives_up=0.0,
        dies=0.1,
        heartbeats=True,
        ranges=True,
        session_ms=1_500,
        watchers=1,
        watches_members=True,
    ),
    slowest_ms=(0, 5, 40),
)
"""As `heartbeats`, where who joins takes the work of another member, which stays, and silent ones are left out."""

SILENT_MEMBERS = _focus(
    {"delay markers": 4, "lose answers": 1, "move a coordinator": 1},
    habits=Habits(
        workers=4,
        newer=0.5,
        gives_up=0.0,
        dies=0.02,
        rejoins=0.01,
        away_ms=3_000,
        watchers=1,
        watches_members=True,
    ),
    slowest_ms=(0, 5, 40),
)
"""As `working`, with members that vanish for longer than their session, while hardly anybody joins again."""

STATIC_MEMBERS = _focus(
    {"delay markers": 4, "lose answers": 1, "move a coordinator": 1},
    habits=Habits(workers=4, newer=0.5, gives_up=0.0, rejoins=0.03, shares_names=True, pauses_ms=(0, 200, 600)),
    slowest_ms=(0, 5, 40),
)
"""Static members (KIP-345) are started while another process has their name, which goes on with its transaction."""

ABORTING_ADMINS = _focus(
    {"delay markers": 4, "delay records": 1, "move a coordinator": 1, "lose answers of records": 1},
    # Of an older client's transactions an admin cannot tell which one it has seen.
    habits=Habits(newer=1.0, gives_up=0.1, aborters=3, pauses_ms=(0, 0, 5)),
    levels=((2,),),
    slowest_ms=(0, 5, 40),
)
"""Admins abort what seems to hang, and arrive when the next transaction of its producer is open."""

LOOKUPS = _focus(
    {
        "move a leader": 6,
        "move a coordinator": 6,
        "deafen a broker": 5,
        "lose lookups": 3,
        "delay lookups": 4,
        "crash a broker": 2,
        "restart a broker": 4,
        "remove a broker": 2,
        "return a broker": 3,
        "delay markers": 1,
    },
    habits=Habits(looks_up=0.8, lookers=1, gives_up=0.1),
    slowest_ms=(5, 40, 120, 400),
)
"""Clients ask brokers that lag who leads what, and go on with what they were told until it is refused."""

SET_CLOCKS = _focus(
    {
        "set a clock ahead": 6,
        "set a clock back": 3,
        "move a leader": 2,
        "move a coordinator": 3,
        "delay verdicts": 2,
        "delay records": 2,
        "delay markers": 1,
        "crash a broker": 1,
        "restart a broker": 3,
    },
    # A marker that a clock has given up is sent again, and KIP-890 keeps the late one from newer clients only.
    habits=Habits(timeout_ms=1_500, lingers=0.2, gives_up=0.1, newer=1.0),
    levels=((2,),),
    slowest_ms=(0, 5, 40),
)
"""The clocks of brokers are set ahead and back: transactions time out early, and by one broker's clock only."""

FOCUSES: Mapping[str, Focus] = MappingProxyType(
    {
        "general": GENERAL,
        "duplicates": DUPLICATES,
        "lost-answers": LOST_ANSWERS,
        "rivals": RIVALS,
        "late-verdicts": LATE_VERDICTS,
        "late-records": LATE_RECORDS,
        "late-markers": LATE_MARKERS,
        "in-flight": IN_FLIGHT,
        "walking-away": WALKING_AWAY,
        "overtaking": OVERTAKING,
        "late-acknowledgements": LATE_ACKNOWLEDGEMENTS,
        "swarm": SWARM,
        "lagging": LAGGING,
        "refusals": REFUSALS,
        "idempotent": IDEMPOTENT,
        "late-leaders": LATE_LEADERS,
        "repeated-markers": REPEATED_MARKERS,
        "successors": SUCCESSORS,
        "slow-markers": SLOW_MARKERS,
        "removed-leaders": REMOVED_LEADERS,
        "working": WORKING,
        "worn-epochs": WORN_EPOCHS,
        "forgotten-ids": FORGOTTEN_IDS,
        "fencing-admins": FENCING_ADMINS,
        "follow-ups": FOLLOW_UPS,
        "sessions": SESSIONS,
        "heartbeats": HEARTBEATS,
        "sharing": SHARING,
        "moving-shares": MOVING_SHARES,
        "remade-topics": REMADE,
        "deposed-coordinators": DEPOSED_COORDINATORS,
        "restless-leaders": RESTLESS_LEADERS,
        "late-offsets": LATE_OFFSETS,
        "hurried": HURRIED,
        "last-epochs": LAST_EPOCHS,
        "last-bumps": LAST_BUMPS,
        "lingering": LINGERING,
        "slow-logs": SLOW_LOGS,
        "rejoining": REJOINING,
        "late-proposals": LATE_PROPOSALS,
        "silent-replicas": SILENT_REPLICAS,
        "forgotten-producers": FORGOTTEN_PRODUCERS,
        "moving-work": MOVING_WORK,
        "silent-members": SILENT_MEMBERS,
        "static-members": STATIC_MEMBERS,
        "aborting-admins": ABORTING_ADMINS,
        "lookups": LOOKUPS,
        "set-clocks": SET_CLOCKS,
    }
)
