"""Snapshots of several brokers that are directories: each broker's replicas, leaders, and brokers that were stopped."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.net.test_fork import SMALL, TIMEOUT_S, committed, hang, produce, read, stable_end
from tests.net.test_fork_on_disk import digests, first_letters
from tests.net.test_replay import check
from tests.net.test_serve import serving
from tests.net.warned import warned

from odradek.cli.usage import UsageError
from odradek.control.client import HubClient
from odradek.net.snapshot_dir import MARK, Mark
from odradek.testing import Cluster, Snapshot

pytestmark = pytest.mark.client

CONFIG = {**SMALL, "log.segment.bytes": 1_048_576}
LARGE = "x" * 200_000
BROKERS = 3


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Several segments, a transaction that hangs, an aborted one, and a broker that lacks the last records."""
    path = tmp_path_factory.mktemp("several")
    with Cluster(data_dir=path / "origin", topics=["orders:1:3"], brokers=BROKERS, config=CONFIG) as origin:
        for number in range(10):
            produce(origin, f"{number}{LARGE}")
        hang(origin).abort_transaction(TIMEOUT_S)
        leader = origin.leader("orders", 0)
        stopped = next(each for each in origin.broker_ids if each != leader)
        origin.stop_broker(stopped)
        produce(origin, f"a{LARGE}", f"b{LARGE}")
        producer = hang(origin)
        snapshot = origin.snapshot(path / "kept")
        producer.abort_transaction(TIMEOUT_S)
        produce(origin, "of the origin")
    return snapshot


def test_a_fork_has_the_leaders_and_the_records_of_that_moment(kept: Snapshot, tmp_path: Path) -> None:
    assert kept.directory is not None
    before = digests(kept.directory)
    with Cluster(from_=kept, data_dir=tmp_path / "fork") as fork:
        assert [1, 2, 3] == fork.broker_ids
        assert fork.wait(transaction={"id": "stuck", "state": "Ongoing"})
        assert list("0123456789ab") == first_letters(fork, 12, committed=True)
        hang(fork).commit_transaction(TIMEOUT_S)
        assert 2 == committed(fork)
        produce(fork, "c")
        assert list("0123456789aboc") == first_letters(fork, 14, committed=True)
    assert before == digests(kept.directory)
    with Cluster(data_dir=tmp_path / "fork") as again:
        assert list("0123456789aboc") == first_letters(again, 14, committed=True)


def test_each_broker_has_its_replica(kept: Snapshot) -> None:
    """All three are led from in turn, that of the broker that was stopped as well."""
    assert kept.directory is not None
    with Cluster(from_=str(kept.directory)) as fork:
        for broker in fork.broker_ids:
            assert broker == fork.move_leader("orders", 0, to=broker)
            assert list("0123456789ab") == first_letters(fork, 12, committed=True)


def test_the_stopped_broker_lacks_in_its_folder_what_it_lacked(kept: Snapshot) -> None:
    assert kept.directory is not None
    sizes = {
        folder.name: sum(log.stat().st_size for log in folder.glob("orders-0/*.log"))
        for folder in kept.directory.glob("broker-*")
    }
    least, *others = sorted(sizes.values())
    assert others[0] == others[1]
    assert 2 * len(LARGE) < others[0] - least < 3 * len(LARGE)
    mark = msgspec.json.decode((kept.directory / MARK).read_bytes(), type=Mark)
    assert 1 == len(mark.gone)


def test_forks_share_the_files_that_nobody_writes_to(kept: Snapshot, tmp_path: Path) -> None:
    assert kept.directory is not None
    with Cluster(from_=kept, data_dir=tmp_path / "fork"):
        for broker in ("broker-1", "broker-2", "broker-3"):
            ours, theirs = (base / broker / "orders-0" for base in (tmp_path / "fork", kept.directory))
            shared = [log.name for log in theirs.glob("*.log") if (ours / log.name).samefile(log)]
            assert shared


def test_the_folder_of_each_broker_is_a_directory_as_after_a_clean_stop(kept: Snapshot, tmp_path: Path) -> None:
    """With what its replica has: the aborted transaction is in its index, too."""
    assert kept.directory is not None
    found = []
    for broker in ("broker-1", "broker-2", "broker-3"):
        shutil.copytree(kept.directory / broker, tmp_path / broker)
        with warned(), Cluster(data_dir=tmp_path / broker, config=CONFIG) as alone:
            found.append("".join(first_letters(alone, 12, committed=True)))
    # The one that was stopped has the metadata of that time, too, by which it was in sync.
    assert sorted(found) == ["0123456789", "0123456789ab", "0123456789ab"]


def test_a_recorded_fork_of_several(kept: Snapshot, tmp_path: Path) -> None:
    with Cluster(from_=kept, record=tmp_path / "fork.rec") as fork:
        produce(fork, "c")
        assert 12 < stable_end(fork)
    check(tmp_path / "fork.rec", answers=8)


def test_a_snapshot_in_memory_of_brokers_with_directories(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path / "data", topics=["orders:1:3"], brokers=BROKERS, config=CONFIG) as origin:
        produce(origin, "a", "b")
        snapshot = origin.snapshot()
    with Cluster(from_=snapshot) as fork:
        assert ["a", "b"] == read(fork, 2)


def test_what_is_refused(kept: Snapshot, tmp_path: Path) -> None:
    assert kept.directory is not None
    with pytest.raises(ValueError, match="A fork has the brokers of its snapshot, 3 brokers, and not 2"):
        Cluster(from_=kept, brokers=2)
    with (
        Cluster(data_dir=tmp_path / "data", topics=["orders"], brokers=2, config=CONFIG) as origin,
        pytest.raises(UsageError, match="lies in the data directory"),
    ):
        origin.snapshot(tmp_path / "data" / "broker-1" / "x")
    half = tmp_path / "half"
    half.mkdir()
    (half / MARK).write_bytes((kept.directory / MARK).read_bytes())
    with pytest.raises(UsageError, match="is no snapshot of a cluster"):
        Cluster(from_=half)


def test_on_a_hub(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with serving(*("--control", "0", "--brokers", "2", "--data-dir", str(directory), "--topic", "t:1:2")) as (
        process,
        addresses,
    ):
        assert process.stdout is not None
        url = re.sub("^odradek hub ready url=", "", process.stdout.readline().strip())
        command = [sys.executable, "-m", "odradek", "ctl", "--hub", url, "snapshot", "ready"]
        subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_S)
        assert (tmp_path / "data.snapshots" / "ready" / "broker-2" / "meta.properties").exists()
        hub = HubClient(url)
        fork = hub.post("clusters", body={"id": "fork", "from": "ready"})
        assert 2 == len(fork["bootstrap"].split(","))
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(TIMEOUT_S)
    assert 2 == len(addresses)
