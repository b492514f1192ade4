"""Event files of simulated clusters, and events by hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.kips.cluster import Cluster
from tests.kips.producer import Producer
from tests.pictures import lines_of

from odradek.core.event_line import event_line

__all__ = ["line", "played", "started", "transacted", "written"]


def started(topics: Iterable[str] = ("t:1",), *, seed: int = 0, brokers: int = 2) -> Cluster:
    """A cluster whose brokers have heard of the metadata that they start with."""
    cluster = Cluster(2, brokers=brokers, topics=topics, delay_ms=(1, 1), seed=seed)
    cluster.world.run_until(lambda: False, within_ms=100)
    return cluster


def transacted(cluster: Cluster, producer: Producer, *, commit: bool = True) -> None:
    """A transaction of one record, from its begin to its last marker."""
    producer.transact(("t", 0), outcome=commit)
    ended = "CompleteCommit" if commit else "CompleteAbort"
    assert cluster.world.run_until(lambda: cluster.state(producer.tid) == ended, within_ms=1_000)


def played(tids: Iterable[str] = ("x",), *, seed: int = 0, commits: Iterable[bool] = (True,)) -> list[bytes]:
    """The lines of a run in which each id does these transactions, one id after the other."""
    cluster = started(seed=seed)
    for tid in tids:
        producer = Producer.started(cluster, tid=tid)
        for commit in commits:
            transacted(cluster, producer, commit=commit)
    return lines_of(cluster)


def written(path: Path, lines: Iterable[bytes]) -> Path:
    """An event file of these lines."""
    path.write_bytes(b"".join(each + b"\n" for each in lines))
    return path


def line(seq: int, kind: str = "feature_changed", node: int = 1, **fields: Any) -> bytes:
    """One event by hand, a millisecond behind the one before."""
    return event_line({"ts_ns": seq, "wall_ns": seq * 1_000_000, "seq": seq, "node": node, "kind": kind, **fields})
