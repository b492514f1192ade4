"""One look at a running cluster: what is open, who knows of it, and what could not be asked.

The order of the questions is what makes an answer mean something. A transaction that is open in its partition, then
unknown to every coordinator, then still open there, hangs: coordinators know of a transaction before its first record
is written, and forget it only behind its last marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odradek_pipeline.logs.layout import TRANSACTION_STATE
from odradek_pipeline.watch.brokers import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Brokers,
    Layout,
    OpenProducer,
    Partition,
    UnderWay,
)
from odradek_pipeline.watch.rights import hides_transactions

__all__ = ["Look", "is_known", "take_look"]

REFUSED_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Look:
    """What one look has seen."""

    at_ms: int
    layout: Layout
    wanted: frozenset[Partition]
    high: Mapping[Partition, int]
    stable: Mapping[Partition, int]
    opened: tuple[OpenProducer, ...]
    """Who has transactions open behind the last stable offsets."""
    unknown: tuple[OpenProducer, ...]
    """Those of them that no coordinator knows, and that were still open when all had been asked."""
    told: frozenset[Partition]
    """The partitions of which that is known, to the end."""
    under_way: tuple[UnderWay, ...]
    doubts: str
    """Why coordinators may have more under way than they said; empty where there is no doubt."""
    away: Mapping[str, str]

    @property
    def behind(self) -> list[Partition]:
        """The partitions whose last stable offset is not their end."""
        return [at for at, stable in self.stable.items() if self.high.get(at, -1) > stable]

    @property
    def unseen(self) -> list[Partition]:
        """The partitions that nobody spoke for, or only in part."""
        behind = set(self.behind)
        return sorted(
            at
            for at in self.wanted
            if at not in self.high or at not in self.stable or (at in behind and at not in self.told)
        )

    @property
    def is_whole(self) -> bool:
        """Whether everything was looked at."""
        return not self.unseen and not self.doubts and bool(self.layout.addresses)

    def holder(self, at: Partition) -> OpenProducer | None:
        """Whose transaction keeps the last stable offset of a partition where it is."""
        return min((one for one in self.opened if one.at == at), key=lambda one: one.start_offset, default=None)


def is_known(opened: OpenProducer, under_way: Iterable[UnderWay]) -> bool:
    """Whether a coordinator has this transaction under way, in this partition."""
    return any(one.producer_id == opened.producer_id and opened.at in one.partitions for one in under_way)


def take_look(brokers: Brokers, at_ms: int, topics: frozenset[str] = frozenset()) -> Look | None:
    """A look; None where nobody answers. `topics` empty means all; coordinators are asked of all in any case."""
    if not brokers.begin():
        return None
    before = brokers.layout
    wanted = frozenset(at for at in before.leaders if not topics or at[0] in topics)
    high = brokers.ends(READ_UNCOMMITTED, wanted)
    # Asked later, so that a difference was there at one time.
    stable = brokers.ends(READ_COMMITTED, wanted)
    behind = [at for at, end in high.items() if at in stable and stable[at] < end]
    opened, told = brokers.producers(behind)
    under_way, doubts = brokers.under_way()
    by_producer: dict[int, list[UnderWay]] = {}
    for transaction in under_way:
        by_producer.setdefault(transaction.producer_id, []).append(transaction)
    unknown = [one for one in opened if not is_known(one, by_producer.get(one.producer_id, ()))]
    if unknown:
        at_last, told_at_last = brokers.producers({one.at for one in unknown})
        still = {one.identity for one in at_last}
        told -= {one.at for one in unknown} - told_at_last
        ended = {one.identity for one in unknown} - still
        opened = [one for one in opened if one.identity not in ended]
        unknown = [one for one in unknown if one.identity in still]
        brokers.refresh()
        if not doubts and hides_transactions(brokers):
            doubts = "coordinators hide transactions: DESCRIBE on all transactional ids is missing"
    doubts = doubts or _moved(before, brokers.layout) or _refused(brokers.refused)
    return Look(
        at_ms,
        before,
        wanted,
        high,
        stable,
        tuple(opened),
        tuple(unknown),
        frozenset(told),
        tuple(under_way),
        doubts,
        dict(brokers.away),
    )


def _refused(refused: Mapping[str, str]) -> str:
    return ", ".join(f"{error} for {what}" for what, error in list(refused.items())[:REFUSED_SHOWN])


def _moved(before: Layout, after: Layout) -> str:
    """Coordinators that moved while they were asked may not have been asked at all."""
    coordinators = before.of_topic(TRANSACTION_STATE)
    if any(leader < 0 for leader, _ in coordinators.values()):
        return f"a partition of {TRANSACTION_STATE} has no leader"
    if coordinators != after.of_topic(TRANSACTION_STATE):
        return f"leaders of {TRANSACTION_STATE} moved meanwhile"
    return ""
