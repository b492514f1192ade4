"""Blocks of producer ids."""

from odradek.txn.producer_ids import BLOCK_SIZE, ProducerIds


def wants(ids: ProducerIds, now: int = 0) -> bool:
    return bool(list(ids.due(now)))


def test_a_new_broker_asks_for_a_block_and_has_no_id_before_it_comes() -> None:
    ids = ProducerIds()
    assert wants(ids)
    assert ids.take() is None
    ids.granted(3000, BLOCK_SIZE)
    assert not wants(ids)
    assert [3000, 3001] == [ids.take(), ids.take()]


def test_a_broker_that_starts_bare_asks_when_somebody_needs_an_id() -> None:
    ids = ProducerIds(at_start=False)
    assert not wants(ids)
    assert ids.take() is None
    assert wants(ids)
    ids.granted(3000, BLOCK_SIZE)
    assert 3000 == ids.take()


def test_the_next_block_is_asked_for_at_nine_tenths() -> None:
    ids = ProducerIds()
    ids.granted(0, 1000)
    for _ in range(899):
        ids.take()
    assert not wants(ids)
    assert 899 == ids.take()
    assert wants(ids)


def test_ids_go_on_with_the_next_block() -> None:
    ids = ProducerIds()
    ids.granted(0, 10)
    for _ in range(9):
        ids.take()
    ids.granted(500, 10)
    assert [9, 500, 501] == [ids.take(), ids.take(), ids.take()]
    assert not wants(ids)


def test_a_used_up_block_leaves_nothing() -> None:
    ids = ProducerIds()
    ids.granted(0, 2)
    assert [0, 1, None] == [ids.take(), ids.take(), ids.take()]
    ids.granted(7, 1)
    assert [7, None] == [ids.take(), ids.take()]


def test_a_failure_is_followed_by_a_pause() -> None:
    ids = ProducerIds()
    assert wants(ids, 100)
    ids.failed(100)
    assert not wants(ids, 149)
    assert 150 == ids.wake_at()
    assert wants(ids, 150)
    assert ids.wake_at() is None
