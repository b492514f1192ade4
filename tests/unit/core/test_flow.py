"""The kernel: flows run to their first park, wake in order, expire, and are closed."""

from typing import Any

import pytest

from odradek.core.flow import Flow, Kernel, Wait


class Outcome:
    """What `done` was told."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.errors: list[BaseException] = []

    def __call__(self, value: Any, error: BaseException | None) -> None:
        if error is None:
            self.values.append(value)
        else:
            self.errors.append(error)


async def _value(value: int) -> int:
    return value


async def _await(wait: Wait[Any]) -> Any:
    return await wait


def test_a_flow_that_never_parks_is_done_at_once() -> None:
    outcome = Outcome()
    flow = Kernel().start(_value(7), outcome)
    assert [7] == outcome.values
    assert flow.finished


def test_a_parked_flow_goes_on_when_its_wait_is_settled_and_the_queue_is_run() -> None:
    kernel, outcome = Kernel(), Outcome()
    wait: Wait[Any] = Wait(kernel)
    kernel.start(_await(wait), outcome)
    assert wait.settle("now")
    assert [] == outcome.values
    kernel.run_ready()
    assert ["now"] == outcome.values


def test_flows_run_in_the_order_in_which_their_waits_were_settled() -> None:
    kernel, outcome = Kernel(), Outcome()
    waits: list[Wait[int]] = [Wait(kernel) for _ in range(3)]
    for wait in waits:
        kernel.start(_await(wait), outcome)
    for position in (2, 0, 1):
        waits[position].settle(position)
    kernel.run_ready()
    assert [2, 0, 1] == outcome.values


def test_a_wait_is_settled_once() -> None:
    kernel, outcome = Kernel(), Outcome()
    wait: Wait[Any] = Wait(kernel)
    kernel.start(_await(wait), outcome)
    assert wait.settle(1)
    assert not wait.settle(2)
    kernel.run_ready()
    assert [1] == outcome.values


def test_a_wait_that_was_settled_before_does_not_park() -> None:
    kernel, outcome = Kernel(), Outcome()
    wait: Wait[Any] = Wait(kernel)
    wait.settle("early")
    kernel.start(_await(wait), outcome)
    assert ["early"] == outcome.values


def test_a_deadline_settles_with_its_own_value() -> None:
    kernel, outcome = Kernel(), Outcome()
    wait = kernel.wait_until(100, "late")
    kernel.start(_await(wait), outcome)
    kernel.expire(99)
    kernel.run_ready()
    assert [] == outcome.values
    assert 100 == kernel.wake_at()
    kernel.expire(100)
    kernel.run_ready()
    assert ["late"] == outcome.values
    assert kernel.wake_at() is None


def test_a_settled_wait_leaves_no_deadline_behind() -> None:
    kernel = Kernel()
    kernel.wait_until(5, None).settle(None)
    kernel.wait_until(9, None)
    assert 9 == kernel.wake_at()


def test_an_exception_is_given_to_done() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    outcome = Outcome()
    Kernel().start(fail(), outcome)
    assert ["broken"] == [str(error) for error in outcome.errors]


def test_closing_a_parked_flow_runs_its_finally_and_not_its_done() -> None:
    kernel, outcome = Kernel(), Outcome()
    left: list[str] = []

    async def stay() -> None:
        try:
            await Wait[None](kernel)
        finally:
            left.append("left")

    flow = kernel.start(stay(), outcome)
    kernel.close(flow)
    kernel.close(flow)
    assert ["left"] == left
    assert [] == outcome.values


def test_a_closed_flow_that_was_woken_before_is_not_run() -> None:
    kernel, outcome = Kernel(), Outcome()
    wait: Wait[Any] = Wait(kernel)
    flow: Flow[object] = kernel.start(_await(wait), outcome)
    wait.settle(1)
    kernel.close(flow)
    kernel.run_ready()
    assert [] == outcome.values


def test_awaiting_anything_but_a_wait_of_the_node_is_refused() -> None:
    class Foreign:
        def __await__(self) -> Any:
            yield "a future of an event loop"

    async def stray() -> None:
        await Foreign()

    with pytest.raises(TypeError, match="only the node's Wait"):
        Kernel().start(stray(), Outcome())
