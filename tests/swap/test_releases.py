"""As an older release (`--as-kafka`) a data directory has the formats that this release writes.

`releases.json` has what real brokers wrote (`python -m tests.swap.releases record`); with `make swap` each release and
Odradek go on with one directory in turns.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from tests.swap.outcomes import Lines
from tests.swap.releases import CONFIG, RECORDED, RELEASES, Seen, Written, released, see, work, written
from tests.swap.turns import LARGE

from odradek.cli.usage import UsageError
from odradek.testing import Cluster

pytestmark = [pytest.mark.client, pytest.mark.slow]

KAFKA = msgspec.json.decode(RECORDED.read_bytes(), type=dict[str, Written])


def odradek(path: Path, release: str, number: int) -> Seen:
    """Let Odradek go on with a directory as this release; nobody can have read it wrongly who says nothing."""
    lines = Lines()
    with Cluster(data_dir=path, as_kafka=release, config=CONFIG, log=lines) as cluster:
        work(cluster.bootstrap, number)
        seen = see(cluster.bootstrap)
    assert [] == [line for line in lines.lines if not line.startswith("broker_fenced")]
    return seen


def test_every_release_was_recorded() -> None:
    assert list(KAFKA) == list(RELEASES)


@pytest.mark.parametrize("release", RELEASES)
def test_a_new_directory_has_the_formats_of_the_release(release: str, tmp_path: Path) -> None:
    odradek(tmp_path, release, 1)
    found, expected = written(tmp_path), KAFKA[release]
    assert (expected.meta, expected.clean_stop) == (found.meta, found.clean_stop)
    assert expected.coordinators == found.coordinators
    assert [] == [
        (kind, version)
        for kind, versions in found.metadata.items()
        for version in versions
        if version not in expected.metadata[kind]
    ]


def test_no_directory_is_of_a_release_with_zookeeper(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused, Cluster(data_dir=tmp_path / "data", as_kafka="2.8", log=Lines()):
        pass
    assert (
        "Kafka 2.8 kept its metadata in ZooKeeper, so a data directory has to be of another release:"
        " 3.3, 3.6, 3.9, 4.0, 4.3, 4.4." == str(refused.value)
    )
    assert not (tmp_path / "data").exists()


@pytest.mark.skipif(not os.environ.get("ODRADEK_SWAP"), reason="make swap: it needs real brokers")
@pytest.mark.parametrize("odradek_first", [True, False], ids=["Odradek", "Kafka"])
@pytest.mark.parametrize("release", [pytest.param(each, marks=() if each == "3.9" else LARGE) for each in RELEASES])
def test_the_release_and_odradek_take_turns(release: str, odradek_first: bool, tmp_path: Path) -> None:
    data = tmp_path / "data"
    before: Seen | None = None
    for number, is_odradek in enumerate((odradek_first, not odradek_first, odradek_first), start=1):
        if is_odradek:
            seen = odradek(data, release, number)
        else:
            kafka = released(release, tmp_path / "kafka", data)
            try:
                kafka.start()
                if before is not None:
                    assert before == see(kafka.bootstrap)
                work(kafka.bootstrap, number)
                seen = see(kafka.bootstrap)
            finally:
                kafka.stop()
        assert before is None or list(seen.values)[: len(before.values)] == before.values
        assert 10 * number == seen.offset
        assert len(seen.values) == 2 * number
        before = seen
