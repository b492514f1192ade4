"""The share coordinator: what it keeps, and that its log says the same."""

from __future__ import annotations

import random

import pytest

from odradek.core.machine import Answered, Decision, LogRecord, Proposed, Refused
from odradek.records.batch import batches
from odradek.records.record import Record, build_batch
from odradek.share.coordinator import ShareCoordinator, Written
from odradek.share.state import Delivery, ShareKey, ShareState, StateBatch, coordinator_key, laid_over
from odradek.wire.errors import ErrorCode

TOPIC = bytes([1] * 16)
KEY = ShareKey("g", TOPIC, 0)


class Desk:
    """A coordinator with its log, in memory."""

    def __init__(self, updates_per_snapshot: int = 500) -> None:
        self.machine = self.new(updates_per_snapshot)
        self.updates_per_snapshot = updates_per_snapshot
        self.log: list[LogRecord] = []

    def new(self, updates_per_snapshot: int) -> ShareCoordinator:
        return ShareCoordinator(
            updates_per_snapshot=updates_per_snapshot,
            prune_interval_ms=1000,
            exists=lambda topic_id, index: topic_id == TOPIC and index < 3,
        )

    def carry_out(self, decision: Decision[object]) -> object:
        if not isinstance(decision, Proposed):
            return decision
        base = len(self.log)
        self.log += decision.records
        assert self.machine.fold_own(decision, base)
        return decision.reply

    def replayed(self) -> ShareCoordinator:
        machine = self.new(self.updates_per_snapshot)
        for offset, each in enumerate(self.log):
            data = build_batch([Record(timestamp=7, key=each.key, value=each.value)], base_offset=offset)
            for batch in batches(memoryview(data)):
                machine.apply(batch)
        return machine

    def write(self, *changed: StateBatch, start: int = 0, epoch: int = 0, count: int = 0) -> object:
        return self.carry_out(self.machine.write(KEY, Written(1, epoch, start, count, changed), 7))


def test_an_unknown_partition_cannot_be_read_or_written() -> None:
    desk = Desk()

    for refused in (desk.machine.read(KEY, 0, 7), desk.write()):
        assert isinstance(refused, Refused)
        assert refused.error is ErrorCode.INVALID_REQUEST
    assert Answered(None) == desk.machine.summary(KEY)


def test_a_new_leader_fences_the_one_before() -> None:
    desk = Desk()
    desk.carry_out(desk.machine.initialize(KEY, 1, 0, 7))
    desk.write(StateBatch(0, 4, Delivery.ACKNOWLEDGED, 1))

    known = desk.carry_out(desk.machine.read(KEY, 3, 7))

    assert isinstance(known, ShareState)
    assert (StateBatch(0, 4, 2, 1),) == known.batches
    refused = desk.write(epoch=2)
    assert isinstance(refused, Refused)
    assert refused.error is ErrorCode.FENCED_LEADER_EPOCH


def test_the_log_says_what_is_kept() -> None:
    roll = random.Random(5)
    desk = Desk(updates_per_snapshot=3)
    desk.carry_out(desk.machine.initialize(KEY, 1, 0, 7))
    start = 0
    for _ in range(100):
        first = start + roll.randint(0, 10)
        start += roll.randint(0, 2)
        desk.write(
            StateBatch(first, first + roll.randint(0, 5), roll.choice((0, 2, 4)), roll.randint(1, 3)), start=start
        )

    assert desk.machine.durable_state() == desk.replayed().durable_state()
    # Nothing before the last snapshot is needed.
    since = desk.machine.prunable(len(desk.log), 7)
    assert 0 < since <= len(desk.log)
    desk.log[:since] = [LogRecord(b"\\x00\\x09", b"")] * since
    assert desk.machine.durable_state() == desk.replayed().durable_state()


def test_what_is_deleted_is_forgotten() -> None:
    desk = Desk()
    desk.carry_out(desk.machine.initialize(KEY, 1, 0, 7))

    desk.carry_out(desk.machine.delete(KEY))

    assert {} == desk.machine.durable_state() == desk.replayed().durable_state()
    assert Answered(None) == desk.machine.delete(KEY)


@pytest.mark.parametrize("seed", range(30))
def test_batches_are_laid_over_one_another_record_by_record(seed: int) -> None:
    roll = random.Random(seed)
    below: tuple[StateBatch, ...] = ()
    model: dict[int, tuple[int, int]] = {}
    for _ in range(20):
        first = roll.randint(0, 20)
        new = StateBatch(first, first + roll.randint(0, 8), roll.choice((0, 2, 4)), roll.randint(1, 3))
        below = laid_over(below, [new], 0)
        for offset in range(new.first, new.last + 1):
            count, state = model.get(offset, (0, 0))
            model[offset] = max((count, state), (new.count, new.state))
    flat = {offset: (each.count, each.state) for each in below for offset in range(each.first, each.last + 1)}
    assert model == flat
    assert list(below) == sorted(below, key=lambda each: each.first)


def test_the_key_is_spelled_as_kafka_does() -> None:
    assert "g:AQEBAQEBAQEBAQEBAQEBAQ:0" == coordinator_key(KEY)
