"""The lane of an event: a client, a broker, a coordinator or a partition; a message has two lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from odradek.show.attribution import OFFSETS_TOPIC, Attribution
from odradek.show.events import Event
from odradek.show.words import NO_ANSWER

__all__ = ["INTERNAL_TOPICS", "VERIFICATION", "Lane", "LaneKind", "lanes_of", "places_of"]

LaneKind = Literal["client", "broker", "coordinator", "partition"]
BROKER_CLIENT = "broker-"
"""Prefix of the client id of a broker that asks another one; its node id follows."""
VERIFICATION = "ADD_PARTITIONS_TO_TXN"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, "__transaction_state", "__share_group_state"})
COORDINATOR_APIS = frozenset(
    {
        "INIT_PRODUCER_ID",
        "ADD_PARTITIONS_TO_TXN",
        "ADD_OFFSETS_TO_TXN",
        "END_TXN",
        "DESCRIBE_TRANSACTIONS",
        "LIST_TRANSACTIONS",
        "JOIN_GROUP",
        "SYNC_GROUP",
        "HEARTBEAT",
        "LEAVE_GROUP",
        "OFFSET_COMMIT",
        "OFFSET_FETCH",
        "OFFSET_DELETE",
        "DESCRIBE_GROUPS",
        "LIST_GROUPS",
        "DELETE_GROUPS",
        "CONSUMER_GROUP_HEARTBEAT",
        "CONSUMER_GROUP_DESCRIBE",
        "SHARE_GROUP_HEARTBEAT",
        "SHARE_GROUP_DESCRIBE",
        "STREAMS_GROUP_HEARTBEAT",
        "STREAMS_GROUP_DESCRIBE",
    }
)
"""Requests that a coordinator answers."""
COORDINATOR_KINDS = frozenset(
    {
        "state_change",
        "partitions_added",
        "fenced",
        "init_producer_id",
        "transaction_kept",
        "group_state_change",
        "group_record_skipped",
    }
)
"""Kinds of events at a coordinator."""
BOOKKEEPING = frozenset({"lso_moved", "leadership_taken", "leadership_given_up"})
"""In an internal topic these belong to the coordinator, which is the leader of the partition."""
OF_TRANSACTIONS = frozenset({"state_change", "partitions_added", "fenced", "init_producer_id", "transaction_kept"})
ABOUT_MAX = 3
Key = tuple[LaneKind, str | int | tuple[str, int]]
ORDER: dict[LaneKind, int] = {"client": 0, "coordinator": 1, "broker": 2, "partition": 3}


class Lane(Struct, frozen=True, kw_only=True):
    """A sender, receiver or owner of data; a column of the picture."""

    key: str
    """A key that is the same in two histories: `client:till`, `broker:1`, `coordinator:1`, `partition:orders-2`."""
    kind: LaneKind
    name: str
    about: str = ""
    """A second line, such as the broker that leads a partition."""


def places_of(events: Sequence[Event], attribution: Attribution) -> list[tuple[Key, Key]]:
    """For each event its first and its last lane; they are equal for a mark."""
    places = _Places(events, attribution)
    return [places.of(event, tid) for event, tid in zip(events, attribution.transactional_ids, strict=True)]


class _Places:
    """Knows the coordinator of each transactional id: the last one seen, else the first one that will be seen."""

    def __init__(self, events: Sequence[Event], attribution: Attribution) -> None:
        self._coordinators: dict[str | None, int] = {}
        for event, tid in zip(reversed(events), reversed(attribution.transactional_ids), strict=True):
            if event.kind in OF_TRANSACTIONS:
                self._coordinators[tid] = event.node

    def of(self, event: Event, tid: str | None) -> tuple[Key, Key]:
        fields, kind, node = event.fields, event.kind, event.node
        if kind == "request" or kind == "response":
            return self._message(event, tid)
        if kind in COORDINATOR_KINDS:
            if tid is not None:
                self._coordinators[tid] = node
            here: Key = ("coordinator", node)
            return here, here
        if kind == "verify_start" or kind == "verify_end":
            leader: Key = ("broker", node)
            if fields.get("error") == NO_ANSWER:
                return leader, leader
            coordinator: Key = ("coordinator", self._coordinators[tid]) if tid in self._coordinators else leader
            return (leader, coordinator) if kind == "verify_start" else (coordinator, leader)
        topic, partition = fields.get("topic"), fields.get("partition")
        if topic is None or partition is None:
            here = ("broker", node)
        elif topic in INTERNAL_TOPICS and kind in BOOKKEEPING:
            here = ("coordinator", node)
        else:
            here = ("partition", (topic, partition))
        return here, here

    def _message(self, event: Event, tid: str | None) -> tuple[Key, Key]:
        fields = event.fields
        api, client = fields.get("api"), fields.get("client_id") or ""
        is_coordinators = api in COORDINATOR_APIS and (api != "INIT_PRODUCER_ID" or tid is not None)
        broker: Key = ("coordinator" if is_coordinators else "broker", event.node)
        asking: Key = ("client", client)
        if fields.get("from_broker"):
            number = client.removeprefix(BROKER_CLIENT)
            if number.isdecimal():
                asking = ("coordinator" if api == "WRITE_TXN_MARKERS" else "broker", int(number))
        return (asking, broker) if event.kind == "request" else (broker, asking)


def lanes_of(
    places: Sequence[tuple[Key, Key]], events: Sequence[Event], attribution: Attribution
) -> tuple[tuple[Lane, ...], dict[Key, int]]:
    """The lanes that are used, and the index of each: clients as they appear, coordinators, brokers, partitions."""
    seen = dict.fromkeys(key for pair in dict.fromkeys(places) for key in pair)
    ordered = sorted(seen, key=_rank)
    about = _about(places, events, attribution)
    lanes = tuple(_lane(key, about.get(key, "")) for key in ordered)
    return lanes, {key: index for index, key in enumerate(ordered)}


def _rank(key: Key) -> tuple[int, str, int]:
    kind, what = key
    if isinstance(what, tuple):
        return ORDER[kind], what[0], what[1]
    return ORDER[kind], "", what if isinstance(what, int) else 0


def _about(places: Sequence[tuple[Key, Key]], events: Sequence[Event], attribution: Attribution) -> dict[Key, str]:
    """For a client its transactional ids, for a partition its last leader."""
    used: dict[Key, dict[str, None]] = {}
    leaders: dict[Key, str] = {}
    for (source, _), event, tid in zip(places, events, attribution.transactional_ids, strict=True):
        if source[0] == "partition":
            leaders[source] = f"led by broker {event.node}"
        elif tid is not None and source[0] == "client":
            used.setdefault(source, {})[tid] = None
    return leaders | {key: _listed(list(tids)) for key, tids in used.items()}


def _listed(names: list[str]) -> str:
    more = len(names) - ABOUT_MAX
    return ", ".join(names[:ABOUT_MAX]) + (f" and {more} more" if more > 0 else "")


def _lane(key: Key, about: str) -> Lane:
    kind, what = key
    if isinstance(what, tuple):
        place = f"{what[0]}-{what[1]}"
        return Lane(key=f"{kind}:{place}", kind=kind, name=place, about=about)
    if kind == "client":
        return Lane(key=f"{kind}:{what}", kind=kind, name=str(what) or "client without an id", about=about)
    return Lane(
        key=f"{kind}:{what}", kind=kind, name=f"broker {what}", about="coordinator" if kind == "coordinator" else about
    )
