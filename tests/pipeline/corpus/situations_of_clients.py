"""Every client family of tests/clients at work: its scenarios of the matrix, one after the other, at one broker."""

from __future__ import annotations

import time
from collections import defaultdict
from functools import partial
from typing import Any

from tests.clients.driver import Failure, play
from tests.clients.matrix.plan import Cell, Client, everything
from tests.clients.matrix.playing import CONFIG
from tests.oracle.real_kafka import RealKafka
from tests.pipeline.corpus.kafkas import Situation, launched, stopped

__all__ = ["OF_CLIENTS"]

LEVELS = {"level 0": 0, "level 2": 2}
NO_TRANSACTIONS_AT_LEVEL_0 = ("kafka-go", "krafka", "platformatic", "rskafka")
"""They know none, or none of a Kafka 4 whose transaction.version is 0; so what they write is the same at level 2."""
ENOUGH: dict[str, Any] = {"records": 24, "partitions": 2, "transactions": 4, "compression": "gzip"}
OF_SHARES = 600
"""Of fewer records members of a share group keep some for longer than they may."""


def _worked(client: Client, level: int, scenarios: tuple[str, ...]) -> list[RealKafka]:
    """The broker is stopped at level 2 and killed at level 0."""
    kafka = launched(RealKafka, level, {key: str(value) for key, value in CONFIG.items()})
    enough = ENOUGH | ({"records": OF_SHARES} if "share" in scenarios else {})
    for scenario in scenarios:
        for topic in (f"of-{scenario}", f"again-of-{scenario}"):
            try:
                play(client.family, scenario, kafka.bootstrap, version=client.version, topic=topic, **enough)
            except NotImplementedError:
                print(client, "has no means for", scenario, flush=True)
            except Failure as failure:  # what it has written by then is there all the same
                print(client, "failed at", scenario, str(failure)[-600:], flush=True)
                continue
            break
    time.sleep(1)
    if level == 2:
        return stopped(kafka)
    kafka.kill()
    return [kafka]


def _of_clients() -> dict[str, Situation]:
    """The newest release of each family, with all that the matrix has for it."""
    cells = defaultdict[tuple[Client, int], list[Cell]](list)
    for cell in everything():
        level = LEVELS.get(cell.broker.name)
        if cell.client.newest and level is not None:
            cells[cell.client, level].append(cell)
    return {
        f"{client.family.replace('-', '_')}_at_level_{level}": partial(
            _worked, client, level, tuple(cell.scenario for cell in of)
        )
        for (client, level), of in cells.items()
        if level == 2 or client.family not in NO_TRANSACTIONS_AT_LEVEL_0
    }


OF_CLIENTS = _of_clients()
