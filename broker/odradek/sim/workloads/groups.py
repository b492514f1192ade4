"""Workloads about groups: consume-transform-produce, share groups, and committed offsets."""

from __future__ import annotations

from odradek.sim.workloads.focus import focus
from odradek.sim.workloads.habits import Habits

__all__ = [
    "CROSSING_OFFSETS",
    "DAYS_AHEAD",
    "DEAD_LETTERS",
    "HEARTBEATS",
    "MOVING_SHARES",
    "MOVING_WORK",
    "SHARE_WORK",
    "SHARING",
    "SILENT_MEMBERS",
    "STATIC_MEMBERS",
    "WORKING",
]

WORKING = focus(
    {"delay markers": 6, "lose answers": 1, "move a coordinator": 3},
    habits=Habits(workers=5, newer=0.5, gives_up=0.0, dies=0.1),
    slowest_ms=(0, 5, 40),
)
"""Work moves from one member of a group to the next while the offset of the former is undecided."""

HEARTBEATS = focus(
    {"delay markers": 6, "lose answers": 1, "move a coordinator": 1},
    habits=Habits(workers=5, newer=0.5, gives_up=0.0, dies=0.1, heartbeats=True),
    slowest_ms=(0, 5, 40),
)
"""As `working`, in the newer protocol (KIP-848), in which member epochs fence the offsets of former members."""

SHARING = focus(
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
"""Members of a share group (KIP-932) acquire records, and acknowledge them or not, or die."""

MOVING_SHARES = focus(
    {"delay states": 8, "move a leader": 6, "delay markers": 1},
    habits=Habits(sharers=3, dawdles=0.6, commits=0.8, workers=0, ids=2, pauses_ms=(50, 200)),
    slowest_ms=(0, 5, 40),
)
"""State writes of share partitions arrive when other leaders have already delivered the records again."""

DEAD_LETTERS = focus(
    {
        "delay records": 3,
        "delay states": 3,
        "move a leader": 4,
        "crash a broker": 1,
        "restart a broker": 2,
        "delay markers": 1,
    },
    habits=Habits(sharers=3, dawdles=0.4, rejects=0.3, commits=0.8, workers=0),
    slowest_ms=(0, 5, 40),
)
"""Records of a share group go to its dead letter queue while leaders of both topics move (KIP-1191)."""

SHARE_WORK = focus(
    {
        "delay states": 3,
        "delay markers": 3,
        "delay records": 1,
        "move a leader": 4,
        "move a coordinator": 2,
        "lose answers": 2,
        "delay verdicts": 1,
        "crash a broker": 1,
        "restart a broker": 3,
    },
    habits=Habits(share_workers=3, commits=0.8, workers=0, ids=2, pauses_ms=(50, 200)),
    # A broker adds nothing to transactions at level 0.
    levels=((2,), (1,), (1, 2)),
    slowest_ms=(0, 5, 40),
    dialect="kip-1289",
)
"""Members of a share group copy records, and acknowledge them in the same transaction (KIP-1289)."""

MOVING_WORK = focus(
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
"""As `heartbeats`: a new member takes the work of another one, which stays, and silent members are removed."""

SILENT_MEMBERS = focus(
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
"""As `working`, with members that vanish for longer than their session, and few rebalances."""

STATIC_MEMBERS = focus(
    {"delay markers": 4, "lose answers": 1, "move a coordinator": 1},
    habits=Habits(workers=4, newer=0.5, gives_up=0.0, rejoins=0.03, shares_names=True, pauses_ms=(0, 200, 600)),
    slowest_ms=(0, 5, 40),
)
"""Static members (KIP-345) start while another process has their name and goes on with its transaction."""

CROSSING_OFFSETS = focus(
    {"delay markers": 3, "delay records": 1, "lose answers": 2, "move a coordinator": 2},
    habits=Habits(
        newer=0.5,
        ids=7,
        gives_up=0.1,
        workers=0,
        shared_groups=3,
        committers=3,
        rests_ms=(0, 20, 100, 300),
    ),
    slowest_ms=(0, 5, 40),
    segments_ms=(0, 300),
)
"""Offsets of a group are committed, with transactions and without, while other transactions hold some."""

DAYS_AHEAD = focus(
    {"set a clock days ahead": 3, "delay records": 1, "delay verdicts": 1},
    # A marker request that timed out on such a clock is sent again; KIP-890 protects only newer clients from it.
    habits=Habits(
        newer=1.0,
        gives_up=0.1,
        workers=0,
        shared_groups=3,
        committers=2,
        fresh_groups=True,
        rests_ms=(0, 100, 300, 600),
        pauses_ms=(0, 5, 50),
    ),
    levels=((2,),),
    slowest_ms=(0, 5, 40),
    gaps_ms=(300, 1_500),
)
"""The clocks of brokers are set days ahead, so that offsets expire, while transactions hold some that must stay."""
