"""One look at a cluster in its event loop, from which the sentences are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.control.state import running
from odradek.faults.armed import seen
from odradek.stuck.words import plain

if TYPE_CHECKING:
    from odradek.broker import Node
    from odradek.faults.armed import Armed, SeenRequest
    from odradek.net.cluster import RunningCluster
    from odradek.txn.entry import Entry

__all__ = ["Kept", "Scene", "shown"]

REQUEST_MAX = 200


def shown(request: SeenRequest) -> str:
    """A request as part of a sentence."""
    return plain(request, REQUEST_MAX)


class Kept(Struct, frozen=True):
    """A request that a rule holds, delays or drops."""

    armed: Armed
    how: str
    """held, delayed or dropped"""
    request: SeenRequest
    since_ms: int
    until_ms: int | None
    """The time at which it goes on by itself; None: never."""


class Scene:
    """A cluster at this moment, with the look-ups that several sentences need."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.cluster = cluster
        self.now = cluster.clock.now()
        self.nodes = {node.node_id: node for node in running(cluster)}
        self.rules: list[Armed] = list(cluster.rules) if cluster.has_rules else []
        self.kept: list[Kept] = sorted(self._kept(), key=lambda each: each.since_ms)
        self.entries: list[tuple[Node, Entry]] = [
            (node, entry)
            for node in self.nodes.values()
            for shard in node.transaction_coordinators.led()
            for entry in shard.machine.entries()
        ]
        self._by_producer = {entry.producer_id: (node, entry) for node, entry in self.entries}

    def holder_of(self, producer_id: int, topic: str, index: int) -> tuple[Node, Entry] | None:
        """The coordinator that knows the transaction of this producer in a partition, and its entry there."""
        found = self._by_producer.get(producer_id)
        return found if found is not None and (topic, index) in found[1].partitions else None

    def kept_of(self, entry: Entry) -> list[Kept]:
        """The requests about a transactional id, or its producer, that rules hold."""
        return [
            each
            for each in self.kept
            if entry.transactional_id in each.request.ids.get("transactional_id", ())
            or entry.producer_id in each.request.ids.get("producer_id", ())
        ]

    def _kept(self) -> list[Kept]:
        found = []
        for armed in self.rules:
            for held in armed.holding:
                found.append(Kept(armed, "held", held.request, held.request.at_ms, None))
            for each in armed.postponing:
                node = self.nodes.get(each.node_id)
                if node is not None:
                    until = node.kernel.deadline_of(each.wait)
                    how = "dropped" if until is None else "delayed"
                    found.append(Kept(armed, how, seen(node, each.call), each.since_ms, until))
        return found
