"""Workloads about brokers: leadership, replicas, the spread of metadata, and clocks."""

from __future__ import annotations

from odradek.sim.workloads.focus import focus
from odradek.sim.workloads.habits import Habits

__all__ = [
    "DEPOSED_COORDINATORS",
    "KILLED_CLUSTERS",
    "LAGGING",
    "LATE_LEADERS",
    "LATE_PROPOSALS",
    "LOOKUPS",
    "POWER_CUTS",
    "REJOINING",
    "REMOVED_LEADERS",
    "RESTLESS_LEADERS",
    "SET_CLOCKS",
    "SILENT_REPLICAS",
    "SLOW_LOGS",
    "UNNOTICED_CRASHES",
    "UNREPLICATED_MARKERS",
]

LAGGING = focus(
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
"""Replicas lag and fall out of sync, and leaders die with records that no other replica has."""

UNREPLICATED_MARKERS = focus(
    {"change a lag": 3, "move a leader": 8},
    habits=Habits(gives_up=0.1, workers=0, pauses_ms=(0, 0, 5)),
    slowest_ms=(0, 5),
    # A leader writes a snapshot of its producers at the end of a segment, and the next leader starts from it.
    segments_ms=(40,),
    gaps_ms=(20, 150),
)
"""Leaders with short segments are replaced while replicas lack the markers of transactions that just ended."""

LATE_LEADERS = focus(
    {"delay verdicts": 6, "move a leader": 6, "deafen a broker": 2, "pause a broker": 2},
    habits=Habits(newer=0.4, gives_up=0.1),
    slowest_ms=(0, 5, 40),
)
"""A leader is replaced while records wait for their coordinator's verdict, or without learning of it."""

REMOVED_LEADERS = focus(
    {"deafen a broker": 5, "remove a broker": 4, "return a broker": 5, "move a coordinator": 1},
    habits=Habits(gives_up=0.1),
)
"""The controller holds leaders for dead, and they go on until they learn of it."""

DEPOSED_COORDINATORS = focus(
    {"deafen a broker": 6, "move a coordinator": 6, "delay acknowledgements": 6, "delay markers": 2},
    habits=Habits(newer=0.5, gives_up=0.1, gives_up_offsets=0.1),
    slowest_ms=(0, 5, 40),
)
"""Coordinators are replaced, without learning of it, while their markers are in flight."""

RESTLESS_LEADERS = focus(
    {"move a leader": 12, "move a coordinator": 6, "delay verdicts": 2, "delay markers": 2},
    habits=Habits(gives_up=0.1),
    slowest_ms=(40, 120, 400),
)
"""Leaders are replaced again before all brokers know of them."""

SLOW_LOGS = focus(
    {"change a lag": 6, "delay records": 1},
    habits=Habits(
        lingers=0.4, pauses_ms=(0, 50, 400, 600), timeout_ms=1_500, expires_ms=400, gives_up=0.1, recovers=0.5
    ),
    slowest_ms=(0, 5, 40),
    min_insync=(1, 2),
)
"""Decisions of coordinators are not replicated yet when a transaction times out, or an id expires."""

REJOINING = focus(
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
"""Replicas are in sync again before their leader knows, and become leaders before they have all records."""

LATE_PROPOSALS = focus(
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
"""A leader's proposal for its replicas arrives after the controller has changed them."""

SILENT_REPLICAS = focus(
    {"silence a replica": 1},
    habits=Habits(gives_up=0.0),
    slowest_ms=(0, 5, 40),
    gaps_ms=(300, 2_500),
)
"""Replicas acknowledge nothing for a while, without other faults."""

UNNOTICED_CRASHES = focus(
    {
        "crash a broker unnoticed": 6,
        "restart a broker": 6,
        "move a leader": 1,
        "move a coordinator": 1,
        "delay verdicts": 1,
        "delay markers": 2,
    },
    habits=Habits(looks_up=0.5, gives_up=0.1),
    slowest_ms=(0, 5, 40),
    min_insync=(1, 2),
)
"""Brokers die, and clients and other brokers are sent to them until it is noticed."""

_BESIDE = {
    "crash a broker": 1,
    "restart a broker": 3,
    "move a leader": 2,
    "move a coordinator": 2,
    "delay verdicts": 1,
    "delay markers": 2,
}
"""Faults beside the end of all brokers."""

KILLED_CLUSTERS = focus(
    {"kill all brokers": 6, **_BESIDE},
    habits=Habits(gives_up=0.1),
    slowest_ms=(0, 5, 40),
    segments_ms=(0, 40, 300),
    disk="unsynced",
)
"""The processes of all brokers are killed, and others go on with their files."""

POWER_CUTS = focus(
    {"cut the power": 6, **_BESIDE},
    habits=Habits(gives_up=0.1),
    slowest_ms=(0, 5, 40),
    segments_ms=(0, 40, 300),
    disk="synced",
)
"""The machine loses its power, and with it what was not synced; everything was before it was acknowledged."""

LOOKUPS = focus(
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
"""Clients look up leaders at brokers that lag, and use the answers until a broker refuses."""

SET_CLOCKS = focus(
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
    # A marker request that timed out on such a clock is sent again; KIP-890 protects only newer clients from it.
    habits=Habits(timeout_ms=1_500, lingers=0.2, gives_up=0.1, newer=1.0),
    levels=((2,),),
    slowest_ms=(0, 5, 40),
)
"""The clocks of brokers are set ahead and back: transactions time out early, and on one broker's clock only."""
