"""Consume, transform, produce over a share group is exactly once (KIP-1289)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from odradek.sim.clients.share_workers import COPIES, DELIVERIES_MAX, ShareWorker, Worked
from odradek.sim.model.promises import Problem

__all__ = ["share_work_problems"]

TopicPartition = tuple[str, int]


def share_work_problems(
    workers: Sequence[ShareWorker],
    values: Mapping[TopicPartition, Sequence[bytes | None]],
    copies: Iterable[bytes | None],
) -> Iterator[Problem]:
    """Every committed record has one committed copy, and no record is delivered after its transaction was committed.

    Exempt is a record that may have been delivered as often as it may be: then it is archived.
    """
    if not workers:
        return
    of_record: dict[tuple[TopicPartition, int], list[Worked]] = {}
    counts: dict[bytes | None, int] = {}
    for each in (each for worker in workers for each in worker.worked):
        of_record.setdefault((each.record.partition, each.record.offset), []).append(each)
        counts[each.record.value] = max(counts.get(each.record.value, 0), each.record.count)
    made = Counter(copies)
    committed = {value: partition for partition, found in values.items() for value in found}
    lost = sum((worker.lost for worker in workers), Counter[int]())
    for value in sorted(made.keys() - committed.keys(), key=repr):
        yield Problem("aborted read", f"{value!r} is not committed, and was copied to {COPIES}")
    for value, (topic, index) in committed.items():
        is_exempt = counts.get(value, 0) + lost[index] >= DELIVERIES_MAX
        if made[value] > 1 or (made[value] == 0 and not is_exempt):
            yield Problem("work not done once", f"{value!r} of {topic}-{index} has {made[value]} copies in {COPIES}")
    for ((topic, index), offset), worked in of_record.items():
        done_at = min((each.committed_at for each in worked if each.committed_at is not None), default=None)
        if done_at is not None and any(each.asked_at > done_at for each in worked):
            yield Problem("delivered again", f"{topic}-{index} at {offset} was acknowledged in a committed transaction")
