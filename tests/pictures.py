"""Makes the pictures of README and docs: `make pictures`.

The cluster of a transaction is simulated, so that its picture is the same each time.
"""

from __future__ import annotations

from pathlib import Path

from tests.kips.cluster import Cluster
from tests.kips.producer import Producer

from odradek.core.event_line import event_line
from odradek.show.events import Event, event_of
from odradek.show.history import history_of
from odradek.show.svg import drawn
from odradek.show.transaction import of_transaction

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
    return drawn(of_transaction(history_of(events_of(cluster)), TILL))


def lines_of(cluster: Cluster) -> list[bytes]:
    """The lines of an event file of these brokers; a nanosecond lies between two events."""
    return [
        event_line(
            {"ts_ns": at, "wall_ns": at, "seq": at + 1, "node": node, "kind": fact.kind, **fact.fields, **fact.body}
        )
        for at, (node, fact) in enumerate(cluster.world.facts)
    ]


def events_of(cluster: Cluster) -> list[Event]:
    """The same as events."""
    events = map(event_of, lines_of(cluster))
    return [event for event in events if event is not None]


def main() -> None:
    """Write them; those of the page where there is a browser."""
    from tests.page.pictures import draw

    TRANSACTION.write_text(transaction(), encoding="utf-8")
    for path in (TRANSACTION, *draw(PICTURES)):
        print(path)


if __name__ == "__main__":
    main()
