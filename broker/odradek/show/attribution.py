"""The transactional id and the producer id of each event, and the request of each response.

The ids stand in the event or in its body, or follow from the producer id. For a request without a body they follow from
the next event at the same broker: the state of a coordinator that it changed, the batch that was parked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from odradek.show.events import Event, Fields, Value

__all__ = ["MESSAGES", "OFFSETS_TOPIC", "TRANSACTIONAL", "WAITING_MAX", "Attribution", "attributed", "named"]

ADDS = ("ADD_PARTITIONS_TO_TXN", "ADD_OFFSETS_TO_TXN")
STATE_CAUSES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Empty": ("INIT_PRODUCER_ID",),
        "Ongoing": ADDS,
        "PrepareCommit": ("END_TXN",),
        "PrepareAbort": ("END_TXN", "INIT_PRODUCER_ID"),
        "PrepareEpochFence": ("INIT_PRODUCER_ID",),
    }
)
"""The requests that bring an id into a state; it comes into other states without a request."""
CAUSES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "init_producer_id": ("INIT_PRODUCER_ID",),
        "transaction_kept": ("INIT_PRODUCER_ID",),
        "fenced": ("INIT_PRODUCER_ID",),
        "partitions_added": ADDS,
        "marker_written": ("WRITE_TXN_MARKERS",),
    }
)
"""The requests that cause an event of another kind."""
OFFSETS_TOPIC = "__consumer_offsets"
BATCHES = frozenset({"parked", "verify_start", "transaction_opened"})
"""The first of these for a partition shows the request that brought the batch."""
TRANSACTIONAL = frozenset(
    {"PRODUCE", "TXN_OFFSET_COMMIT", *(api for apis in (*STATE_CAUSES.values(), *CAUSES.values()) for api in apis)}
)
BATCHED = frozenset({"WRITE_TXN_MARKERS", "ADD_PARTITIONS_TO_TXN"})
"""Requests of brokers about several transactions: such a request belongs to the first one that it changes."""
WAITING_MAX = 100
"""Maximum of waiting requests of an API at a broker: some have no response, such as those with acks=0."""
Named = tuple[str | None, int | None]
MESSAGES = frozenset({"request", "response"})


class Attribution(Struct, frozen=True):
    """Three lists with an element for each event."""

    transactional_ids: list[str | None]
    producer_ids: list[int | None]
    requests: list[int | None]
    """For a response the index of its request, and for a verdict that of its verification."""


def attributed(events: Sequence[Event]) -> Attribution:
    """Attribute the events of a window, in their order."""
    attribution = Attribution([], [], [])
    _say(events, attribution, _owners(events, attribution))
    return attribution


def _owners(events: Sequence[Event], attribution: Attribution) -> dict[int, str]:
    """Add the ids of each event to the lists of the attribution; returns the transactional id of each producer id."""
    owners: dict[int, str] = {}
    tids, pids, requests = attribution.transactional_ids, attribution.producer_ids, attribution.requests
    unanswered: dict[tuple[int, Value, Value], int] = {}
    for index, event in enumerate(events):
        fields = event.fields
        tid, pid = named(event)
        request = None
        if event.kind in MESSAGES:
            if "connection" in fields:
                key = (event.node, fields["connection"], fields.get("correlation"))
                if event.kind == "request":
                    unanswered[key] = index
                else:
                    request = unanswered.pop(key, None)
            if request is not None:
                tid, pid = tid or tids[request], pids[request] if pid is None else pid
        if tid is not None and pid is not None:
            owners[pid] = tid
        tids.append(tid)
        pids.append(pid)
        requests.append(request)
    return owners


def named(event: Event) -> Named:
    """The transactional id and the producer id that an event names; of a request or response with several none."""
    fields = event.fields
    body = fields.get("body") if event.kind in MESSAGES else None
    if not isinstance(body, dict):
        return fields.get("transactional_id"), fields.get("producer_id")
    tids: set[str] = set()
    pids: set[int] = set()
    _gather(body, tids, pids)
    return tids.pop() if len(tids) == 1 else None, pids.pop() if len(pids) == 1 else None


NESTED = frozenset(
    {"transactions", "markers", "resultsByTransaction", "transactionStates", "topicData", "partitionData", "records"}
)
"""Structs in bodies, and lists of structs, that may name an id."""
LISTED = frozenset({"transactionalIds", "coordinatorKeys", "key"})
TRANSACTION_KEY = 1
"""The key type of FindCoordinator for transactional ids."""


def _gather(body: Fields, tids: set[str], pids: set[int]) -> None:
    tid = body.get("transactionalId") or body.get("v3AndBelowTransactionalId")
    pid = body.get("producerId", body.get("v3AndBelowProducerId"))
    if isinstance(tid, str):
        tids.add(tid)
    if isinstance(pid, int) and pid >= 0:
        pids.add(pid)
    names = body.keys()
    for name in LISTED & names:
        if name == "transactionalIds" or body.get("keyType") == TRANSACTION_KEY:
            listed = body[name] if isinstance(body[name], list) else [body[name]]
            tids.update(each for each in listed if isinstance(each, str) and each)
    for name in NESTED & names:
        inner = body[name]
        for each in inner if isinstance(inner, list) else (inner,):
            if isinstance(each, dict):
                _gather(each, tids, pids)


class _Waiting:
    """The requests of each broker without a known transactional id, by API, the oldest first."""

    def __init__(self) -> None:
        self._of: dict[tuple[int, str], list[int]] = {}
        self._batches: set[tuple[Value, ...]] = set()
        self._asked: dict[tuple[Value, ...], int] = {}
        """The verifications of leaders without a verdict."""

    def add(self, event: Event, index: int) -> None:
        """A request was read. One without a connection has no visible response, and stands for those before it."""
        key = (event.node, event.fields["api"])
        waiting = self._of.setdefault(key, [])
        if "connection" not in event.fields:
            waiting.clear()
        del waiting[: -WAITING_MAX + 1]
        waiting.append(index)

    def answered(self, event: Event, index: int) -> None:
        """A request is answered: later events do not belong to it."""
        waiting = self._of.get((event.node, event.fields["api"]))
        if waiting and index in waiting:
            waiting.remove(index)

    def cause(self, event: Event, pid: int | None) -> int | None:
        """The request that caused this event, which waits no longer.

        A batch is checked when its request is read, so it belongs to the newest one: a rule may hold earlier ones.
        A record of a coordinator's log is committed later, in the order of the requests.
        """
        at = 0
        if event.kind in BATCHES:
            apis, at = self._batch(event, pid), -1
        elif event.kind == "state_change":
            apis = STATE_CAUSES.get(event.fields.get("state_to", ""), ())
        else:
            apis = CAUSES.get(event.kind, ())
        for api in apis:
            waiting = self._of.get((event.node, api))
            if waiting:
                return waiting.pop(at)
        return None

    def _batch(self, event: Event, pid: int | None) -> tuple[str, ...]:
        topic = event.fields.get("topic")
        key = _batch_key(event, pid)
        if key in self._batches:
            if event.kind == "transaction_opened":
                self._batches.discard(key)
            return ()
        if event.kind != "transaction_opened":
            self._batches.add(key)
        return ("TXN_OFFSET_COMMIT",) if topic == OFFSETS_TOPIC else ("PRODUCE",)

    def asks(self, event: Event, pid: int | None, index: int) -> None:
        """A leader verifies that a partition is in the transaction."""
        self._asked[_batch_key(event, pid)] = index

    def verdict(self, event: Event, pid: int | None) -> int | None:
        """The verification with this verdict. After a refusal another batch may come."""
        key = _batch_key(event, pid)
        if event.fields.get("verdict") != "accepted":
            self._batches.discard(key)
        return self._asked.pop(key, None)


def _batch_key(event: Event, pid: int | None) -> tuple[Value, ...]:
    return (event.node, pid, event.fields.get("topic"), event.fields.get("partition"))


def _say(events: Sequence[Event], attribution: Attribution, owners: Mapping[int, str]) -> None:
    """Attribute the events that hold no ids."""
    tids, pids, requests = attribution.transactional_ids, attribution.producer_ids, attribution.requests
    waiting = _Waiting()
    for index, event in enumerate(events):
        tid, pid, kind = tids[index], pids[index], event.kind
        if tid is None and pid is not None:
            tid = tids[index] = owners.get(pid)
        if kind == "request":
            if tid is None and pid is None and _may_be_about_more(event.fields):
                waiting.add(event, index)
        elif kind == "response":
            request = requests[index]
            if request is not None:
                _share(attribution, request, index)
                if event.fields.get("api") in TRANSACTIONAL:
                    waiting.answered(event, request)
        elif pid is not None or tid is not None:
            cause = waiting.cause(event, pid)
            if cause is not None:
                tids[cause], pids[cause] = tid, pid
            if kind == "verify_start":
                waiting.asks(event, pid, index)
            elif kind == "verify_end":
                requests[index] = waiting.verdict(event, pid)


def _may_be_about_more(fields: Fields) -> bool:
    """Whether a request without an id may belong to a transaction: it has no body, or names several."""
    api = fields.get("api")
    return api in TRANSACTIONAL and ("body" not in fields or api in BATCHED)


def _share(attribution: Attribution, request: int, response: int) -> None:
    """Give a request and its response the same ids."""
    tids, pids = attribution.transactional_ids, attribution.producer_ids
    tids[request] = tids[response] = tids[response] if tids[request] is None else tids[request]
    pids[request] = pids[response] = pids[response] if pids[request] is None else pids[request]
