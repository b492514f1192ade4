"""Histories to export: of a simulated cluster, and with names that mean no good."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.kips.cluster import Cluster
from tests.kips.producer import Producer
from tests.pictures import events_of

from odradek.show.history import History, Lane, Step, history_of

__all__ = ["HOSTILE", "hostile_texts", "named", "two_transactions"]

HOSTILE = '</text><script>alert("1")</script>;#end\n'
TOKENS = (
    *";#<>\"'`\\:%&{}[]()|$*_-+=~^@!?/., \t\n\r\0\x1b\x7f\x85\u2028\u2029\u202e\ufeff",
    "end",
    "loop",
    "%%",
    "%%{init: {}}%%",
    "wrap:",
    ":nowrap:",
    "participant",
    "as",
    "->>",
    "--x",
    "Note over L0:",
    "---",
    "$$x$$",
    "<br/>",
    "&lt;",
    "#59;",
    "sequenceDiagram",
    "ümläut",
    "日本",
    "😀",
    "x",
    "1",
)
"""What has a meaning to some parser, and what has none."""


def hostile_texts(count: int = 100) -> list[str]:
    """Each token by itself and in a word, and others drawn from all of them."""
    random = Random(1)
    drawn = ["".join(random.choices(TOKENS, k=random.randint(2, 6))) for _ in range(count)]
    return [HOSTILE, "", *TOKENS, *(f"a{token}b" for token in TOKENS), *drawn]


def named(text: str) -> History:
    """A history in which a client, a topic and an error are called so."""
    lanes = (
        Lane(key=f"client:{text}", kind="client", name=text, about=text),
        Lane(key="broker:1", kind="broker", name="broker 1"),
    )
    told: dict[str, Any] = {"node": 1, "transactional_id": text, "fields": {"client_id": text, "topic": text}}
    return History(
        title=text,
        lanes=lanes,
        steps=(
            Step(seq=1, at_ms=0.0, kind="request", source=0, target=1, text=text, **told),
            Step(seq=2, at_ms=1.0, kind="parked", source=1, target=1, text=text, **told),
            Step(seq=3, at_ms=2.0, kind="response", source=1, target=0, text=text, answer_to=1, error=text, **told),
        ),
        transactions=(text,),
        events=3,
    )


def two_transactions() -> History:
    """What two brokers tell of two producers that write to one partition, one commits and one aborts."""
    cluster = Cluster(2, brokers=2, topics=["t:1"], delay_ms=(1, 1))
    cluster.world.run_until(lambda: False, within_ms=100)
    for name, commits in (("x", True), ("y", False)):
        Producer.started(cluster, tid=name).transact(("t", 0), outcome=commits)
        ended = "CompleteCommit" if commits else "CompleteAbort"
        assert cluster.world.run_until(lambda name=name, ended=ended: cluster.state(name) == ended, within_ms=1_000)  # type: ignore[misc]
    return history_of(events_of(cluster))
