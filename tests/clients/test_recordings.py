"""A handful of runs of real clients, recorded and played again; `python -m bench.recordings` plays a thousand."""

import asyncio
from pathlib import Path

import pytest
from tests.clients.driver import play

from odradek.cli.logs import make_logger
from odradek.replay.replay import Replay
from odradek.testing import Cluster

pytestmark = pytest.mark.client


@pytest.mark.parametrize("family", ["confluent-kafka", "aiokafka"])
@pytest.mark.parametrize(("scenario", "brokers"), [("transactions", 3), ("group", 1)])
def test_a_client_gets_the_same_answers_again(tmp_path: Path, family: str, scenario: str, brokers: int) -> None:
    path = tmp_path / "run.rec"
    with Cluster(brokers=brokers, record=path) as cluster:
        play(family, scenario, cluster.bootstrap, topic="t", group="g", transactional_id="x", records=60)
    played = asyncio.run(Replay(path).play(make_logger(level="error")))
    assert played.difference is None, played.text
    assert played.why is None
    assert played.player.answers > 20
