"""What a transaction costs a node, in calls: unlike a time, the count is the same on every machine."""

from __future__ import annotations

import sys
from types import FrameType

import pytest
from tests.kips.cluster import Cluster
from tests.kips.helpers import OK, P
from tests.kips.producer import Producer

from odradek.node.node import Node

CALLS_MAX = 1_040
"""Of Python and of C, in the steps of a broker that is its own coordinator; 1,560 before it served itself directly."""


def test_a_transaction_of_one_record(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(calls_itself=True, tells=False)
    producer = Producer.started(cluster)
    for _ in range(3):
        assert OK is producer.send(P)
        assert OK is producer.commit()
        cluster.world.run()
    calls = steps = 0

    def entered(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    step = Node.step

    def counted(self: Node, *arguments: object) -> object:
        nonlocal steps
        steps += 1
        sys.setprofile(entered)
        try:
            return step(self, *arguments)  # type: ignore[arg-type]
        finally:
            sys.setprofile(None)

    monkeypatch.setattr(Node, "step", counted)
    assert OK is producer.send(P)
    assert OK is producer.commit()
    cluster.world.run()
    with capsys.disabled():
        print(f" {calls} calls in {steps} steps", end="")
    assert calls < CALLS_MAX
