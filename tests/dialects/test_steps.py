"""The steps of a dialect's client, run to their end."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from odradek.releases.dialects.producer import Ask, Pause, Role, Steps, run_at_once, run_by
from odradek.wire.messages.api_versions_request import ApiVersionsRequest

ASK = Ask(Role.ANYBODY, "", ApiVersionsRequest(), 0)


def steps() -> Steps[list[object]]:
    return [(yield ASK), (yield Pause(20)), (yield ASK)]


def test_a_function_answers_each_step() -> None:
    served: list[object] = []

    def serve(step: Ask | Pause) -> object:
        served.append(step)
        return None if isinstance(step, Pause) else len(served)

    assert [1, None, 3] == run_at_once(serve, steps())
    assert [ASK, Pause(20), ASK] == served


def test_a_generator_serves_by_steps_of_its_own() -> None:
    def serve(step: Ask | Pause) -> Generator[str, str, object]:
        return (yield "first") + (yield "second") if isinstance(step, Ask) else None

    running = run_by(serve, steps())
    assert ["first", "second", "first", "second"] == [next(running), *map(running.send, "abc")]
    with pytest.raises(StopIteration) as stop:
        running.send("d")
    assert ["ab", None, "cd"] == stop.value.value


def test_what_serving_raises_ends_the_run() -> None:
    def serve(step: Ask | Pause) -> object:
        raise ConnectionError("nobody is there")

    with pytest.raises(ConnectionError):
        run_at_once(serve, steps())
