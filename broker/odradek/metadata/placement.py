"""The placement of new partitions: their replicas and leaders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from odradek.metadata.change import MadeWhenRead
from odradek.metadata.image import NO_LEADER, BrokerImage, MetadataImage

if TYPE_CHECKING:
    from odradek.core.clock import Rng

__all__ = ["Placement", "elect", "in_sync", "place", "random_id"]

_DASH = 62
"""The first six bits of an id whose text begins with a dash."""


def random_id(rng: Rng) -> bytes:
    """A version 4 UUID; Kafka's `Uuid.randomUuid` avoids texts that a command line would take for an option."""
    while True:
        drawn = bytearray(rng.getrandbits(128).to_bytes(16, "big"))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        if drawn[0] >> 2 != _DASH:
            return bytes(drawn)


class Placement(MadeWhenRead[list[int]]):
    """Replica lists, the leader first: leaders and followers go around the brokers, racks in turn."""

    def __init__(
        self, alive: list[int], fenced: list[int], *, partitions: int, replicas: int, start: int, shift: int | None
    ) -> None:
        self._alive, self._fenced, self._replicas = alive, fenced, replicas
        self._partitions = partitions
        self._start, self._shift = start, shift

    def __len__(self) -> int:
        return self._partitions

    def _made(self, index: int) -> list[int]:
        alive = self._alive
        if self._replicas == 1:
            return [alive[(self._start + index) % len(alive)]]
        moved = 0 if self._shift is None else self._shift + index // len(alive)
        return (_stripe(alive, self._start + index, moved) + self._fenced)[: self._replicas]


def place(brokers: Iterable[BrokerImage], *, partitions: int, replicas: int, rng: Rng) -> Placement:
    """A placement of new partitions.

    A fenced broker gets a replica only if there are too few others, and never leads.
    """
    ordered = sorted(brokers, key=lambda broker: broker.id)
    alive = _by_rack([broker for broker in ordered if not broker.fenced])
    fenced = [broker.id for broker in ordered if broker.fenced]
    assert 0 < replicas <= len(alive) + len(fenced), "the caller has checked the replication factor"
    assert alive, "the caller has checked that a broker is there to lead"
    start = rng.randrange(len(alive))
    # With racks the order itself keeps neighbours apart; without, followers are shifted from round to round.
    shift = rng.randrange(len(alive)) if len({broker.rack for broker in ordered}) == 1 else None
    return Placement(alive, fenced, partitions=partitions, replicas=replicas, start=start, shift=shift)


def in_sync(replicas: Iterable[int], image: MetadataImage) -> list[int]:
    """The replicas whose broker is available: with one durable copy of the log they all have everything."""
    return [replica for replica in replicas if image.is_alive(replica)]


def elect(replicas: Iterable[int], image: MetadataImage) -> int:
    """The first replica whose broker is available, or `NO_LEADER`."""
    return next(iter(in_sync(replicas, image)), NO_LEADER)


def _by_rack(brokers: Sequence[BrokerImage]) -> list[int]:
    racks: dict[str | None, list[int]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack, []).append(broker.id)
    rounds = zip_longest(*racks.values())
    return [broker_id for one_of_each in rounds for broker_id in one_of_each if broker_id is not None]


def _stripe(brokers: list[int], first: int, shift: int) -> list[int]:
    """All brokers, from the first on; the shift changes the order of followers from one round to the next."""
    count = len(brokers)
    lead = first % count
    rest = [brokers[(lead + 1 + (shift + step) % (count - 1)) % count] for step in range(count - 1)]
    return [brokers[lead], *rest]
