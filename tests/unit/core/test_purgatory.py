"""The purgatory: waits under several keys, woken once, gone from all of them."""

from typing import Any

from odradek.core.flow import Kernel, Purgatory


class _Room:
    def __init__(self) -> None:
        self.kernel = Kernel()
        self.purgatory = Purgatory(self.kernel)
        self.seen: list[Any] = []

    def park(self, *keys: str, deadline: int | None = None) -> Any:
        async def stay() -> Any:
            return await self.purgatory.park(keys, deadline=deadline)

        return self.kernel.start(stay(), lambda value, error: self.seen.append(value))

    def wake(self, key: str, value: object) -> None:
        self.purgatory.wake(key, value)
        self.kernel.run_ready()


def test_a_key_wakes_all_who_wait_under_it() -> None:
    room = _Room()
    room.park("a")
    room.park("a")
    room.park("b")
    room.wake("a", 1)
    assert [1, 1] == room.seen
    assert 1 == len(room.purgatory)


def test_a_wait_under_two_keys_leaves_both() -> None:
    room = _Room()
    room.park("a", "b")
    room.wake("a", 1)
    assert 0 == len(room.purgatory)
    room.wake("b", 2)
    assert [1] == room.seen


def test_the_deadline_gives_none() -> None:
    room = _Room()
    room.park("a", deadline=10)
    room.kernel.expire(10)
    room.kernel.run_ready()
    assert [None] == room.seen
    assert 0 == len(room.purgatory)


def test_a_closed_flow_leaves_nothing_behind() -> None:
    room = _Room()
    flow = room.park("a", "b")
    room.kernel.close(flow)
    assert 0 == len(room.purgatory)
