"""Recordings of clusters that did not begin empty: with a data directory, or as a fork."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.hub.helpers import Till
from tests.net.copies import copy_while_it_runs
from tests.net.test_fork import SMALL, committed, hang, produce, read, stable_end
from tests.net.test_replay import QUIET, TIMEOUT_S, check, entries_of, fetch, play_a_killed_process, played, rewritten
from tests.net.warned import warned

from odradek.cli.usage import UsageError
from odradek.control.client import HubClient
from odradek.log.disk import DiskError
from odradek.metadata.controller_role import METADATA_TOPIC_ID
from odradek.net import beginning
from odradek.net.beginning import Complete, Piece
from odradek.net.client import BlockingClient
from odradek.net.disk import LocalDisk, LocalFile
from odradek.net.ports import ListenError
from odradek.net.recording_file import Acted, Entry, Reader
from odradek.replay.listing import lines_of
from odradek.replay.replay import Replay
from odradek.testing import Cluster, Snapshot, rule
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest
from odradek.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol

pytestmark = [pytest.mark.client, pytest.mark.slow]


def join(cluster: Cluster) -> None:
    """Let somebody be a member of a classic group."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"\0")]
    with BlockingClient(cluster.bootstrap, client_id="member") as client:
        member = ""
        for _ in range(2):
            request = JoinGroupRequest(
                group_id="members",
                session_timeout_ms=30_000,
                rebalance_timeout_ms=30_000,
                member_id=member,
                protocol_type="consumer",
                protocols=protocols,
            )
            member = client.ask(request, 5).member_id


def volume(cluster: Cluster) -> Any:
    """What a broker says of its directory: its name, its size, and what is free."""
    with BlockingClient(cluster.bootstrap, client_id="tool") as client:
        [found] = client.ask(DescribeLogDirsRequest(topics=None), 4).results
    return found.log_dir, found.total_bytes, found.usable_bytes


def prepared_directory(path: Path, **arguments: Any) -> Path:
    """Records, a group with a member, and a transaction that hangs with offsets, in a data directory."""
    with Cluster(topics=["orders", "t"], config=SMALL, data_dir=path, **arguments) as cluster:
        produce(cluster, "a", "b")
        join(cluster)
        hang(cluster)
    return path


def use(cluster: Cluster) -> None:
    """Find it again, end it, and go on."""
    assert ["a", "b", "open"] == read(cluster, 3, committed=False)
    join(cluster)
    till = hang(cluster)
    assert 4 == stable_end(cluster)
    till.commit_transaction(TIMEOUT_S)
    produce(cluster, "c")
    assert 2 == committed(cluster)
    assert ["a", "b", "open", "c"] == read(cluster, 4)


# ---------------------------------------------------------------------- the same again


def test_a_directory_goes_on_in_its_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What clients are told of the disk is what the recorded broker told them, under the name that it had then."""
    directory, path = prepared_directory(tmp_path / "data"), tmp_path / "run.rec"
    with monkeypatch.context() as patched:
        patched.setattr(LocalDisk, "space", lambda _: (12_345_678, 2_345_678))
        with Cluster(data_dir=directory, config=SMALL, record=path) as cluster:
            use(cluster)
            assert (str(directory), 12_345_678, 2_345_678) == volume(cluster)
    shutil.rmtree(directory)
    check(path, answers=40)


def test_a_new_directory_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    with Cluster(topics=["orders"], config=SMALL, data_dir=tmp_path / "data", record=path) as cluster:
        produce(cluster, "a")
        volume(cluster)
    check(path, answers=4)


def test_a_directory_of_a_process_that_was_killed(tmp_path: Path) -> None:
    """Its log ends in a batch that is not whole, and in room that was reserved."""
    left, path = tmp_path / "left", tmp_path / "run.rec"
    with Cluster(topics=["orders"], config=SMALL, data_dir=tmp_path / "data") as cluster:
        produce(cluster, "a", "b")
        produce(cluster, "lost")
        copy_while_it_runs(tmp_path / "data", left)
    log = left / "orders-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[data.index(b"lost")] ^= 1
    log.write_bytes(data)
    with warned() as told, Cluster(data_dir=left, config=SMALL, record=path) as cluster:
        assert ["a", "b"] == read(cluster, 3, wait_s=1)
        produce(cluster, "c")
    assert ["log_tail_cut"] == [each.split()[0] for each in told]
    check(path, answers=10)
    pieces = [each for each in entries_of(path) if isinstance(each, Piece) and each.name == str(log.relative_to(left))]
    assert [b""] * (len(pieces) - 1) == [each.data for each in pieces[1:]], "room that was never written to"


def test_directories_of_three_brokers_one_of_which_stops_and_comes_back(tmp_path: Path) -> None:
    directory, path = tmp_path / "data", tmp_path / "run.rec"
    with Cluster(topics=["orders:3"], config=SMALL, data_dir=directory, brokers=3) as cluster:
        produce(cluster, "a", "b")
    with Cluster(data_dir=directory, config=SMALL, record=path) as cluster:
        leader = cluster.leader("orders", 0)
        cluster.stop_broker(leader)
        produce(cluster, "c")
        cluster.start_broker(leader)
        cluster.move_leader("orders", 0)
        assert ["a", "b", "c"] == read(cluster, 3)
    check(path, answers=12)


def test_a_disk_fails_again_where_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, path = prepared_directory(tmp_path / "data"), tmp_path / "run.rec"
    reserve, full = LocalFile.reserve, [False]

    def limited(file: LocalFile, end: int) -> int:
        if full[0] and "/t-0/" in file.path:
            raise DiskError(f"{file.path}: {os.strerror(errno.ENOSPC)}")
        return reserve(file, end)

    monkeypatch.setattr(LocalFile, "reserve", limited)
    with Cluster(data_dir=directory, config=SMALL, record=path) as cluster:
        till = Till(cluster.bootstrap)
        full[0] = True
        assert [till.add(), till.send()] == [0, ErrorCode.KAFKA_STORAGE_ERROR]
        full[0] = False
        assert 0 == till.end(commit=False)
        till.close()
        produce(cluster, "c", topic="t")
    check(path, answers=5)


def test_a_fork_of_what_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "fork.rec"
    with Cluster(topics=["orders"], config=SMALL) as origin:
        produce(origin, "a", "b")
        join(origin)
        hang(origin)
        snapshot = origin.snapshot()
    with Cluster(from_=snapshot, record=path) as fork:
        use(fork)
    check(path, answers=40)


def test_a_fork_with_rules_that_hold_what_its_snapshot_owes(tmp_path: Path) -> None:
    path = tmp_path / "fork.rec"
    with Cluster(topics=["orders"], config=SMALL, brokers=3) as origin:
        held = origin.add_rule(rule("WRITE_TXN_MARKERS", times="all", hold=True))
        till = hang(origin)
        origin.freeze()
        till.commit_transaction(TIMEOUT_S)
        snapshot = origin.snapshot()
        origin.remove_rule(held)
    rules = [rule("WRITE_TXN_MARKERS", times="all", hold=True, name="markers")]
    with Cluster(from_=snapshot, record=path, rules=rules) as fork:
        fork.wait(rule={"name": "markers", "held": 1})
        assert 0 == stable_end(fork)
        fork.advance(timedelta(seconds=1))
    deeds = [each.deed for each in entries_of(path) if isinstance(each, Acted)]
    assert ["start", "add_rules", "go_on"] == deeds[:3]
    check(path, answers=4)


def test_a_fork_of_a_directory(tmp_path: Path) -> None:
    path = tmp_path / "fork.rec"
    with Cluster(topics=["orders"], config=SMALL, data_dir=tmp_path / "data") as origin:
        produce(origin, "a", "b")
        join(origin)
        hang(origin)
        snapshot = origin.snapshot(tmp_path / "kept")
        in_memory = origin.snapshot()
    for number, each in enumerate((snapshot, in_memory)):
        with Cluster(from_=each, record=path.with_stem(f"fork{number}")) as fork:
            use(fork)
    shutil.rmtree(tmp_path / "data")
    shutil.rmtree(tmp_path / "kept")
    for number in (0, 1):
        check(path.with_stem(f"fork{number}"), answers=40)


def test_a_fork_whose_metadata_log_has_lost_its_beginning(tmp_path: Path) -> None:
    """The recording has the metadata as a snapshot of Kafka's."""
    with Cluster(topics=["orders"], config=SMALL, data_dir=tmp_path / "data") as origin:
        produce(origin, "a", "b")
        hang(origin)
        running = origin._running
        log = next(log for log in running.store.logs() if log.topic_id == METADATA_TOPIC_ID)
        log.advance_start(log.end_offset)
        snapshot = origin.snapshot()
    with Cluster(from_=snapshot, record=tmp_path / "fork.rec") as fork:
        use(fork)
    check(tmp_path / "fork.rec", answers=30)


def test_clients_go_on_from_an_input_of_a_directory(tmp_path: Path) -> None:
    directory, path = prepared_directory(tmp_path / "data"), tmp_path / "run.rec"
    with Cluster(data_dir=directory, config=SMALL, record=path) as cluster:
        produce(cluster, "c")
    ends = [at for at, line in enumerate(lines_of(Reader(path)), 1) if "PRODUCE" in line]
    command = [sys.executable, "-m", "odradek", "replay", str(path), "--until", str(ends[-1]), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "the same byte for byte." in process.stdout.readline()
            address = process.stdout.readline().strip().removeprefix("odradek ready bootstrap=")
            till = Till(address)
            assert [till.add(), till.send(), till.end()] == [0, 0, 0]
            till.close()
        finally:
            process.terminate()
        assert process.wait(TIMEOUT_S) == 0


def test_a_killed_process_has_recorded_its_directory(tmp_path: Path) -> None:
    directory = prepared_directory(tmp_path / "data")
    play_a_killed_process(tmp_path / "run.rec", "--data-dir", str(directory))


def test_a_hub_records_forks(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "odradek", "hub", "--listen", "0", "--record", str(tmp_path / "recordings")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            hub = HubClient(process.stdout.readline().strip().removeprefix("odradek hub ready url="))
            hub.post("clusters", body={"id": "kitchen", "topics": ["t"]})
            hub.post("clusters", "kitchen", "snapshots", body={"name": "ready"})
            fork = hub.post("clusters", body={"id": "fork", "from": "ready"})
            till = Till(fork["bootstrap"])
            assert [till.add(), till.send(), till.end()] == [0, 0, 0]
            till.close()
        finally:
            process.terminate()
        assert process.wait(TIMEOUT_S) == 0
    check(tmp_path / "recordings" / "fork-1.rec", answers=4)


# ---------------------------------------------------------------------- a beginning that is not there


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    directory = prepared_directory(folder / "data")
    with (
        Cluster(data_dir=directory, config=SMALL, record=folder / "run.rec") as cluster,
        BlockingClient(cluster.bootstrap, client_id="reader") as client,
    ):
        fetch(client, 0, wait_ms=0)
    return folder / "run.rec"


def _first_with_bytes(entries: list[Entry]) -> int:
    return next(at for at, each in enumerate(entries) if isinstance(each, Piece) and len(each.data) > 20)


def _alter(entries: list[Entry]) -> None:
    at = _first_with_bytes(entries)
    piece = entries[at]
    assert isinstance(piece, Piece)
    entries[at] = Piece(piece.name, piece.size, piece.data[:-9] + b"?" + piece.data[-8:], piece.checksum)


def _other_content(entries: list[Entry]) -> None:
    first, second = (at for at, each in enumerate(entries) if isinstance(each, Piece) and each.name in LOGS)
    one, other = entries[first], entries[second]
    assert isinstance(one, Piece)
    assert isinstance(other, Piece)
    entries[first] = Piece(one.name, other.size, other.data, one.checksum)


LOGS = (f"orders-0/{0:020}.log", f"__cluster_metadata-0/{0:020}.log")


def _lose_a_piece(entries: list[Entry]) -> None:
    del entries[_first_with_bytes(entries)]


def _lose_all(entries: list[Entry]) -> None:
    entries[:] = [each for each in entries if not isinstance(each, Piece | Complete)]


def _cut(entries: list[Entry]) -> None:
    del entries[_first_with_bytes(entries) :]


def _leave_the_folder(entries: list[Entry]) -> None:
    at = _first_with_bytes(entries)
    piece = entries[at]
    assert isinstance(piece, Piece)
    entries[at] = Piece("../elsewhere", piece.size, piece.data, piece.checksum)


def _rename(entries: list[Entry]) -> None:
    at = _first_with_bytes(entries)
    piece = entries[at]
    assert isinstance(piece, Piece)
    entries[at] = Piece(piece.name.replace("o", "0"), piece.size, piece.data, piece.checksum)
    assert entries[at] != piece


def _rename_a_folder(entries: list[Entry]) -> None:
    at = next(at for at, each in enumerate(entries) if isinstance(each, Piece) and each.name.endswith("/"))
    piece = entries[at]
    assert isinstance(piece, Piece)
    entries[at] = Piece("other/", piece.size, piece.data, piece.checksum)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_rename, r"has a beginning that was changed: .* is not as it was recorded\.$"),
        (_rename_a_folder, r"has a beginning that was changed: other/ is not as it was recorded\.$"),
        (_alter, r"has a beginning that was changed: .* is not as it was recorded\.$"),
        (_other_content, r"has a beginning that was changed: .* is not as it was recorded\.$"),
        (_lose_a_piece, r"lacks a part of its beginning: \d+ pieces of \d+ are there\.$"),
        (_lose_all, r"is cut off within its beginning, the state before its first input: nothing is played\.$"),
        (_cut, r"is cut off within its beginning, the state before its first input: nothing is played\.$"),
        (_leave_the_folder, r"has a beginning that was changed: \.\./elsewhere lies outside of its directory\.$"),
    ],
)
def test_a_beginning_that_is_missing_or_changed(
    recorded: Path, change: Callable[[list[Entry]], None], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        played(rewritten(recorded, change))


def test_a_recording_that_is_cut_in_the_middle(recorded: Path, tmp_path: Path) -> None:
    """Behind the beginning it is played as far as it goes; before its end nothing is."""
    data = recorded.read_bytes()
    cut = tmp_path / "cut.rec"
    cut.write_bytes(data[: int(len(data) * 0.3)])
    with pytest.raises(UsageError, match="is cut off within its beginning"):
        played(cut)
    with pytest.raises(UsageError, match="is cut off within its beginning"):
        list(lines_of(Reader(cut)))
    cut.write_bytes(data[:-30])
    done = played(cut)
    assert done.difference is None
    assert "cut off" in str(done.why)


def test_a_beginning_without_the_start_of_its_cluster(recorded: Path) -> None:
    def end_there(entries: list[Entry]) -> None:
        del entries[next(at for at, each in enumerate(entries) if isinstance(each, Complete)) + 1 :]

    with pytest.raises(UsageError, match="does not begin with the start of its cluster"):
        played(rewritten(recorded, end_there))


def test_the_folder_of_a_replay_goes_with_it(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = asyncio.run(Replay(recorded).play(QUIET))
    assert len(list(tmp_path.iterdir())) == 1
    assert done.unpacked is not None
    done.unpacked.remove()
    assert [] == list(tmp_path.iterdir())


# ---------------------------------------------------------------------- what is refused


def _snapshot(directory: Path) -> Snapshot:
    with Cluster(topics=["orders"], config=SMALL, data_dir=directory) as origin:
        produce(origin, "a")
        return origin.snapshot()


def test_a_beginning_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, path = _snapshot(tmp_path / "data"), tmp_path / "run.rec"
    monkeypatch.setattr(beginning, "BYTES_MAX", 50)
    sentence = r" has [\d,]+ bytes, and a recording begins with 50 bytes at most\.$"
    with pytest.raises(UsageError, match=str(tmp_path / "data") + sentence):
        Cluster(data_dir=tmp_path / "data", record=path).__enter__()
    with pytest.raises(UsageError, match="The snapshot" + sentence):
        Cluster(from_=snapshot, record=path).__enter__()
    assert not path.exists()
    with Cluster(data_dir=tmp_path / "data", config=SMALL):
        """The directory is free, and as it was."""


def test_a_test_with_a_large_beginning_runs_without_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odradek.net.recording import new_record

    snapshot = _snapshot(tmp_path / "data")
    monkeypatch.setattr(beginning, "BYTES_MAX", 50)
    monkeypatch.setattr(
        "odradek.testing.recordings.of_test", lambda: new_record(tmp_path / "kept", "test", with_secrets=False)
    )
    with Cluster(from_=snapshot) as fork:
        assert ["a"] == read(fork, 1)
        assert "Not recorded: The snapshot has" in str(fork._running.outside.not_kept)
    assert [] == list((tmp_path / "kept").iterdir())


def test_a_directory_with_credentials_is_recorded_only_where_that_was_said(tmp_path: Path) -> None:
    directory, path = tmp_path / "data", tmp_path / "run.rec"
    with Cluster(topics=["orders"], config=SMALL, data_dir=directory) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        made = UserScramCredentialUpsertion(
            "alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"wonderland", b"salt"
        )
        admin.alter_user_scram_credentials([made])["alice"].result(TIMEOUT_S)
        snapshot = cluster.snapshot()
    for beginning_ in ({"data_dir": directory, "config": SMALL}, {"from_": snapshot}):
        with pytest.raises(UsageError, match="The metadata has SCRAM credentials, so that the recording would hold"):
            Cluster(record=path, **beginning_).__enter__()
        assert not path.exists()
    with Cluster(data_dir=directory, config=SMALL, record=path, with_secrets=True) as cluster:
        volume(cluster)
    check(path, answers=1)


def test_a_start_that_is_refused_leaves_no_recording(tmp_path: Path) -> None:
    """Whatever refuses it: the directory, the place of a fork, an address."""
    with Cluster(data_dir=tmp_path / "origin", topics=["t"]) as origin:
        kept = origin.snapshot(tmp_path / "kept")
        port = int(origin.bootstrap.rpartition(":")[2])
        starts: list[dict[str, Any]] = [
            {"data_dir": tmp_path / "origin"},
            {"data_dir": tmp_path / "kept", "node_ids": [7]},
            {"data_dir": tmp_path, "brokers": 2},
            {"from_": kept, "data_dir": tmp_path},
            {"from_": kept, "data_dir": tmp_path / "kept" / "fork"},
            {"port": port},
        ]
        for number, arguments in enumerate(starts):
            with pytest.raises((UsageError, ListenError)):
                Cluster(record=tmp_path / f"{number}.rec", **arguments).__enter__()
    assert [] == list(tmp_path.glob("*.rec"))


def test_a_recording_lies_beside_its_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with pytest.raises(UsageError, match=rf"^{data}/run\.rec lies in the data directory {data}, where folders"):
        Cluster(data_dir=data, record=data / "run.rec").__enter__()
    with pytest.raises(UsageError, match=rf"^{data}/events lies in the data directory {data}, where folders"):
        Cluster(data_dir=data, events=data / "events").__enter__()
    assert not data.exists()
    served = [sys.executable, "-m", "odradek", "serve", "--port", "0", "--data-dir", str(data)]
    for option in ("--record", "--events"):
        done = subprocess.run([*served, option, str(data / "file")], capture_output=True, text=True, timeout=TIMEOUT_S)
        assert (2, "") == (done.returncode, done.stdout)
        assert done.stderr.startswith(f"odradek: {data}/file lies in the data directory {data}, where folders are")
    assert not data.exists()
