"""Odradek takes other certificates while it runs as the real broker has (`python -m tests.security stores` records)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from msgspec import Struct
from tests.security.brokers import RECORDED
from tests.security.stores import LISTENERS, PROTOCOLS, STORES, config, make_stores, play

from odradek.testing import Cluster

_NAMES = re.compile(r"SAN=\[\[(.*?)\]\]\}")


class Broker(Struct, frozen=True):
    folder: Path
    ports: Mapping[str, int]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder: Path = tmp_path_factory.mktemp("stores")
    make_stores(folder)
    listeners = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "listener.security.protocol.map": PROTOCOLS,
    }
    with Cluster(config={**listeners, **config(folder)}, log_level="error") as cluster:
        yield Broker(folder, {name: int(cluster.bootstrap_of(name).rpartition(":")[2]) for name in LISTENERS})


def canonical(line: str) -> str:
    """Java tells the names of a certificate in the order of a hash table."""
    return _NAMES.sub(lambda found: f"SAN={sorted(found[1].split('], ['))}", line)


@pytest.mark.slow
@pytest.mark.parametrize("story", STORES)
def test_certificates_become_others(story: str, broker: Broker) -> None:
    expected = json.loads((RECORDED / "stores.json").read_text())[story]
    assert [canonical(line) for line in expected] == [
        canonical(line) for line in play(story, broker.folder, broker.ports)
    ]


def test_nothing_is_recorded_that_is_not_told() -> None:
    assert list(STORES) == list(json.loads((RECORDED / "stores.json").read_text()))
