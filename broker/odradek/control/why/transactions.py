"""Open and ending transactions, and the partitions whose last stable offset they hold back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.control.messages.why import Holder, Reason, Remedy
from odradek.control.why.remedies import advance, of_kept
from odradek.control.why.scene import Kept, Scene
from odradek.core.internal_topics import INTERNAL_TOPICS
from odradek.core.machine import Refused
from odradek.stuck.sentences import (
    MARKER_UNREPLICATED,
    OpenTransaction,
    consumers_stop,
    ends_by_itself,
    hangs_there,
    is_not_at_rest,
    marker_is_missing,
    markers_in,
    open_there,
)
from odradek.stuck.words import plain
from odradek.txn.entry import NONE
from odradek.txn.states import PREPARED, RESTING

if TYPE_CHECKING:
    from odradek.broker import Node
    from odradek.log.partition import Partition
    from odradek.txn.entry import Entry

__all__ = ["lagging_partitions", "open_transactions"]

OPERATOR = "kafka-transactions abort, or its transactional id begins anew"


def open_transactions(scene: Scene) -> Iterator[Reason]:
    """Every transaction that is open or ending, the oldest first."""
    found = [(node, entry) for node, entry in scene.entries if entry.state not in RESTING]
    for node, entry in sorted(found, key=lambda each: _since(each[1])):
        of, kept, owed = _facts(node, entry), scene.kept_of(entry), markers_in(_owing(node, entry))
        sentence = is_not_at_rest(of, node.node_id, scene.now, owed=owed, by_rules=_by_rules(kept))
        ends = None if owed and of.ends else ends_by_itself(of, scene.now)
        yield Reason(
            about="transaction",
            name=entry.transactional_id,
            sentence=sentence,
            stuck=True,
            since_ms=of.since_ms,
            held_by=_rules(kept),
            ends=ends,
            remedies=[*of_kept(kept, scene.now), *advance(of.aborted_at_ms, scene.now)],
        )


def _facts(node: Node, entry: Entry) -> OpenTransaction:
    return OpenTransaction(
        transactional_id=entry.transactional_id,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        state=entry.state.title,
        ends=entry.state in PREPARED,
        since_ms=_since(entry),
        aborted_at_ms=aborted_at(node, entry),
        partitions=tuple(f"{topic}-{index}" for topic, index in entry.partitions),
    )


def _since(entry: Entry) -> int:
    """Since when the transaction is open (ms); if it has no start, since when it is in its state."""
    return entry.last_update_timestamp if entry.start_timestamp == NONE else entry.start_timestamp


def aborted_at(node: Node, entry: Entry) -> int | None:
    """When the coordinator aborts an open transaction (ms); None if it does not."""
    shard = node.transaction_coordinators.of(entry.transactional_id)
    return None if isinstance(shard, Refused) else shard.machine.aborted_at(entry.transactional_id)


def _owing(node: Node, entry: Entry) -> list[str]:
    """The partitions without their marker."""
    shard = node.transaction_coordinators.of(entry.transactional_id)
    owing = () if isinstance(shard, Refused) else shard.machine.owing(entry.transactional_id)
    return [f"{topic}-{index}" for topic, index in owing]


def _by_rules(kept: list[Kept]) -> str:
    """The requests about the transaction that rules hold, in words."""
    said = [f"its {each.request.api} is {each.how} by rule {plain(each.armed.name)}" for each in kept[:3]]
    return ", ".join(dict.fromkeys(said))


def _rules(kept: list[Kept]) -> list[Holder]:
    return [Holder(about="rule", name=name) for name in dict.fromkeys(each.armed.name for each in kept)]


def lagging_partitions(scene: Scene) -> Iterator[Reason]:
    """Every partition whose last stable offset is below its high watermark, by name."""
    led = {
        partition.key: (node, partition)
        for node in scene.nodes.values()
        for partition in node.partitions.values()
        if partition.is_leader and partition.topic not in INTERNAL_TOPICS
    }
    for _, (node, partition) in sorted(led.items()):
        if partition.last_stable_offset < partition.high_watermark:
            yield _lagging(scene, node, partition)


def _lagging(scene: Scene, node: Node, partition: Partition) -> Reason:
    name = f"{partition.topic}-{partition.index}"
    why, since, holders, ends, remedies = _holding_back(scene, partition)
    sentence = consumers_stop(name, partition.last_stable_offset, partition.high_watermark, why)
    return Reason(
        about="partition",
        name=name,
        sentence=sentence,
        stuck=True,
        since_ms=since,
        held_by=holders,
        ends=ends,
        remedies=remedies,
    )


def _holding_back(scene: Scene, partition: Partition) -> tuple[str, int | None, list[Holder], str | None, list[Remedy]]:
    """Why the last stable offset does not advance, since when, what ends it, and the calls that do."""
    state, at = partition.producers, partition.last_stable_offset
    first = min(state.ongoing, default=None)
    ended = next((each for each in state.unreplicated if each.first_offset == at), None)
    if first is None or (ended is not None and first > at):
        return MARKER_UNREPLICATED, None, [], "the replicas in sync acknowledge the marker", []
    producer_id = state.ongoing[first]
    found = scene.holder_of(producer_id, partition.topic, partition.index)
    if found is None:
        return hangs_there(producer_id), None, [Holder(about="producer", name=str(producer_id))], OPERATOR, []
    node, entry = found
    of, kept = _facts(node, entry), scene.kept_of(entry)
    holders = [Holder(about="transaction", name=entry.transactional_id), *_rules(kept)]
    remedies = of_kept(kept, scene.now)
    if of.ends:
        why = marker_is_missing(of, by_rules=_by_rules(kept))
        return why, of.since_ms, holders, "its marker is written", remedies
    newest = state.producers[producer_id].last_timestamp
    why = open_there(of, scene.now, newest_ms=newest, by_rules=_by_rules(kept))
    remedies += advance(of.aborted_at_ms, scene.now)
    return why, of.since_ms, holders, ends_by_itself(of, scene.now), remedies
