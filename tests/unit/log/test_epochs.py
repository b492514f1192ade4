"""Leader epochs: what OffsetForLeaderEpoch answers."""

from __future__ import annotations

import pytest

from odradek.log.epochs import EpochEnd, LeaderEpochs


def history(*entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for epoch, start in entries:
        epochs.assign(epoch, start)
    return epochs


@pytest.mark.parametrize(
    ("asked", "epoch", "end"),
    [
        (-1, -1, -1),
        (0, 0, 0),  # older than all that is known
        (1, 1, 10),
        (2, 1, 10),  # never seen: the one before
        (3, 3, 20),
        (5, 5, 30),  # the current one ends with the log
        (6, -1, -1),  # from the future
    ],
)
def test_end_of_an_epoch(asked: int, epoch: int, end: int) -> None:
    assert EpochEnd(epoch, end) == history((1, 0), (3, 10), (5, 20)).end_of(asked, log_end_offset=30)


def test_nothing_is_known_of_an_empty_history() -> None:
    assert EpochEnd(-1, -1) == LeaderEpochs().end_of(0, log_end_offset=0)
    assert -1 == LeaderEpochs().epoch_of(0)


def test_a_leader_that_wrote_nothing_leaves_no_trace() -> None:
    assert [(0, 0), (2, 5)] == history((0, 0), (1, 5), (2, 5)).entries()


def test_the_same_leader_again_changes_nothing() -> None:
    assert [(0, 0), (1, 5)] == history((0, 0), (1, 5), (1, 9)).entries()


def test_a_leader_of_an_earlier_epoch_forgets_the_later_ones() -> None:
    """Its own first offsets, too, as Kafka's `LeaderEpochFileCache` (metadata of an earlier time)."""
    assert [(0, 0), (2, 8)] == history((0, 0), (2, 1), (4, 4), (6, 5), (2, 8)).entries()


def test_epoch_of_an_offset() -> None:
    epochs = history((1, 2), (4, 8))
    assert [-1, 1, 1, 4] == [epochs.epoch_of(offset) for offset in (1, 2, 7, 8)]


def test_truncation_at_the_end_forgets_whole_epochs() -> None:
    epochs = history((0, 0), (1, 5), (2, 9))
    epochs.truncate_end(5)
    assert [(0, 0)] == epochs.entries()


def test_truncation_at_the_start_keeps_the_epoch_that_reaches_in() -> None:
    epochs = history((0, 0), (1, 5), (2, 9))
    epochs.truncate_start(7)
    assert [(1, 7), (2, 9)] == epochs.entries()
