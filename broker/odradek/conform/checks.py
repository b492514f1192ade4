"""Judgements as data: each examines the events of a play and returns a sentence for each violation."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import msgspec
from msgspec import Struct

from odradek.conform.exchange import Asked, Exchange, Sent, identity, produced
from odradek.conform.protocol import snake
from odradek.core.wording import counted

__all__ = ["Check", "Seen", "Which", "Witnessed", "listed"]

FOREVER = 1 << 62
SEQUENCES = 1 << 31


class Witnessed(Struct, kw_only=True):
    """The facts that a judgement may use after the steps of a scenario."""

    exchange: Exchange
    marks: Mapping[str, int]
    """Numbers of events: `begin:NAME` and `end:NAME` of steps, `hit:RULE` and `answer:RULE` of the first request that
    a rule has hit."""
    committed: Callable[[str, list[str]], list[str]]
    """The committed values of a topic, as soon as they are these, or some seconds later."""
    group_offset: Callable[[str, str, int, int], int]
    """The committed offset of a group for a topic's partition, as soon as it is this one, or after some seconds."""

    def mark(self, name: str) -> int:
        """Where a mark is; never, if it was not reached."""
        return self.marks.get(name, FOREVER)


class Which(Struct, frozen=True, kw_only=True):
    """Requests of clients: all for which everything that is given here is so."""

    api: str | list[str] = []
    client: str = ""
    """Client ids that begin so."""
    versions: str | None = None
    """`5`, `5+`, `0-4`."""
    error: str | list[str] | None = None
    """The error of the answer."""
    fields: dict[str, Any] = {}
    """Fields of the request in Kafka's JSON form; `a.b` goes into objects, and a list is that of each element."""
    answer: dict[str, Any] = {}
    """The same of the answer."""
    transactional: bool | None = None
    """For Produce requests: whether their batches are transactional."""
    node: int | None = None
    """The broker that was asked."""
    after: str | None = None
    """Behind this mark."""
    before: str | None = None
    """Ahead of this mark."""

    @property
    def apis(self) -> list[str]:
        return [self.api] if isinstance(self.api, str) else self.api

    def of(self, seen: Witnessed) -> list[Asked]:
        """The requests that are meant."""
        first = seen.mark(self.after) if self.after else 0
        last = seen.mark(self.before) if self.before else FOREVER
        errors = [self.error] if isinstance(self.error, str) else self.error
        low, high = _versions(self.versions)
        return [
            each
            for each in seen.exchange.of_clients()
            if (not self.apis or each.api in self.apis)
            and each.client.startswith(self.client)
            and low <= each.version <= high
            and first < each.seq < last
            and (errors is None or (each.answer is not None and each.answer.error in errors))
            and (self.node is None or each.node == self.node)
            and (self.transactional is None or _is_transactional(each, seen) is self.transactional)
            and _has(each.body, self.fields)
            and (not self.answer or (each.answer is not None and _has(each.answer.body, self.answer)))
        ]

    def __str__(self) -> str:
        what = " or ".join(self.apis) or "request"
        parts = [what]
        if self.versions:
            parts.append(f"v{self.versions}")
        if self.fields:
            parts.append(f"with {', '.join(f'{name} {_json(value)}' for name, value in self.fields.items())}")
        if self.answer:
            told = ", ".join(f"{name} {_json(value)}" for name, value in self.answer.items())
            parts.append(f"whose answer has {told}")
        if self.error is not None:
            parts.append(f"answered with {self.error if isinstance(self.error, str) else ' or '.join(self.error)}")
        if self.client:
            parts.append(f"of {self.client}")
        if self.after:
            parts.append(f"after {_mark_text(self.after)}")
        if self.before:
            parts.append(f"before {_mark_text(self.before)}")
        return " ".join(parts)


class _Judgement(Which, frozen=True, kw_only=True, tag_field="check", tag=snake, forbid_unknown_fields=True):
    @property
    def sees_results(self) -> bool:
        """Whether it looks at results, which any broker shows, and at no request."""
        return False

    def of_what_was_sent(self) -> Self | None:
        """The part that can be judged before the steps are over: violations by sent requests, not by missing ones."""
        return None if self.sees_results else self


class Seen(_Judgement, frozen=True, kw_only=True):
    """The number of requests that were sent: at least one, unless another number is given."""

    at_least: int = 1
    at_most: int | None = None

    def of_what_was_sent(self) -> Self | None:
        """Requests may be missing."""
        return None

    def judge(self, seen: Witnessed) -> list[str]:
        """The violations."""
        found = self.of(seen)
        if len(found) < self.at_least:
            if not found:
                return [f"No {self} was sent."]
            wanted = counted(self.at_least, "time")
            return [f"{self} was sent {counted(len(found), 'time')}, and should be {wanted} or more."]
        if self.at_most is not None and len(found) > self.at_most:
            wanted = counted(self.at_least, "time")
            return [f"{self} was sent {counted(len(found), 'time')}, and should be {wanted} or more."]
        return []


class Never(_Judgement, frozen=True, kw_only=True):
    """No such request was sent."""

    def judge(self, seen: Witnessed) -> list[str]:
        return [f"{self} was sent, and must not be: {each}." for each in self.of(seen)[:1]]


class Same(_Judgement, frozen=True, kw_only=True):
    """All such requests have the same values."""

    same: list[str]
    """Names of fields, as in `fields`."""

    def judge(self, seen: Witnessed) -> list[str]:
        found = self.of(seen)
        wrong = []
        for name in self.same:
            values = list(dict.fromkeys(_json(_values(each.body, name.split("."))) for each in found))
            if len(values) > 1:
                wrong.append(f"{name} of {self} was {' and then '.join(values)}: it has to stay the same.")
        return wrong


class Follows(_Judgement, frozen=True, kw_only=True):
    """Every such request comes after the answer to another one."""

    behind: Which

    def judge(self, seen: Witnessed) -> list[str]:
        answered = [each.answer.seq for each in self.behind.of(seen) if each.answer is not None]
        early = [each for each in self.of(seen) if not any(answer < each.seq for answer in answered)]
        return [f"{each} came before any {self.behind} was answered." for each in early[:1]]


class Epochs(_Judgement, frozen=True, kw_only=True):
    """Requests carry the producer id and epoch of the newest InitProducerId or EndTxn (5+) that was answered."""

    def judge(self, seen: Witnessed) -> list[str]:
        told: list[tuple[int, tuple[int, int]]] = []
        requests = self.of(seen)
        for each in requests:
            if each.answer is not None and each.answer.error == "NONE" and _tells_identity(each):
                body = each.answer.body
                told.append((each.answer.seq, (body["producerId"], body["producerEpoch"])))
        told.sort()
        for each in requests:
            carried = identity(each, seen.exchange.topics)
            known = [pair for seq, pair in told if seq < each.seq]
            if carried is None or not known or carried == known[-1]:
                continue
            return [
                (
                    f"{each.api} v{each.version} carries producer id {carried[0]} and epoch {carried[1]}; "
                    f"the newest that the client was told are {known[-1][0]} and {known[-1][1]}."
                )
            ]
        return []


class Sequences(_Judgement, frozen=True, kw_only=True):
    """Sequences of each partition, producer id and epoch begin at 0 and have no gap; one that was acknowledged is never
    used again."""

    bumps: bool = False
    """The epoch has to change as well."""

    def of_what_was_sent(self) -> Self | None:
        """The new epoch may be missing."""
        return msgspec.structs.replace(self, bumps=False)

    def judge(self, seen: Witnessed) -> list[str]:
        following: dict[tuple[str, int, int, int], int] = defaultdict(int)
        sizes: dict[tuple[tuple[str, int, int, int], int], int] = {}
        acknowledged: dict[tuple[tuple[str, int, int, int], int], int] = {}
        for each, batch in _batches(self, seen):
            key = (batch.topic, batch.partition, batch.producer_id, batch.producer_epoch)
            at = f"{batch.topic}-{batch.partition}, producer id {batch.producer_id}, epoch {batch.producer_epoch}"
            again = sizes.get((key, batch.sequence))
            if again is not None:
                if again != batch.records:
                    return [f"Sequence {batch.sequence} ({at}) stood for {again} records, and then {batch.records}."]
                if acknowledged.get((key, batch.sequence), FOREVER) < each.seq:
                    return [f"Sequence {batch.sequence} ({at}) was sent again after it had been acknowledged."]
            elif batch.sequence != following[key]:
                return [f"Sequence {batch.sequence} ({at}) came where {following[key]} is next."]
            else:
                sizes[key, batch.sequence] = batch.records
                following[key] = (batch.sequence + batch.records) % SEQUENCES
            if each.answer is not None and each.answer.error == "NONE":
                acknowledged.setdefault((key, batch.sequence), each.answer.seq)
        epochs = {batch.producer_epoch for _, batch in _batches(self, seen)}
        return ["All batches had the same epoch."] if self.bumps and len(epochs) < 2 else []


class Added(_Judgement, frozen=True, kw_only=True):
    """Each partition is added to the transaction (AddPartitionsToTxn) before its first batch, and only once."""

    once: bool = False
    """Whether adding it a second time in a transaction is wrong, too."""

    def judge(self, seen: Witnessed) -> list[str]:
        added: dict[tuple[str, int], int] = {}
        for each in self.of(seen):
            match each.api:
                case "END_TXN":
                    added.clear()
                case "ADD_PARTITIONS_TO_TXN" if each.answer is not None and each.answer.error == "NONE":
                    for partition in _added(each):
                        if self.once and added.get(partition, FOREVER) < each.seq:
                            return [f"{partition[0]}-{partition[1]} was added to the transaction a second time."]
                        added.setdefault(partition, each.answer.seq)
                case "PRODUCE":
                    for batch in produced(each, seen.exchange.topics):
                        when = added.get((batch.topic, batch.partition), FOREVER)
                        if batch.transactional and when > each.seq:
                            return [f"A batch for {batch.topic}-{batch.partition} was sent before it was added."]
        return []


class Quiet(_Judgement, frozen=True, kw_only=True):
    """Between EndTxn and its answer nothing else is sent for the transaction."""

    def judge(self, seen: Witnessed) -> list[str]:
        ending: Asked | None = None
        for each in self.of(seen):
            if each.api == "END_TXN":
                ending = each
            elif (
                ending is not None
                and (ending.answer is None or each.seq < ending.answer.seq)
                and each.api in ("PRODUCE", "ADD_PARTITIONS_TO_TXN", "ADD_OFFSETS_TO_TXN", "TXN_OFFSET_COMMIT")
                and identity(each, seen.exchange.topics) is not None
            ):
                return [f"{each} was sent between EndTxn and its answer."]
        return []


class Paced(_Judgement, frozen=True, kw_only=True):
    """Between the answer to such a request and the next such request there is a pause."""

    pause_ms: float

    def judge(self, seen: Witnessed) -> list[str]:
        """The violations."""
        found = self.of(seen)
        for before, each in itertools.pairwise(found):
            if before.answer is None:
                continue
            pause_ms = (each.ts_ns - before.answer.ts_ns) / 1e6
            if pause_ms < self.pause_ms:
                return [f"{each.api} was sent again {pause_ms:.1f} ms after {before.answer.error}, without a pause."]
        return []


class Committed(_Judgement, frozen=True, kw_only=True):
    """A read_committed consumer gets these values of a topic, and no transaction is open in it."""

    topic: str = "orders"
    values: list[str]

    @property
    def sees_results(self) -> bool:
        return True

    def judge(self, seen: Witnessed) -> list[str]:
        found = seen.committed(self.topic, self.values)
        if found == self.values:
            return []
        return [f"Committed in {self.topic} is {listed(found)}; it should be {listed(self.values)}."]


class GroupOffset(_Judgement, frozen=True, kw_only=True):
    """The committed offset of a group."""

    group: str = "kitchen"
    topic: str = "orders"
    partition: int = 0
    offset: int

    @property
    def sees_results(self) -> bool:
        return True

    def judge(self, seen: Witnessed) -> list[str]:
        found = seen.group_offset(self.group, self.topic, self.partition, self.offset)
        if found == self.offset:
            return []
        return [f"Committed for group {self.group} is offset {found}; it should be {self.offset}."]


class Member(_Judgement, frozen=True, kw_only=True):
    """TxnOffsetCommit carries the member id and generation that the coordinator gave to the consumer (KIP-447)."""

    consumer: str = "c1"

    def judge(self, seen: Witnessed) -> list[str]:
        for each in Which(api="TXN_OFFSET_COMMIT", client=self.client).of(seen):
            joined = [
                (other.answer.body["memberId"], other.answer.body[epoch])
                for other in seen.exchange.of_clients()
                if (epoch := _MEMBERSHIP.get(other.api)) is not None
                and other.client.startswith(self.consumer)
                and other.answer is not None
                and other.answer.error == "NONE"
                and other.answer.seq < each.seq
            ]
            carried = (each.body.get("memberId", ""), each.body.get("generationIdOrMemberEpoch", -1))
            if joined and carried != joined[-1]:
                member, generation = joined[-1]
                told = f"{carried[0] or 'no member'} of generation {carried[1]}"
                return [f"TxnOffsetCommit carries {told}; the consumer is {member} of generation {generation}."]
        return []


_MEMBERSHIP = {"JOIN_GROUP": "generationId", "CONSUMER_GROUP_HEARTBEAT": "memberEpoch"}

Check = Seen | Never | Same | Follows | Epochs | Sequences | Added | Quiet | Paced | Committed | GroupOffset | Member


def _versions(text: str | None) -> tuple[int, int]:
    if text is None:
        return 0, FOREVER
    if text.endswith("+"):
        return int(text[:-1]), FOREVER
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def _values(value: Any, path: list[str]) -> list[Any]:
    """The value at a path; for a list, the value of each element."""
    if isinstance(value, list):
        return [found for each in value for found in _values(each, path)]
    if not path:
        return [value]
    return _values(value[path[0]], path[1:]) if isinstance(value, dict) and path[0] in value else []


def _has(body: Any, fields: Mapping[str, Any]) -> bool:
    return all(wanted in _values(body, name.split(".")) for name, wanted in fields.items())


def _is_transactional(asked: Asked, seen: Witnessed) -> bool:
    return any(each.transactional for each in produced(asked, seen.exchange.topics))


def _tells_identity(asked: Asked) -> bool:
    return asked.api == "INIT_PRODUCER_ID" or (asked.api == "END_TXN" and asked.version >= 5)


def _batches(which: Which, seen: Witnessed) -> Iterator[tuple[Asked, Sent]]:
    for each in which.of(seen):
        if each.api == "PRODUCE":
            for batch in produced(each, seen.exchange.topics):
                yield each, batch


def _added(asked: Asked) -> list[tuple[str, int]]:
    body = asked.body
    topics = body.get("v3AndBelowTopics") or [
        topic for each in body.get("transactions", []) for topic in each["topics"]
    ]
    return [(topic["name"], index) for topic in topics for index in topic["partitions"]]


def _mark_text(mark: str) -> str:
    kind, _, name = mark.partition(":")
    return {
        "begin": f"the step {name}",
        "end": f"the end of the step {name}",
        "hit": f"the request of rule {name}",
        "answer": f"the answer to the request of rule {name}",
    }.get(kind, mark)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def listed(values: list[str]) -> str:
    """The values in a sentence."""
    return ", ".join(values) or "nothing"
