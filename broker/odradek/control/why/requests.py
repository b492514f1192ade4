"""Waiting requests, except those that a rule holds."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from odradek.control.messages.why import Reason
from odradek.control.state import parked_calls, rules_by_wait
from odradek.control.why.remedies import advance
from odradek.control.why.scene import Scene, shown
from odradek.faults.armed import seen
from odradek.stuck.words import ago, plain
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.call import Call

__all__ = ["listening_requests", "waited_for", "waiting_requests"]

LISTENS = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})
"""APIs in which consumers wait most of the time, so that a wait explains nothing."""
FOR_API = {
    ApiKey.JOIN_GROUP: "the other members of its group to join",
    ApiKey.SYNC_GROUP: "the leader of its group to assign partitions",
    ApiKey.FETCH: "records",
    ApiKey.SHARE_FETCH: "records",
}


def waiting_requests(scene: Scene) -> Iterator[Reason]:
    """Every waiting request of a client, longest first, except those that wait for records."""
    return _waiting(scene, listens=False)


def listening_requests(scene: Scene) -> Iterator[Reason]:
    """Every request of a client that waits for records, longest first."""
    return _waiting(scene, listens=True)


def _waiting(scene: Scene, *, listens: bool) -> Iterator[Reason]:
    by_rule = rules_by_wait(scene.cluster)
    found = [
        (since, node, call, wait)
        for node in scene.nodes.values()
        for call, wait, since in parked_calls(node)
        if (call.api_key in LISTENS) is listens and id(wait) not in by_rule and not call.is_broker
    ]
    for since, node, call, wait in sorted(found, key=lambda each: each[0]):
        until = None if wait is None else node.kernel.deadline_of(wait)
        longer = "" if until is None else f", and {ago(until - scene.now)} longer at most"
        what = waited_for(call, node.purgatory.keys_of(wait))
        yield Reason(
            about="request",
            name=call.api_key.name,
            sentence=f"{shown(seen(node, call))} waits for {what} for {ago(scene.now - since)}{longer}.",
            stuck=not listens,
            since_ms=since,
            held_by=[],
            ends=what,
            remedies=[] if listens else advance(until, scene.now),
        )


def waited_for(call: Call, keys: Sequence[Hashable]) -> str:
    """The event for which a request waits, in words."""
    for key in keys:
        match key:
            case ("verified", transactional_id, _):
                return f"the coordinator to verify transaction {plain(transactional_id)} (KIP-890)"
            case ("committed", topic, index):
                return f"the replicas in sync to acknowledge {plain(topic)}-{index}"
            case ("readable", (topic, index)):
                return f"records of {plain(topic)}-{index}"
    return FOR_API.get(call.api_key, "another broker, or a record of its coordinator to be committed")
