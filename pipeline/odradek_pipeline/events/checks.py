"""Where events contradict each other: markers and decisions, lacking markers, offsets and numbers that go back.

All but the numbers are matters of one partition and of the producers that have been in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from odradek.cli.usage import UsageError
from odradek_pipeline.audit.result import Severity, anomaly

__all__ = ["CONTRADICTION_COLUMNS", "Contradictions", "Numbers"]

Event = dict[str, Any]
Partition = tuple[str, int]
Row = tuple[Any, ...]

CONTRADICTION_COLUMNS = [
    "anomaly", "topic", "partition", "offset", "producer_id", "producer_epoch", "transactional_id", "detail",
]  # fmt: skip
_DECIDED = {"PrepareCommit": True, "PrepareAbort": False}
_WORDS = {True: "commit", False: "abort"}


@dataclass(slots=True)
class _Decision:
    """What a coordinator has decided last of a producer."""

    epoch: int
    commit: bool
    pending: bool = True


@dataclass(slots=True)
class _Log:
    """A partition, as far as its events tell."""

    end: int = 0
    leaders: set[int] = field(default_factory=set)
    topic_id: str = ""
    was_led: bool = False
    """Before somebody has been seen to lead it, nobody knows who does."""

    @property
    def is_gone(self) -> bool:
        return self.was_led and not self.leaders


@dataclass(slots=True)
class Contradictions:
    """The fold over the events of partitions, coordinators and leaders, in their order."""

    rows: list[Row]
    decided: dict[int, _Decision] = field(default_factory=dict)
    added: dict[str, set[Partition]] = field(default_factory=dict)
    """By transactional id, the partitions of its open transaction."""
    owing: dict[str, tuple[int, set[Partition]]] = field(default_factory=dict)
    """By transactional id, its producer and the partitions whose markers are not written yet."""
    logs: dict[Partition, _Log] = field(default_factory=dict)
    suspects: list[tuple[Partition, str, Row]] = field(default_factory=list)
    """Partitions without a marker, and the topic's id: a coordinator may hear of its end before the leader."""

    def add(self, event: Event, opened: Event | None) -> None:
        """Fold one event; `opened` is what opened the transaction of its producer in its partition."""
        match event["kind"]:
            case "state_change":
                self._changed(event)
            case "partitions_added":
                self.added.setdefault(event["transactional_id"], set()).add((event["topic"], event["partition"]))
            case "transaction_opened":
                self._appended(event)
            case "marker_written":
                self._appended(event)
                self._judge(event, opened)
                at = (event["topic"], event["partition"])
                for producer, partitions in self.owing.values():
                    if producer == event.get("producer_id"):
                        partitions.discard(at)
            case "transaction_closed":
                self._judge(event, opened)
            case "leadership_taken" | "leadership_given_up" | "log_truncated":
                self._led(event)

    def finish(self) -> None:
        """Of partitions that are still there it is so that their marker is lacking."""
        for at, topic_id, row in self.suspects:
            log = self.logs.get(at, _Log())
            if not log.is_gone and log.topic_id == topic_id:
                self.rows.append(row)
        self.suspects.clear()

    def _changed(self, event: Event) -> None:
        name, producer, state = event["transactional_id"], event["producer_id"], event["state_to"]
        if state in _DECIDED:
            self.decided[producer] = _Decision(event.get("producer_epoch", -1), _DECIDED[state])
            self.owing[name] = producer, self.added.pop(name, set())
        elif state.startswith("Complete"):
            if producer in self.decided:
                self.decided[producer].pending = False
            wrote, lacking = self.owing.pop(name, (producer, set()))
            for at in sorted(lacking):
                detail = f"{name} is {state}, and no marker was written here since it was decided"
                row = ("txn-without-marker", *at, -1, wrote, event.get("producer_epoch", -1), name, detail)
                self.suspects.append((at, self.logs.get(at, _Log()).topic_id, row))
        elif state in ("Empty", "Dead"):
            self.added.pop(name, None)

    def _judge(self, event: Event, opened: Event | None) -> None:
        """The outcome of a marker is the coordinator's.

        While the decision is pending, any marker of its epoch is of it. Later one is only if it ends a transaction
        whose epoch the end has bumped (KIP-890): before that an epoch has many transactions, and admins abort some.
        """
        decision = self.decided.get(event.get("producer_id", -1))
        commit, epoch = event.get("commit"), event.get("producer_epoch", -1)
        if decision is None or commit is None or decision.epoch != epoch or decision.commit == commit:
            return
        if not decision.pending and (opened is None or opened["producer_epoch"] != epoch - 1):
            return
        detail = f"the marker says {_WORDS[commit]}, and the coordinator decided {_WORDS[decision.commit]}"
        where = (event["topic"], event["partition"], event.get("offset", -1), event["producer_id"], epoch, "")
        self.rows.append(("txn-wrong-outcome", *where, detail))

    def _appended(self, event: Event) -> None:
        log = self.logs.setdefault((event["topic"], event["partition"]), _Log())
        offset = event["offset"]
        if offset < log.end:
            detail = f"offset {offset} was written, and offset {log.end - 1} before it"
            who = (event.get("producer_id", -1), event.get("producer_epoch", -1), "")
            self.rows.append(("offset-regression", event["topic"], event["partition"], offset, *who, detail))
        log.end = max(log.end, offset + 1)

    def _led(self, event: Event) -> None:
        if event.get("topic") is None or event.get("partition") is None:
            return
        log = self.logs.setdefault((event["topic"], event["partition"]), _Log())
        if event["kind"] == "log_truncated":
            log.end = event.get("end_offset") or 0
        elif event["kind"] == "leadership_given_up":
            log.leaders.discard(event.get("node", -1))
        else:
            topic_id = event.get("topic_id") or ""
            if topic_id != log.topic_id and log.was_led:
                log.end, log.leaders = 0, set()
            log.topic_id, log.was_led = topic_id, True
            log.leaders.add(event.get("node", -1))


@dataclass(slots=True)
class Numbers:
    """The numbers of events (`seq`), which only grow within a run, over the files in their order."""

    last: int | None = None
    back: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)

    def add(self, path: str, number: int | None) -> None:
        """The next event of a file."""
        if number is not None:
            self.add_range(path, number, number, back=0, missing=0)

    def add_range(self, path: str, first: int, last: int, *, back: int, missing: int) -> None:
        """A range of events, with what was found between them."""
        if self.last is not None:
            back += first < self.last
            missing += max(0, first - self.last - 1)
        self.last = last
        if back:
            self.back[path] = self.back.get(path, 0) + back
        if missing:
            self.missing[path] = self.missing.get(path, 0) + missing

    def check(self) -> None:
        """Raise UsageError where they are not of one run, in its order: then nothing can be judged."""
        if self.back:
            path, count = next(iter(self.back.items()))
            raise UsageError(
                f"{path} holds several runs, one twice, or one in disorder: numbers of events (seq) go back, {count} "
                "in all. Audit the events of each run by themselves, as they were written."
            )

    def anomalies(self) -> Iterator[dict[str, Any]]:
        """What is to be told of them."""
        for path, count in self.missing.items():
            detail = f"{path}: numbers of events (seq) are missing, {count} in all, and what was in these is not known"
            yield anomaly("events-missing", Severity.INFO, detail, path=path)
