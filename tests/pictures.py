"""Makes the pictures of the README: `make pictures`. The cluster is simulated, so a picture is the same each time."""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.kips.cluster import Cluster
from tests.kips.producer import Producer

from odradek.show.events import Event
from odradek.show.sequence import sequence_of
from odradek.show.svg import drawn

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
TRANSACTION = PICTURES / "transaction.svg"
TILL = "till-1"
PAYMENTS = ("payments", 0)
LEADER, COORDINATOR = 1, 2
PATIENCE_MS = 1_000


def transaction() -> str:
    """One committed transaction at level 2, whose leader and coordinator are two brokers."""
    cluster = Cluster(2, brokers=2, topics=["payments:1"], delay_ms=(1, 1))
    cluster.move(PAYMENTS, to=LEADER)
    cluster.move(cluster.log_of(TILL), to=COORDINATOR)
    cluster.world.run_until(lambda: cluster.coordinator(TILL) == COORDINATOR, within_ms=PATIENCE_MS)
    cluster.world.run_until(lambda: False, within_ms=PATIENCE_MS)
    producer = Producer.started(cluster, tid=TILL)
    producer.transact(PAYMENTS)
    cluster.world.run_until(lambda: cluster.state(TILL) == "CompleteCommit", within_ms=PATIENCE_MS)
    return drawn(sequence_of(events_of(cluster), TILL))


def events_of(cluster: Cluster) -> list[Event]:
    """What an event file of these brokers would say; a nanosecond lies between two events."""
    return [
        msgspec.convert({"wall_ns": at, "node": node, "kind": fact.kind, **fact.fields}, Event)
        for at, (node, fact) in enumerate(cluster.world.facts)
    ]


def main() -> None:
    """Write them."""
    TRANSACTION.write_text(transaction(), encoding="utf-8")
    print(TRANSACTION)


if __name__ == "__main__":
    main()
