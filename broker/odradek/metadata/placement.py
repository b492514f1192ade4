"""Which brokers are to hold a partition, and which of them leads it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Protocol

from odradek.metadata.image import NO_LEADER, BrokerImage, MetadataImage

__all__ = ["Rng", "elect", "in_sync", "place", "random_id"]

_DASH = 62
"""The first six bits of an id whose text begins with a dash."""


class Rng(Protocol):
    """Where random numbers come from: the node's seeded generator."""

    def randrange(self, stop: int, /) -> int: ...
    def getrandbits(self, k: int, /) -> int: ...


def random_id(rng: Rng) -> bytes:
    """A version 4 UUID; Kafka's `Uuid.randomUuid` avoids texts that a command line would take for an option."""
    while True:
        drawn = bytearray(rng.getrandbits(128).to_bytes(16, "big"))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        if drawn[0] >> 2 != _DASH:
            return bytes(drawn)


def place(brokers: Iterable[BrokerImage], *, partitions: int, replicas: int, rng: Rng) -> list[list[int]]:
    """Replica lists, the leader first: leaders and followers go around the brokers, racks in turn.

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
    placed = []
    for index in range(partitions):
        moved = 0 if shift is None else shift + index // len(alive)
        if replicas == 1:
            placed.append([alive[(start + index) % len(alive)]])
        else:
            placed.append((_stripe(alive, start + index, moved) + fenced)[:replicas])
    return placed


def in_sync(replicas: Iterable[int], image: MetadataImage) -> list[int]:
    """The replicas whose broker is there: with one durable copy of the log they all have everything."""
    return [replica for replica in replicas if image.is_alive(replica)]


def elect(replicas: Iterable[int], image: MetadataImage) -> int:
    """The first replica whose broker is there, or `NO_LEADER`."""
    return next(iter(in_sync(replicas, image)), NO_LEADER)


def _by_rack(brokers: Sequence[BrokerImage]) -> list[int]:
    racks: dict[str | None, list[int]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack, []).append(broker.id)
    rounds = zip_longest(*racks.values())
    return [broker_id for one_of_each in rounds for broker_id in one_of_each if broker_id is not None]


def _stripe(brokers: list[int], first: int, shift: int) -> list[int]:
    """All brokers, from the first on; the shift changes who follows whom from one round to the next."""
    count = len(brokers)
    lead = first % count
    rest = [brokers[(lead + 1 + (shift + step) % (count - 1)) % count] for step in range(count - 1)]
    return [brokers[lead], *rest]
