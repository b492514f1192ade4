"""The requests of clients and the answers of brokers, read from the events of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from odradek.conform.aide import JUDGE

if TYPE_CHECKING:
    from odradek.net.recent import Happened

__all__ = ["Answered", "Asked", "Exchange", "Sent", "identity", "lines", "produced", "read_exchange"]

QUIET = frozenset({"API_VERSIONS", "METADATA", "FETCH", "HEARTBEAT", "LIST_OFFSETS", "OFFSET_FOR_LEADER_EPOCH"})
"""APIs that the text of an exchange leaves out, unless something was wrong with their answer."""


class Answered(Struct, frozen=True, kw_only=True):
    """An answer, as the client got it."""

    seq: int
    ts_ns: int
    error: str
    """The first in the answer: of the whole, then of its entries; NONE without one."""
    body: dict[str, Any]


class Asked(Struct, kw_only=True):
    """A request, and its answer if there was one."""

    seq: int
    ts_ns: int
    node: int
    connection: int
    correlation: int
    api: str
    version: int
    client: str
    """The client id."""
    from_broker: bool
    body: dict[str, Any]
    answer: Answered | None = None

    def __str__(self) -> str:
        told = "no answer" if self.answer is None else self.answer.error
        return f"{self.api} v{self.version} of {self.client or 'a client'}: {told}"


class Sent(Struct, frozen=True, kw_only=True):
    """A batch in a Produce request."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    sequence: int
    records: int
    transactional: bool


class Exchange(Struct, kw_only=True):
    """All requests that are not the judge's own, in the order in which brokers read them."""

    asked: list[Asked]
    topics: Mapping[str, str]
    """The names of topics by their ids."""

    def of_clients(self) -> Iterator[Asked]:
        """The requests of clients."""
        return (each for each in self.asked if not each.from_broker)


def read_exchange(events: Iterable[Happened]) -> Exchange:
    """The exchange in these events."""
    asked: list[Asked] = []
    open_: dict[tuple[int, int, int], Asked] = {}
    topics: dict[str, str] = {}
    for event in events:
        fields: Mapping[str, Any] = event.fact.fields
        if event.fact.kind == "leadership_taken" and "topic_id" in fields:
            topics[str(fields["topic_id"])] = str(fields["topic"])
        if event.fact.kind not in ("request", "response") or fields.get("client_id") == JUDGE:
            continue
        key = (event.node, fields["connection"], fields["correlation"])
        body: Any = event.fact.body.get("body") or {}
        if event.fact.kind == "request":
            request = Asked(
                seq=event.seq,
                ts_ns=event.ts_ns,
                node=event.node,
                connection=fields["connection"],
                correlation=fields["correlation"],
                api=fields["api"],
                version=fields["version"],
                client=fields.get("client_id") or "",
                from_broker=fields["from_broker"],
                body=body,
            )
            asked.append(request)
            open_[key] = request
        elif key in open_:
            open_.pop(key).answer = Answered(
                seq=event.seq, ts_ns=event.ts_ns, error=fields.get("error", "NONE"), body=body
            )
    return Exchange(asked=asked, topics=topics)


def produced(asked: Asked, topics: Mapping[str, str]) -> list[Sent]:
    """The batches of a Produce request that are of a producer with an id."""
    found = []
    for topic in asked.body.get("topicData", ()):
        name = topic.get("name") or topics.get(str(topic.get("topicId")), str(topic.get("topicId")))
        for partition in topic["partitionData"]:
            records = partition.get("records") or {}
            if records.get("producerId", -1) >= 0:
                found.append(
                    Sent(
                        topic=name,
                        partition=partition["index"],
                        producer_id=records["producerId"],
                        producer_epoch=records["producerEpoch"],
                        sequence=records["baseSequence"],
                        records=records["records"],
                        transactional=records["transactional"],
                    )
                )
    return found


def identity(asked: Asked, topics: Mapping[str, str]) -> tuple[int, int] | None:
    """The producer id and epoch that a request of a transactional producer carries, if it carries them."""
    body = asked.body
    match asked.api:
        case "PRODUCE":
            batches = [each for each in produced(asked, topics) if each.transactional]
            return (batches[0].producer_id, batches[0].producer_epoch) if batches else None
        case "ADD_PARTITIONS_TO_TXN" if "v3AndBelowProducerId" in body:
            return body["v3AndBelowProducerId"], body["v3AndBelowProducerEpoch"]
        case "ADD_PARTITIONS_TO_TXN" if body.get("transactions"):
            return body["transactions"][0]["producerId"], body["transactions"][0]["producerEpoch"]
        case "ADD_OFFSETS_TO_TXN" | "TXN_OFFSET_COMMIT" | "END_TXN":
            return body["producerId"], body["producerEpoch"]
        case _:
            return None


def lines(exchange: Exchange) -> list[str]:
    """The exchange as text, in the order of time; requests that only keep a client going are left out."""
    if not exchange.asked:
        return []
    began = exchange.asked[0].ts_ns
    told: list[tuple[int, str]] = []
    for asked in exchange.asked:
        error = None if asked.answer is None else asked.answer.error
        if asked.api in QUIET and error in ("NONE", None):
            continue
        who = f"broker {asked.client.removeprefix('broker-')}" if asked.from_broker else asked.client or "client"
        told.append((asked.seq, _line(asked.ts_ns - began, f"{who} -> {asked.node}", asked, asked.body)))
        if asked.answer is not None:
            shown = asked.answer.body
            told.append(
                (asked.answer.seq, _line(asked.answer.ts_ns - began, f"{asked.node} -> {who}", asked, shown, error))
            )
        else:
            told.append((asked.seq, f"{'':>8}  (no answer)"))
    return [line for _, line in sorted(told, key=lambda each: each[0])]


def _line(after_ns: int, way: str, asked: Asked, body: Mapping[str, Any], error: str | None = None) -> str:
    fields = {name: value for name, value in body.items() if name != "throttleTimeMs"}
    what = f"{asked.api} v{asked.version}" if error is None else f"{asked.api} {error}"
    return f"{after_ns / 1e6:7.1f}ms  {way}  {what}  {_text(fields)}"


def _text(value: object, *, inner: bool = False) -> str:
    """A body in short form for reading, without empty fields."""
    match value:
        case dict():
            fields = (f"{name}={_text(each, inner=True)}" for name, each in value.items() if each not in _EMPTY)
            return f"{{{' '.join(fields)}}}" if inner else " ".join(fields)
        case list():
            return f"[{', '.join(_text(each, inner=True) for each in value)}]"
        case _:
            return str(value)


_EMPTY: tuple[object, ...] = ("", None, [], {})
