"""All workloads: a general one, and workloads for one family of races each.

A race that needs several events in a row hardly ever occurs in the general workload, in which every fault is rare.
So each of the others turns most faults off and a few far up, together with the habits of its clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from odradek.sim.workloads import clusters as cluster_workloads
from odradek.sim.workloads import groups as group_workloads
from odradek.sim.workloads.focus import Focus, focus
from odradek.sim.workloads.habits import Habits

__all__ = ["FOCUSES", "GENERAL"]

OLDER = ((0,), (1,))
"""The levels at which many transactions share one epoch."""

GENERAL = focus(
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

DUPLICATES = focus(
    {"lose answers of records": 4, "delay answers of records": 2, "move a leader": 1},
    habits=Habits(gives_up=0.0, in_flight=2),
    levels=((2,), (1, 2)),
)
"""Batches are written, and their acknowledgements are lost."""

LOST_ANSWERS = focus(
    {"lose answers of coordinators": 8, "lose requests": 3, "delay answers of records": 1, "move a coordinator": 2},
    habits=Habits(gives_up=0.4, changes_mind=0.4, commits=0.6),
    slowest_ms=(0, 5, 40),
)
"""Coordinators decide, and their answers are lost."""

RIVALS = focus(
    {"lose answers of coordinators": 3, "delay records": 3, "delay markers": 2, "move a coordinator": 2},
    habits=Habits(ids=2, gives_up=0.4, commits=0.5, pauses_ms=(0, 50, 200, 600)),
    slowest_ms=(0, 5, 40),
)
"""Instances take over the transactional ids of others, which go on with their transactions."""

LATE_VERDICTS = focus(
    {"delay verdicts": 6, "delay records": 1, "move a coordinator": 1},
    habits=Habits(newer=0.2, gives_up=0.6, hangs_up=0.3),
    levels=((0,), (1,), (1, 2), (2,)),
    slowest_ms=(0, 5, 40),
)
"""A leader learns that a transaction is open when it is over."""

LATE_RECORDS = focus(
    {"delay records": 6, "move a leader": 1},
    habits=Habits(newer=0.0, gives_up=0.6),
    levels=OLDER,
    slowest_ms=(0, 5),
)
"""Batches of older clients arrive when their transaction is over."""

LATE_MARKERS = focus(
    {"replace a coordinator amid markers": 8, "delay records": 1},
    habits=Habits(newer=0.0, gives_up=0.0, commits=0.5),
    levels=OLDER,
    slowest_ms=(0, 5, 40),
)
"""Markers of older clients' transactions arrive when their coordinator is replaced and the next transaction is open."""

IN_FLIGHT = focus(
    {
        "move a leader": 2,
        "hold markers": 2,
        "lose requests": 2,
        "delay records": 2,
        "lose answers": 1,
        "delay verdicts": 1,
        "lose connections": 2,
    },
    # For the older style a leader that has no state of a producer takes any sequence (KIP-360).
    habits=Habits(newer=1.0, gives_up=0.1, in_flight=4),
    levels=((2,), (1, 2)),
)
"""Several batches of a producer are in flight to a partition, and the first one is refused at first."""

WALKING_AWAY = focus(
    {"move a coordinator": 2, "crash a broker": 1, "restart a broker": 2, "delay records": 2},
    habits=Habits(walks_away=0.1, lingers=0.2, timeout_ms=1_500, watchers=1),
)
"""Transactions are left open, and only their coordinator can end them."""

OVERTAKING = focus(
    {"lose verdicts": 4, "delay verdicts": 2, "move a coordinator": 2},
    # A new leader that has no state of a producer takes any sequence (KIP-360).
    habits=Habits(newer=0.0, gives_up=0.0, in_flight=4),
    levels=OLDER,
    slowest_ms=(0, 5, 40),
)
"""The first of several batches is refused for a while, and those behind it are not."""

LATE_ACKNOWLEDGEMENTS = focus(
    {"delay acknowledgements": 5, "move a leader": 6},
    habits=Habits(newer=0.5, gives_up=0.0),
    levels=((1,), (2,), (0,)),
    slowest_ms=(0, 5),
)
"""A marker is acknowledged when its partition has another leader and the next transaction is about to end."""

SWARM = focus(
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
"""Each run turns other faults and habits up."""

REFUSALS = focus(
    {"refuse records": 6, "delay records": 1, "lose answers of records": 1},
    # For the older style a leader that has no state of a producer takes any sequence (KIP-360).
    habits=Habits(newer=1.0, gives_up=0.1, in_flight=4, idempotent=0.3),
    levels=((2,),),
    slowest_ms=(0, 5, 40),
)
"""One of several batches is refused for a moment, and those behind it are not."""

IDEMPOTENT = focus(
    {"delay records": 6, "lose answers of records": 2, "refuse records": 6, "move a leader": 1},
    habits=Habits(idempotent=0.8, gives_up=0.4, hangs_up=0.7, in_flight=4),
)
"""Producers without transactions: batches that they gave up arrive when they have gone on."""

REPEATED_MARKERS = focus(
    {"repeat a marker late": 8, "delay verdicts": 3},
    habits=Habits(newer=1.0, gives_up=0.0, commits=0.6),
    levels=((2,),),
    slowest_ms=(0, 5, 40),
)
"""A marker of a newer client's transaction arrives once more when the next transaction is open, or about to be."""

SUCCESSORS = focus(
    {"delay records": 1, "lose answers": 1, "move a coordinator": 1},
    habits=Habits(succeeds=True, timeout_ms=200_000),
)
"""Producers die with a transaction open, and others with the same id take it over: long before it times out."""

SLOW_MARKERS = focus(
    {"delay markers": 6, "delay records": 6, "delay requests": 2},
    habits=Habits(newer=0.0, gives_up=0.6),
    levels=OLDER,
    slowest_ms=(0, 5, 40),
)
"""Batches of older clients arrive when some partitions of their transaction have the marker and others wait for it."""

WORN_EPOCHS = focus(
    {"use up epochs": 8, "delay records": 1, "lose answers of coordinators": 4, "move a coordinator": 1},
    habits=Habits(gives_up=0.1),
    slowest_ms=(0, 5, 40),
)
"""Epochs are exhausted, and producers continue with new producer ids."""

FORGOTTEN_IDS = focus(
    {"move a coordinator": 1, "delay records": 2, "lose answers": 1},
    habits=Habits(pauses_ms=(0, 0, 50, 1_500), expires_ms=400, gives_up=0.1, walks_away=0.05, timeout_ms=1_500),
    slowest_ms=(0, 5, 40),
    producer_expiration_ms=(0, 700),
)
"""Transactional ids expire while their producers pause, or are about to continue."""

FENCING_ADMINS = focus(
    {"fence a producer": 6, "delay records": 2, "move a coordinator": 1, "delay markers": 1},
    habits=Habits(gives_up=0.1, watchers=1),
    slowest_ms=(0, 5, 40),
)
"""Admins fence producers in the middle of transactions (InitProducerId from another client, KIP-98)."""

FOLLOW_UPS = focus(
    {"delay verdicts": 3, "delay markers": 3, "delay acknowledgements": 2, "delay records": 2},
    habits=Habits(newer=0.5, gives_up=0.1),
    slowest_ms=(0, 5, 40),
    follow_ups=("move a leader", "move a coordinator", "pause a broker", "deafen a broker", "fence a producer"),
)
"""As soon as a message is held up, a leader or a coordinator is replaced, stands still, or a producer is fenced."""

SESSIONS = focus(
    {"move a leader": 3, "delay records": 1, "delay markers": 2, "crash a broker": 1, "restart a broker": 3},
    habits=Habits(sessions=True),
    slowest_ms=(0, 5, 40),
)
"""Consumers use fetch sessions, which transfer only changes, and end with their brokers."""

REMADE = focus(
    {"remake a topic": 8, "delay markers": 3, "delay records": 2, "delay verdicts": 2, "deafen a broker": 2},
    habits=Habits(remade=0.7, gives_up=0.1, workers=0),
    slowest_ms=(0, 5, 40),
)
"""A topic is deleted in the middle of transactions that write to it, and made again before their markers arrive."""

LATE_OFFSETS = focus(
    {"delay verdicts": 8, "delay requests": 2, "move a coordinator": 1},
    habits=Habits(newer=0.3, gives_up=0.1, gives_up_offsets=0.7),
    levels=((0,), (1,), (1, 2), (2,)),
    slowest_ms=(0, 5, 40),
)
"""Offset commits that producers gave up arrive, or are verified, when their transaction is over."""

HURRIED = focus(
    {"delay records": 4, "delay answers of records": 6, "delay verdicts": 3},
    # For the older style a leader that has no state of a producer takes any sequence (KIP-360).
    habits=Habits(newer=1.0, gives_up=0.0, hurries=0.7, hangs_up=0.4, in_flight=4),
    levels=((2,), (1, 2)),
    slowest_ms=(0, 5, 40),
)
"""Batches are sent again on other connections while the first ones are in flight or written."""

LAST_EPOCHS = focus(
    {"use up epochs": 4, "lose answers of coordinators": 8, "delay markers": 1},
    habits=Habits(newer=0.5, commits=0.4, gives_up=0.1, recovers=1.0, pauses_ms=(0, 0, 5, 50)),
    levels=((2,), (1,), (1, 2)),
    slowest_ms=(0, 5, 40),
)
"""Epochs are exhausted while answers are lost, and producers ask for the next epoch with their old producer id."""

LAST_BUMPS = focus(
    {"use up epochs": 8, "lose answers of coordinators": 8, "delay records": 8},
    habits=Habits(newer=0.0, commits=0.4, gives_up=0.8, pauses_ms=(20, 60), workers=0, ids=7),
    levels=((1,),),
    slowest_ms=(0, 5),
)
"""Older clients abort, and ask for the next epoch when none is left."""

LINGERING = focus(
    {"delay verdicts": 1, "delay records": 1},
    habits=Habits(lingers=0.8, timeout_ms=1_500, gives_up=0.1, newer=0.8),
    levels=((2,), (1, 2), (0,)),
    slowest_ms=(0, 5),
)
"""Producers pause in the middle of transactions for longer than the transaction timeout."""

FORGOTTEN_PRODUCERS = focus(
    {"lose answers of records": 6, "delay records": 2, "move a leader": 1},
    habits=Habits(idempotent=0.7, gives_up=0.1, in_flight=2, pauses_ms=(0, 50, 200, 1_500)),
    levels=((2,), (1, 2)),
    slowest_ms=(0, 5),
    producer_expiration_ms=(3_000,),
)
"""Producers are idle for nearly their expiration time at leaders, and batches are sent again meanwhile."""

ABORTING_ADMINS = focus(
    {"delay markers": 4, "delay records": 1, "move a coordinator": 1, "lose answers of records": 1},
    # An admin cannot tell the transactions of an older client apart.
    habits=Habits(newer=1.0, gives_up=0.1, aborters=3, pauses_ms=(0, 0, 5)),
    levels=((2,),),
    slowest_ms=(0, 5, 40),
)
"""Admins abort transactions that seem to hang; their markers arrive when the producer's next one is open."""

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
        "lagging": cluster_workloads.LAGGING,
        "refusals": REFUSALS,
        "idempotent": IDEMPOTENT,
        "late-leaders": cluster_workloads.LATE_LEADERS,
        "repeated-markers": REPEATED_MARKERS,
        "successors": SUCCESSORS,
        "slow-markers": SLOW_MARKERS,
        "removed-leaders": cluster_workloads.REMOVED_LEADERS,
        "unnoticed-crashes": cluster_workloads.UNNOTICED_CRASHES,
        "killed-clusters": cluster_workloads.KILLED_CLUSTERS,
        "power-cuts": cluster_workloads.POWER_CUTS,
        "working": group_workloads.WORKING,
        "worn-epochs": WORN_EPOCHS,
        "forgotten-ids": FORGOTTEN_IDS,
        "fencing-admins": FENCING_ADMINS,
        "follow-ups": FOLLOW_UPS,
        "sessions": SESSIONS,
        "heartbeats": group_workloads.HEARTBEATS,
        "sharing": group_workloads.SHARING,
        "moving-shares": group_workloads.MOVING_SHARES,
        "dead-letters": group_workloads.DEAD_LETTERS,
        "share-work": group_workloads.SHARE_WORK,
        "remade-topics": REMADE,
        "deposed-coordinators": cluster_workloads.DEPOSED_COORDINATORS,
        "restless-leaders": cluster_workloads.RESTLESS_LEADERS,
        "late-offsets": LATE_OFFSETS,
        "hurried": HURRIED,
        "last-epochs": LAST_EPOCHS,
        "last-bumps": LAST_BUMPS,
        "lingering": LINGERING,
        "slow-logs": cluster_workloads.SLOW_LOGS,
        "rejoining": cluster_workloads.REJOINING,
        "late-proposals": cluster_workloads.LATE_PROPOSALS,
        "silent-replicas": cluster_workloads.SILENT_REPLICAS,
        "forgotten-producers": FORGOTTEN_PRODUCERS,
        "moving-work": group_workloads.MOVING_WORK,
        "silent-members": group_workloads.SILENT_MEMBERS,
        "static-members": group_workloads.STATIC_MEMBERS,
        "aborting-admins": ABORTING_ADMINS,
        "lookups": cluster_workloads.LOOKUPS,
        "set-clocks": cluster_workloads.SET_CLOCKS,
        "unreplicated-markers": cluster_workloads.UNREPLICATED_MARKERS,
        "crossing-offsets": group_workloads.CROSSING_OFFSETS,
        "days-ahead": group_workloads.DAYS_AHEAD,
    }
)
