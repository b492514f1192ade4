"""A finding as a story: the promise, the breach, a line for each step, a picture, and the command to repeat it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct

from odradek.core.machine import Fact
from odradek.core.wording import counted
from odradek.records.batch import batches
from odradek.sim.model.promises import Problem, Violation
from odradek.sim.run import Run
from odradek.sim.schedules.schedule import Schedule
from odradek.sim.world.actors import Asked
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.fetch_request import FetchRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.offset_commit_request import OffsetCommitRequest
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest
from odradek.wire.messages.offset_fetch_response import OffsetFetchResponse
from odradek.wire.messages.produce_request import ProduceRequest
from odradek.wire.messages.txn_offset_commit_request import TxnOffsetCommitRequest

__all__ = ["Line", "Story", "tell"]

Fields = Mapping[str, Any]
LINES_MAX = 100
"""Number of last lines that are shown of a run that could not be shrunk."""


class Line(Struct, frozen=True):
    """One step of the story."""

    at_ms: int
    """Virtual milliseconds since the trouble began."""
    who: str
    to: str
    what: str

    def __str__(self) -> str:
        way = self.who if self.who == self.to else f"{self.who} → {self.to}"
        return f"{self.at_ms:>7} ms  {way}: {self.what}"


class Story(Struct, frozen=True, kw_only=True):
    """The story of a finding."""

    schedule: Schedule
    problems: tuple[Problem, ...]
    lines: tuple[Line, ...]
    repeat: str
    """The command that repeats it."""
    views: tuple[str, ...] = ()
    """Sentences with the commands that show its events."""

    def text(self, *, picture: bool = True) -> str:
        """The story as Markdown; a terminal does not need the source of the picture."""
        schedule, problem = self.schedule, self.problems[0]
        parts = [f"# {problem.name}", f"Promised: {problem.promise}", f"Seen: {problem.seen}{self._others()}."]
        checks = "on" if schedule.verification else "off"
        level, brokers, steps = schedule.levels[0], counted(schedule.brokers, "broker"), counted(schedule.steps, "step")
        parts += [f"{brokers}, transaction.version {level}, verification {checks}, {steps}."]
        parts += ["    " + "\n    ".join(map(str, self.lines))]
        parts += [f"```mermaid\n{self.mermaid()}\n```"] if picture else []
        parts += [f"It means: {problem.meaning}"]
        plan = self.plan()
        if plan is not None:
            parts += ["The same from a plan of rules, for brokers on sockets:", f"```json\n{plan}\n```"]
        parts += [f"Repeat it with: `{self.repeat}`", *self.views]
        return "\n\n".join(parts) + "\n"

    def _others(self) -> str:
        """The number of further breaches of the same promise in this run."""
        others = {each.seen for each in self.problems if each.name == self.problems[0].name} - {self.problems[0].seen}
        return f" (and {len(others)} more of the kind)" if others else ""

    def mermaid(self) -> str:
        """A sequence diagram."""
        names = list(dict.fromkeys(name for line in self.lines for name in (line.who, line.to)))
        aliases = {name: name.replace(" ", "").replace("-", "") for name in names}
        told = ["sequenceDiagram"]
        told += [f"    participant {aliases[name]} as {name}" for name in names]
        for line in self.lines:
            # In Mermaid a semicolon ends a statement, and a colon begins its text.
            what = line.what.replace(";", ",").replace(":", " ")
            if line.who == line.to:
                told.append(f"    Note over {aliases[line.who]}: {line.at_ms} ms, {what}")
            else:
                told.append(f"    {aliases[line.who]}->>{aliases[line.to]}: {line.at_ms} ms, {what}")
        return "\n".join(told)

    def plan(self) -> str | None:
        """The rules of the schedule as a plan (docs/rules.md); None if it has other deeds."""
        deeds = self.schedule.deeds
        if not deeds or any(deed.rule is None for deed in deeds):
            return None
        rules = [deed.rule for deed in deeds]
        return msgspec.json.format(msgspec.json.encode({"rules": rules}), indent=2).decode()


def tell(run: Run, violation: Violation, *, repeat: str, name: str | None = None) -> Story:
    """The story of a finished run, about the breach of this name, or else about the first one."""
    wanted = name or violation.problems[0].name
    problems = sorted(violation.problems, key=lambda problem: problem.name != wanted)
    lines = [line for asked in run.asked if (line := _of_request(asked, run)) is not None]
    lines += [line for at, node_id, fact in run.facts if (line := _of_fact(at, node_id, fact, run)) is not None]
    lines += [
        Line(at - run.start, "trouble", "trouble", what) for at, what in run.nemesis.deeds if what != "all is well"
    ]
    lines.sort(key=lambda line: line.at_ms)
    lines.append(Line(violation.at_ms, "checker", "checker", f"{problems[0].name}: {problems[0].seen}"))
    return Story(
        schedule=run.schedule, problems=tuple(problems), lines=tuple(_joined(lines)[-LINES_MAX:]), repeat=repeat
    )


def _joined(lines: list[Line]) -> list[Line]:
    """Join consecutive attempts that differ only in their time into one line."""
    told: list[Line] = []
    for line in lines:
        if not told or (told[-1].who, told[-1].to, told[-1].what) != (line.who, line.to, line.what):
            told.append(line)
    return told


def _produced(request: ProduceRequest) -> str:
    sent = [
        (f"{topic.name}-{data.index}", batch)
        for topic in request.topic_data
        for data in topic.partition_data
        for batch in batches(memoryview(data.records or b""))
    ]
    _, first = sent[0]
    places = ", ".join(place for place, _ in sent)
    sequences = ", ".join(str(batch.base_sequence) for _, batch in sent)
    return f"Produce to {places}, id {first.producer_id} epoch {first.producer_epoch} sequence {sequences}"


def _added(request: AddPartitionsToTxnRequest) -> str:
    partitions = [f"{topic.name}-{index}" for topic in request.v3_and_below_topics for index in topic.partitions]
    return f"AddPartitionsToTxn {', '.join(partitions)}"


def _ended(request: EndTxnRequest) -> str:
    how = "commit" if request.committed else "abort"
    return f"EndTxn {how}, id {request.producer_id} epoch {request.producer_epoch}"


def _begun(request: InitProducerIdRequest) -> str:
    return f"InitProducerId of {request.transactional_id}"


def _committed(request: OffsetCommitRequest | TxnOffsetCommitRequest) -> str:
    kind = "OffsetCommit" if isinstance(request, OffsetCommitRequest) else "TxnOffsetCommit"
    [partition] = request.topics[0].partitions
    name = f" as {partition.committed_metadata}" if partition.committed_metadata else ""
    return f"{kind} of {request.group_id}{name}"


def _fetched(request: OffsetFetchRequest) -> str:
    return f"OffsetFetch of {request.group_id}{', stable' if request.require_stable else ''}"


REQUESTS: Mapping[type, Callable[[Any], str]] = MappingProxyType(
    {
        ProduceRequest: _produced,
        AddPartitionsToTxnRequest: _added,
        EndTxnRequest: _ended,
        InitProducerIdRequest: _begun,
        OffsetCommitRequest: _committed,
        TxnOffsetCommitRequest: _committed,
        OffsetFetchRequest: _fetched,
    }
)


def _of_request(asked: Asked, run: Run) -> Line | None:
    if isinstance(asked.request, FetchRequest):
        return None
    tell_request = REQUESTS.get(type(asked.request))
    kind = type(asked.request).__name__.removesuffix("Request")
    what = kind if tell_request is None else tell_request(asked.request)
    at = asked.at - run.start
    if asked.response is None:
        waited = "" if asked.ended_at is None else f" within {asked.ended_at - asked.at} ms"
        return Line(at, asked.name, f"broker {asked.node_id}", f"{what}; no answer{waited}")
    return Line(at, asked.name, f"broker {asked.node_id}", f"{what}; {_answer(asked.response)}")


def _answer(response: Any) -> str:
    errors = [ErrorCode(code).name for code in dict.fromkeys(_error_codes(response)) if code]
    if isinstance(response, OffsetFetchResponse) and response.topics and not errors:
        [partition] = response.topics[0].partitions
        return f"told {partition.metadata or partition.committed_offset}"
    return " ".join(errors) or "answered"


def _error_codes(part: object) -> list[int]:
    """All error codes in a response, at any depth."""
    if isinstance(part, list | tuple):
        return [code for each in part for code in _error_codes(each)]
    if not isinstance(part, Struct):
        return []
    codes: list[int] = []
    for name in part.__struct_fields__:
        value = getattr(part, name)
        codes += [value] if name.endswith("error_code") else _error_codes(value)
    return codes


def _opened(fields: Fields) -> str:
    where = f"{fields['topic']}-{fields['partition']}"
    return f"{where} opens a transaction at {fields['offset']}, {_producer(fields)}"


def _marked(fields: Fields) -> str:
    kind = "COMMIT" if fields["commit"] else "ABORT"
    where = f"{fields['topic']}-{fields['partition']}"
    return (
        f"{where} has marker {kind} at {fields['offset']}, id {fields['producer_id']} epoch {fields['producer_epoch']}"
    )


def _producer(fields: Fields) -> str:
    return f"id {fields['producer_id']} epoch {fields['producer_epoch']}"


FACTS: Mapping[str, Callable[[Fields], str]] = MappingProxyType(
    {"transaction_opened": _opened, "marker_written": _marked}
)


def _of_fact(at: int, node_id: int, fact: Fact, run: Run) -> Line | None:
    tell_fact = FACTS.get(fact.kind)
    if tell_fact is None or at < run.start:
        return None
    broker = f"broker {node_id}"
    return Line(at - run.start, broker, broker, tell_fact(fact.fields))
