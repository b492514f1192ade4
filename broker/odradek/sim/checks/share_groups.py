"""Promises of a share group (KIP-932), checked when everything has come to rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from odradek.core.machine import Fact
from odradek.log.log_store import LogStore
from odradek.records.record import iterate_records
from odradek.share.partition import REJECTED
from odradek.sim.clients.share_consumers import (
    DEAD_LETTERS,
    DELIVERIES_MAX,
    LOCK_MS,
    NEVER,
    SESSION_MS,
    TOPIC,
    Given,
    Sharer,
)
from odradek.sim.model.model import Fields
from odradek.sim.model.promises import Problem

__all__ = ["Letter", "dead_letter_problems", "dead_letters", "share_problems"]

TopicPartition = tuple[str, int]


class Letter(Struct, frozen=True):
    """A record of the dead letter queue, by what its headers tell of the source."""

    partition: int
    offset: int
    count: int
    cause: str


def share_problems(
    sharers: Sequence[Sharer],
    values: Mapping[TopicPartition, Sequence[bytes | None]],
    facts: Iterable[tuple[int, int, Fact]],
    calm_at: int = 0,
) -> Iterator[Problem]:
    """Every committed record, and no other, is delivered at least once, and to one member at a time.

    `calm_at`: when the faults ended.
    """
    if not sharers:
        return
    given: dict[tuple[int, int], list[Given]] = {}
    for each in sorted(
        (each for sharer in sharers for each in sharer.given), key=lambda each: (each.told_at, each.count)
    ):
        given.setdefault((each.partition, each.offset), []).append(each)
    committed = {value for found in values.values() for value in found}
    delivered = {each.value for of_record in given.values() for each in of_record}
    for value in sorted(delivered - committed, key=repr):
        yield Problem("aborted read", f"{value!r} was given to a member of {TOPIC}'s share group")
    for value in sorted(committed - delivered, key=repr):
        yield Problem("lost write", f"{value!r} is committed, and no member of the share group was given it")
    taken_over: dict[int, list[int]] = {}
    for at, _, fact in facts:
        fields: Fields = fact.fields
        if fact.kind == "leadership_taken" and fields["topic"] == TOPIC:
            taken_over.setdefault(fields["partition"], []).append(at)
    for (partition, offset), of_record in given.items():
        where = f"{TOPIC}-{partition} at {offset}"
        moved = taken_over.get(partition, [])
        for number, later in enumerate(of_record):
            if later.count > DELIVERIES_MAX:
                yield Problem("delivered again", f"{where} was delivered {later.count} times")
            if later.refused_at < later.asked_at + LOCK_MS and not _moved(later, later.refused_at, moved):
                yield Problem("broken lock", f"{where} was with {later.member}, which was told that it is not")
            for earlier in of_record[:number]:
                yield from _between(where, earlier, later, moved)
        # Two deliveries in one millisecond are ordered by their delivery counts.
        last = max(of_record, key=lambda each: each.count)
        is_accepted = any(each.accepted_at < NEVER or each.is_unsure or each.may_be_rejected for each in of_record)
        if not is_accepted and _is_kept(last, sharers, calm_at):
            yield Problem("kept for ever", f"{where} is with {last.member}, whose lock is over")


def _between(where: str, earlier: Given, later: Given, moved: Sequence[int]) -> Iterator[Problem]:
    done_at = min(earlier.accepted_at, earlier.rejected_at)
    if done_at < NEVER and later.asked_at > done_at:
        said = "accepted" if earlier.accepted_at < NEVER else "rejected"
        yield Problem("delivered again", f"{where} was {said} by {earlier.member}, and given to {later.member}")
    if earlier.accepted_at < NEVER and earlier.said_at > later.told_at and earlier.member != later.member:
        had_until = min(later.asked_at + LOCK_MS, later.let_go_at)
        if earlier.accepted_at < had_until and not _moved(later, earlier.accepted_at, moved):
            yield Problem("broken lock", f"{where} was accepted by {earlier.member} while {later.member} had it")
    # Locks live in the leader's memory, and end with it.
    if later.told_at < min(earlier.asked_at + LOCK_MS, earlier.let_go_at) and not _moved(earlier, later.told_at, moved):
        yield Problem("broken lock", f"{where} was given to {later.member} while {earlier.member} had it")


def _is_kept(given: Given, sharers: Sequence[Sharer], calm_at: int) -> bool:
    """Whether a member has asked the leader for records in vain since the lock ended.

    Exempt is a record that a later request without an answer may have acquired: its lock ends later, or the record was
    archived after too many deliveries.
    """
    lost = sum(each.lost[given.partition] for each in sharers)
    over_at = max(given.told_at, calm_at + LOCK_MS) + LOCK_MS + SESSION_MS
    asked_at = max(each.in_vain.get(given.partition, 0) for each in sharers)
    return given.count + lost < DELIVERIES_MAX and asked_at > over_at


def _moved(given: Given, until: int, moved: Sequence[int]) -> bool:
    """Whether the partition got another leader in between."""
    return any(given.asked_at <= at <= until for at in moved)


def dead_letters(store: LogStore) -> list[Letter]:
    """Everything in the dead letter queue of the group."""
    found: list[Letter] = []
    for log in store.logs():
        if log.topic != DEAD_LETTERS:
            continue
        for record in (record for batch in log.batches() for record in iterate_records(batch)):
            told = {name.removeprefix("__dlq.errors."): (value or b"").decode() for name, value in record.headers}
            found.append(
                Letter(int(told["partition"]), int(told["offset"]), int(told["delivery.count"]), told["message"])
            )
    return found


def dead_letter_problems(
    sharers: Sequence[Sharer], letters: Iterable[Letter], facts: Iterable[tuple[int, int, Fact]]
) -> Iterator[Problem]:
    """A rejected record is in the queue at least once, unless its loss was told, and an accepted one never."""
    given: dict[tuple[int, int], list[Given]] = {}
    for each in (each for sharer in sharers for each in sharer.given):
        given.setdefault((each.partition, each.offset), []).append(each)
    there: set[tuple[int, int]] = set()
    for letter in letters:
        there.add((letter.partition, letter.offset))
        of_record = given.get((letter.partition, letter.offset), [])
        where = f"{TOPIC}-{letter.partition} at {letter.offset}"
        if any(each.accepted_at < NEVER for each in of_record):
            yield Problem("wrong dead letter", f"{where} was accepted")
        if letter.cause == REJECTED and not any(each.may_be_rejected for each in of_record):
            yield Problem("wrong dead letter", f"{where} was rejected by no member")
        if letter.cause != REJECTED and letter.count < DELIVERIES_MAX:
            yield Problem("wrong dead letter", f"{where} was delivered too seldom: {letter.count}")
    for _, _, fact in facts:
        if fact.kind == "dead_letters_lost":
            fields: Fields = fact.fields
            offsets = range(fields["first_offset"], fields["last_offset"] + 1)
            there.update((fields["partition"], offset) for offset in offsets)
    for (partition, offset), of_record in given.items():
        if (partition, offset) not in there and any(each.rejected_at < NEVER for each in of_record):
            yield Problem("lost dead letter", f"{TOPIC}-{partition} at {offset} was rejected")
