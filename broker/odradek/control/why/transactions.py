"""Transactions that are not at rest, and the partitions whose last stable offset they hold back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.control.messages.why import Holder, Reason, Remedy
from odradek.control.why.remedies import advance, of_kept
from odradek.control.why.scene import Kept, Scene
from odradek.control.why.words import ago, clock, in_time, listed, plain
from odradek.log.machine import Refused
from odradek.node.coordinators import INTERNAL_TOPICS
from odradek.txn.entry import NONE
from odradek.txn.states import PREPARED, RESTING

if TYPE_CHECKING:
    from odradek.log.partition import Partition
    from odradek.node.node import Node
    from odradek.txn.entry import Entry

__all__ = ["lagging_partitions", "open_transactions"]

OPERATOR = "kafka-transactions abort, or its transactional id begins anew"


def open_transactions(scene: Scene) -> Iterator[Reason]:
    """Every transaction that is open or ending, the oldest first."""
    found = [(node, entry) for node, entry in scene.entries if entry.state not in RESTING]
    for node, entry in sorted(found, key=lambda each: _since(each[1])):
        kept, at = scene.kept_of(entry), aborted_at(node, entry)
        by_rules = _by_rules(kept)
        what = f"Transaction {plain(entry.transactional_id)} is {entry.state.title} for "
        what += f"{ago(scene.now - _since(entry))} at broker {node.node_id}"
        what += f" (producer {entry.producer_id}, epoch {entry.producer_epoch}{_at_partitions(entry)})"
        owed = _owed(node, entry)
        ends = _ends(entry, at, scene.now, owed)
        parts = [part for part in (f"it waits for {owed}" if owed else "", by_rules, ends) if part]
        yield Reason(
            about="transaction",
            name=entry.transactional_id,
            sentence=f"{what}: {'; '.join(parts)}.",
            stuck=True,
            since_ms=_since(entry),
            held_by=_rules(kept),
            ends=ends or None,
            remedies=[*of_kept(kept, scene.now), *advance(at, scene.now)],
        )


def _since(entry: Entry) -> int:
    """Since when it is open (ms); of one that has no beginning, since when it is what it is."""
    return entry.last_update_timestamp if entry.start_timestamp == NONE else entry.start_timestamp


def _at_partitions(entry: Entry) -> str:
    names = [f"{topic}-{index}" for topic, index in entry.partitions]
    return f", {listed(names)}" if names else ", no partition yet"


def aborted_at(node: Node, entry: Entry) -> int | None:
    """When the coordinator aborts an open transaction (ms); None where it does not."""
    shard = node.coordinators.transactional(entry.transactional_id)
    return None if isinstance(shard, Refused) else shard.machine.aborted_at(entry.transactional_id)


def _owed(node: Node, entry: Entry) -> str:
    """The markers that are missing, in words; nothing if none is."""
    shard = node.coordinators.transactional(entry.transactional_id)
    owing = () if isinstance(shard, Refused) else shard.machine.owing(entry.transactional_id)
    return f"its marker in {listed([f'{topic}-{index}' for topic, index in owing])}" if owing else ""


def _ends(entry: Entry, at: int | None, now: int, owed: str) -> str:
    if entry.state in PREPARED:
        return "" if owed else "its last record is being written"
    if at is None:
        return "it has no timeout, so that its producer alone ends it"
    return f"if its producer does not end it, the coordinator aborts it {in_time(at, now)}"


def _by_rules(kept: list[Kept]) -> str:
    """Which requests about it wait because of which rules, in words."""
    said = [f"its {each.request.api} is {each.how} by rule {plain(each.armed.name)}" for each in kept[:3]]
    return ", ".join(dict.fromkeys(said))


def _rules(kept: list[Kept]) -> list[Holder]:
    return [Holder(about="rule", name=name) for name in dict.fromkeys(each.armed.name for each in kept)]


# ---------------------------------------------------------------------- partitions


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
    at, until = partition.last_stable_offset, partition.high_watermark
    why, since, holders, ends, remedies = _holding_back(scene, partition)
    sentence = f"Consumers (read_committed) of {plain(name)} stop at offset {at} of {until}: {why}."
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
    """What keeps the last stable offset where it is: in words, since when, who, what ends it, and which calls do."""
    state, at = partition.producers, partition.last_stable_offset
    first = min(state.ongoing, default=None)
    ended = next((each for each in state.unreplicated if each.first_offset == at), None)
    if first is None or (ended is not None and first > at):
        ends = "the replicas in sync acknowledge the marker"
        return "a marker is written there, and not every replica in sync has it", None, [], ends, []
    producer_id = state.ongoing[first]
    found = scene.holder_of(producer_id, partition.topic, partition.index)
    if found is None:
        holder = Holder(about="producer", name=str(producer_id))
        why = f"producer {producer_id} has a transaction open there that no coordinator knows, so that it hangs"
        return why, None, [holder], OPERATOR, []
    node, entry = found
    who, since = plain(entry.transactional_id), _since(entry)
    kept = scene.kept_of(entry)
    by_rules = _by_rules(kept)
    holders = [Holder(about="transaction", name=entry.transactional_id), *_rules(kept)]
    opened = f"since {clock(since)} ({ago(scene.now - since)})"
    if entry.state in PREPARED:
        why = f"{who} is {entry.state.title}, and its marker is not written there yet"
        why += f"; {by_rules}" if by_rules else ""
        return why, since, holders, "its marker is written", of_kept(kept, scene.now)
    aborted = aborted_at(node, entry)
    ends = _ends(entry, aborted, scene.now, "")
    parts = [part for part in (f"{who} is open there {opened}", by_rules, ends) if part]
    remedies = [*of_kept(kept, scene.now), *advance(aborted, scene.now)]
    return "; ".join(parts), since, holders, ends, remedies
