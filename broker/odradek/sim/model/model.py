"""A model of transactions that follows the events of brokers; written from the KIPs, not from the broker.

The model takes the events of a run in order (docs/events.md), whichever clients took part. It keeps where each
transaction begins and ends in each partition, and how its coordinator decided. It judges each event and each read by
that: a read at any time must follow from the transactions that have ended by then.

It judges only facts that are certain. A coordinator that takes over emits no events for the state that it loads from
its log, so the state of its transactional ids is unknown until their next change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct

from odradek.core.machine import Fact
from odradek.sim.model.promises import Problem

__all__ = ["Fields", "Model", "ReadBatch"]

Fields = Mapping[str, Any]


TopicPartition = tuple[str, int]
COORDINATORS = "__transaction_state"
BEFORE_THE_FIRST = None
FOLLOWS: Mapping[str | None, frozenset[str]] = {
    BEFORE_THE_FIRST: frozenset({"Empty"}),
    "Empty": frozenset({"Ongoing", "PrepareAbort", "PrepareCommit", "Dead"}),
    "Ongoing": frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"}),
    "PrepareCommit": frozenset({"CompleteCommit"}),
    "PrepareAbort": frozenset({"CompleteAbort"}),
    "PrepareEpochFence": frozenset({"PrepareAbort"}),
    "CompleteCommit": frozenset({"Empty", "Ongoing", "PrepareAbort", "PrepareCommit", "Dead"}),
    "CompleteAbort": frozenset({"Empty", "Ongoing", "PrepareAbort", "PrepareCommit", "Dead"}),
    "Dead": frozenset(),
}
"""KIP-98; since KIP-890 an empty transaction may be ended, because the end bumps the epoch."""
RESTING = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})
COMPLETE = {"CompleteCommit": True, "CompleteAbort": False}
DECIDED = {"PrepareCommit": True, "PrepareAbort": False}


class ReadBatch(Struct, frozen=True):
    """A transactional batch in a response to a read_committed reader."""

    producer_id: int
    offset: int
    is_seen: bool
    """Whether the reader kept its records; False if it skipped them as aborted."""


class _Span(Struct):
    """A transaction in one partition, from its first record to its marker."""

    producer_id: int
    epoch: int
    first: int
    end: int | None = None
    commit: bool = False


class _Partition:
    def __init__(self) -> None:
        self.open: dict[int, _Span] = {}
        self.ended: dict[int, list[_Span]] = {}
        self.unreplicated: list[_Span] = []
        """Spans in `ended` without an event that shows a high watermark above their marker."""
        self.epochs: dict[int, int] = {}
        """Epoch of the last marker, by producer id."""
        self.stable = 0
        self.leader_epoch = -1
        self.is_led = False

    def truncate(self, end_offset: int) -> None:
        """Forget everything from this offset on."""
        self.open = {key: span for key, span in self.open.items() if span.first < end_offset}
        for producer_id, spans in self.ended.items():
            for span in [each for each in spans if (each.end or 0) >= end_offset]:
                spans.remove(span)
                if span.first < end_offset:
                    span.end = None
                    self.open[producer_id] = span
        self.unreplicated = [span for span in self.unreplicated if span.end is not None and span.end < end_offset]
        self.stable = min(self.stable, end_offset, *(span.first for span in self.open.values()))

    def undecided_before(self, stable: int, high_watermark: int) -> _Span | None:
        """A transaction that begins below this last stable offset although its marker may still be lost."""
        for span in self.unreplicated:
            if span.first < stable and high_watermark <= (span.end or 0):
                return span
        return None

    def span_at(self, producer_id: int, offset: int) -> _Span | None:
        """The transaction of the record at this offset."""
        for span in reversed(self.ended.get(producer_id, [])):
            if span.first <= offset < (span.end or 0):
                return span
        return self.open.get(producer_id)


class _Id:
    """The state of a transactional id, as far as events show it."""

    def __init__(self) -> None:
        self.state: str | None = None
        self.is_known = False
        """Whether `state` is current."""
        self.partitions: set[TopicPartition] | None = None
        """Partitions of the open transaction; None if unknown."""
        self.producer_ids: set[int] = set()
        self.changed = 0
        """Number of the event that changed the state last."""


class Model:
    """Takes events in order, and collects those that break a promise."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.events, self.reads = 0, 0
        """Number of events, and number of batches in reads, that it judged."""
        self._partitions: dict[tuple[TopicPartition, str], _Partition] = {}
        """By partition and topic id, as far as the id is known: a topic may be deleted and made again."""
        self._topic_ids: dict[tuple[int, TopicPartition], str] = {}
        """The topic id that a broker means by a topic's name, by broker id and partition."""
        self._present: dict[TopicPartition, str] = {}
        """The topic id that has the name now, by the events of leaders."""
        self._suspects: list[tuple[TopicPartition, str, Problem]] = []
        """Open in a partition when the coordinator completed: hanging, unless the topic turns out to be deleted."""
        self._ids: dict[str, _Id] = {}
        self._id_of: dict[int, str] = {}
        self._epochs: dict[int, int] = {}
        """The highest epoch that a coordinator gave out, by producer id."""
        self._decisions: dict[tuple[int, int], bool] = {}
        self._asked: dict[tuple[int, int, int, TopicPartition], list[int]] = {}
        """Numbers of the events with which a leader began to verify a producer, the oldest first."""
        self._takes: Mapping[str, Callable[[Fields], None]] = {
            "init_producer_id": self._initialised,
            "transaction_kept": self._kept,
            "state_change": self._changed,
            "partitions_added": self._added,
            "verify_start": self._asks,
            "verify_end": self._answered,
            "transaction_opened": self._opened,
            "marker_written": self._marked,
            "transaction_closed": self._closed,
            "lso_moved": self._moved,
            "log_truncated": self._truncated,
            "leadership_taken": self._taken,
            "leadership_given_up": self._given_up,
        }
        self._node = -1

    def take_all(self, events: Iterable[tuple[int, Fact]]) -> None:
        """Judge the next events, each with the id of its broker."""
        takes = self._takes
        for node, event in events:
            self.events += 1
            take = takes.get(event.kind)
            if take is not None:
                self._node = node
                take(event.fields)

    def take(self, node: int, kind: str, fields: Fields) -> None:
        """Judge the next event of a broker."""
        self.events += 1
        take = self._takes.get(kind)
        if take is not None:
            self._node = node
            take(fields)

    def end(self, *, deleted: Collection[str] = ()) -> None:
        """Judge the end of the events: a transaction that its coordinator has ended is open in no partition.

        `deleted`: topics that are gone by now; a leader that died before has no event for their end.
        """
        hanging = [each for each in self._suspects if each[0][0] not in deleted and self._is_there(each[0], each[1])]
        self.problems += [problem for _, _, problem in hanging]
        told = {(key, topic_id) for key, topic_id, _ in hanging}
        for (key, topic_id), partition in self._partitions.items():
            if key[0] in deleted or not self._is_there(key, topic_id) or (key, topic_id) in told:
                continue
            for span in partition.open.values():
                known = self._known(span.producer_id)
                if known is not None and known.is_known and known.state in RESTING:
                    self._say("hanging transaction", f"{_told(key)} holds one of producer {span.producer_id} open")

    def _is_there(self, key: TopicPartition, topic_id: str) -> bool:
        """Whether this topic still has the name, and the partition has a leader."""
        return self._present.get(key, "") == topic_id and self._partitions[key, topic_id].is_led

    def read(
        self, key: TopicPartition, batches: Iterable[ReadBatch], *, end: int = 0, high_watermark: int | None = None
    ) -> None:
        """Judge a response to a read_committed reader: its batches, last stable offset (`end`) and high watermark."""
        partition = self._named(key, self._present.get(key, ""))
        if high_watermark is not None:
            self._hold_back(key, partition, stable=end, high_watermark=high_watermark)
        for each in partition.open.values():
            if each.first < end:
                self._say("last stable offset", f"that of {_told(key)} is told as {end}, one is open at {each.first}")
        for batch in batches:
            self.reads += 1
            span = partition.span_at(batch.producer_id, batch.offset)
            where = f"offset {batch.offset} of {_told(key)}, of producer {batch.producer_id}"
            if span is None or span.end is None:
                self._say("dirty read", f"{where}, was given out while its transaction was open")
            elif span.commit and not batch.is_seen:
                self._say("lost write", f"{where}, was passed over, and its transaction committed at {span.end}")
            elif batch.is_seen and not span.commit:
                self._say("aborted read", f"{where}, was read, and its transaction aborted at {span.end}")

    def _say(self, name: str, seen: str) -> None:
        self.problems.append(Problem(name, seen))

    def _of(self, key: TopicPartition) -> _Partition:
        """The partition that the broker of the present event means by the name."""
        return self._named(key, self._topic_ids.get((self._node, key), ""))

    def _named(self, key: TopicPartition, topic_id: str) -> _Partition:
        found = self._partitions.get((key, topic_id))
        if found is None:
            found = self._partitions[key, topic_id] = _Partition()
        return found

    def _known(self, producer_id: int) -> _Id | None:
        return self._ids.get(self._id_of.get(producer_id, ""))

    def _id(self, fields: Fields) -> _Id:
        name, producer_id, epoch = fields["transactional_id"], fields["producer_id"], fields["producer_epoch"]
        found = self._ids.setdefault(name, _Id())
        found.producer_ids.add(producer_id)
        self._id_of[producer_id] = name
        highest = self._epochs.get(producer_id, -1)
        if epoch < highest:
            self._say("reused epoch", f"{name} has epoch {epoch} of producer {producer_id} after {highest}")
        self._epochs[producer_id] = max(epoch, highest)
        return found

    def _initialised(self, fields: Fields) -> None:
        self._id(fields)

    def _kept(self, fields: Fields) -> None:
        found = self._id(fields)
        found.is_known, found.partitions = False, None

    def _changed(self, fields: Fields) -> None:
        found, before, after = self._id(fields), fields.get("state_from"), fields["state_to"]
        name = fields["transactional_id"]
        if found.is_known and found.state != before:
            self._say("wrong transition", f"{name} goes from {before} to {after}, and was in {found.state}")
        if after not in FOLLOWS.get(before, ()):
            self._say("wrong transition", f"{name} goes from {before} to {after}")
        found.state, found.is_known, found.changed = after, True, self.events
        if after == "Ongoing":
            found.partitions = set()
        if after in DECIDED:
            self._decisions[fields["producer_id"], fields["producer_epoch"]] = DECIDED[after]
        if after in COMPLETE:
            self._completed(name, found)
        if after == "Dead":
            del self._ids[name]

    def _completed(self, name: str, found: _Id) -> None:
        """All markers are written, so no partition may hold the transaction open."""
        for (key, topic_id), partition in self._partitions.items():
            for producer_id in found.producer_ids & partition.open.keys():
                if self._is_there(key, topic_id):
                    # The coordinator may hear of the deletion of a topic before its leader does.
                    seen = f"{name} is complete, and {_told(key)} holds it open at {partition.open[producer_id].first}"
                    self._suspects.append((key, topic_id, Problem("hanging transaction", seen)))

    def _added(self, fields: Fields) -> None:
        found = self._id(fields)
        if found.partitions is not None:
            found.partitions.add((fields["topic"], fields["partition"]))

    def _asks(self, fields: Fields) -> None:
        self._asked.setdefault(self._question(fields), []).append(self.events)

    def _question(self, fields: Fields) -> tuple[int, int, int, TopicPartition]:
        return self._node, fields["producer_id"], fields["producer_epoch"], (fields["topic"], fields["partition"])

    def _answered(self, fields: Fields) -> None:
        key = (fields["topic"], fields["partition"])
        # A leader may verify again before the first answer; answers come in order.
        questions = self._asked.get(self._question(fields))
        asked = questions.pop(0) if questions else None
        found = self._ids.get(fields["transactional_id"])
        if fields["verdict"] != "accepted" or asked is None or found is None or not found.is_known:
            return
        if found.changed > asked:
            return
        # The state has not changed since the question, so only one answer is right.
        is_open = found.state == "Ongoing" and (found.partitions is None or key in found.partitions)
        if not is_open or fields["producer_epoch"] < self._epochs.get(fields["producer_id"], 0):
            self._say("wrong verdict", f"{_told(key)} was told yes for {fields['transactional_id']} in {found.state}")

    def _opened(self, fields: Fields) -> None:
        key, producer_id, offset = (fields["topic"], fields["partition"]), fields["producer_id"], fields["offset"]
        partition, known = self._of(key), self._known(producer_id)
        if producer_id in partition.open:
            self._say("overlapping transactions", f"{_told(key)} opens one of producer {producer_id} twice")
        partition.open[producer_id] = _Span(producer_id, fields["producer_epoch"], offset)
        if known is None or not known.is_known:
            return
        is_added = known.partitions is None or key in known.partitions
        # While markers are owed, a batch that was verified before may still be appended: its marker follows it.
        if known.state in RESTING or not is_added:
            self._say(
                "late record", f"{_told(key)} opens a transaction at {offset}, and its coordinator has none there"
            )

    def _marked(self, fields: Fields) -> None:
        key, producer_id, epoch = (
            (fields["topic"], fields["partition"]),
            fields["producer_id"],
            fields["producer_epoch"],
        )
        partition = self._of(key)
        last = partition.epochs.get(producer_id, -1)
        if epoch < last:
            self._say("wrong marker", f"{_told(key)} has a marker of epoch {epoch} behind one of {last}")
        partition.epochs[producer_id] = max(epoch, last)

    def _closed(self, fields: Fields) -> None:
        key, producer_id, epoch = (
            (fields["topic"], fields["partition"]),
            fields["producer_id"],
            fields["producer_epoch"],
        )
        partition = self._of(key)
        span = partition.open.pop(producer_id, None)
        if span is None:
            # The transaction began before the first event.
            span = _Span(producer_id, epoch, fields["first_offset"])
        span.end, span.commit = fields["offset"], fields["commit"]
        partition.ended.setdefault(producer_id, []).append(span)
        partition.unreplicated.append(span)
        decided = self._decisions.get((producer_id, epoch))
        # If the end of a transaction bumps the epoch, the epoch identifies one transaction (KIP-890).
        if decided is not None and span.epoch == epoch - 1 and decided is not span.commit:
            self._say("wrong marker", f"{_told(key)} has the wrong marker at {span.end}")

    def _moved(self, fields: Fields) -> None:
        key, stable = (fields["topic"], fields["partition"]), fields["lso"]
        partition = self._of(key)
        if stable > fields["hw"]:
            self._say("last stable offset", f"that of {_told(key)} is {stable}, beyond {fields['hw']}")
        if stable < partition.stable:
            self._say("last stable offset", f"that of {_told(key)} is {stable} after {partition.stable}")
        partition.stable = stable
        first = min((span.first for span in partition.open.values()), default=stable)
        if stable > first:
            self._say("last stable offset", f"that of {_told(key)} is {stable}, and a transaction is open at {first}")
        self._hold_back(key, partition, stable=stable, high_watermark=fields["hw"])
        partition.unreplicated = [span for span in partition.unreplicated if (span.end or 0) >= fields["hw"]]

    def _hold_back(self, key: TopicPartition, partition: _Partition, *, stable: int, high_watermark: int) -> None:
        """A transaction whose marker is not replicated is undecided: the next leader may lack the marker (KIP-98)."""
        span = partition.undecided_before(stable, high_watermark)
        if span is not None:
            seen = f"the marker at {span.end} of what begins at {span.first} is not below {high_watermark}"
            self._say("last stable offset", f"that of {_told(key)} is {stable}, and {seen}")

    def _truncated(self, fields: Fields) -> None:
        self._of((fields["topic"], fields["partition"])).truncate(fields["end_offset"])

    def _taken(self, fields: Fields) -> None:
        key, leader_epoch = (fields["topic"], fields["partition"]), fields["leader_epoch"]
        topic_id = self._topic_ids[self._node, key] = self._present[key] = fields.get("topic_id", "")
        partition = self._of(key)
        given_up = not partition.is_led and leader_epoch == partition.leader_epoch
        if leader_epoch < partition.leader_epoch or given_up:
            # The topic was deleted and made again: a new leader of the same topic would have a higher epoch.
            partition = self._partitions[key, topic_id] = _Partition()
        partition.leader_epoch, partition.is_led = leader_epoch, True
        if key[0] == COORDINATORS:
            for known in self._ids.values():
                known.is_known, known.partitions = False, None

    def _given_up(self, fields: Fields) -> None:
        partition = self._of((fields["topic"], fields["partition"]))
        if fields["leader_epoch"] >= partition.leader_epoch:
            partition.is_led = False


def _told(key: TopicPartition) -> str:
    return f"{key[0]}-{key[1]}"
