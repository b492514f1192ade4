"""Copies of a running broker's directory: no damage is told of them, and no command that destroys anything.

A copy has each file as it was at a time of its own. What hangs is told all the same, as soon as it is proven.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import NIGHTLY, examples
from tests.pipeline.corpus.__main__ import unpack
from tests.pipeline.record_running import RUNNING, alarms, unpacked
from tests.pipeline.running_copies import DESTROYS, ORDERS, Copy, History, grown_old, hung, whole

from odradek.records.batch import batches
from odradek_pipeline.audit.result import Result
from odradek_pipeline.directories.proof import ABORT_MS, MAX_TIMEOUT_MS
from odradek_pipeline.jobs.audit_logs import audit_logs

HOUR = 3_600_000
NAMES = ("shop", "till", "desk")


def bad(result: Result) -> list[str]:
    told = [
        f"{row['anomaly']}: {row['detail']}" for row in result.anomalies.to_dict("records") if row["severity"] == "bad"
    ]
    return told + [f"{one.problem} {one.path}: {one.detail}" for one in result.problems if one.severity == "bad"]


def destructive(result: Result) -> list[str]:
    assert result.incidents is not None
    return [row["run"] for row in result.incidents.to_dict("records") if any(word in row["run"] for word in DESTROYS)]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Transactions of three clients, over milliseconds or over days; records may be about any time."""
    history = History()
    for _ in range(draw(st.integers(1, 8))):
        history.now += draw(st.sampled_from((1, 2_000, MAX_TIMEOUT_MS + ABORT_MS + 5_000, 5 * HOUR)))
        about = draw(st.sampled_from((None, 0, history.now - 400 * 24 * HOUR, history.now + 60_000)))
        lasts = draw(st.sampled_from((1, 50, 59_000)))
        number = draw(st.integers(0, ORDERS - 1))
        history.transaction(draw(st.sampled_from(NAMES)), number, lasts=lasts, timestamp=about)
    return history


@st.composite
def copies(draw: st.DrawFn, history: History) -> Copy:
    kept = {name: draw(st.integers(0, len(log))) for name, log in history.logs.items()}
    torn = {name: draw(st.sampled_from((0, 1, 40, 70))) for name in history.logs}
    checkpoint = {name: draw(st.integers(0, len(log))) for name, log in history.logs.items()}
    beside = {name: draw(st.integers(0, len(log))) for name, log in history.logs.items()}
    left_out = {name: draw(st.integers(0, 60)) for name in history.logs}
    return Copy(kept, torn, checkpoint, beside, left_out)


@examples(40)
@given(st.data())
def test_a_copy_of_a_running_broker_is_never_bad(data: st.DataObject) -> None:
    history = data.draw(histories())
    copy = data.draw(copies(history))
    with tempfile.TemporaryDirectory() as folder:
        result = audit_logs([copy.write(history, Path(folder) / "data")])
    assert [] == bad(result)
    assert [] == destructive(result)


def test_the_files_beside_a_whole_history_are_clean(tmp_path: Path) -> None:
    """What is cut in the copies is right where nothing is cut: else nothing would follow from the cuts."""
    history = History()
    for number in range(6):
        history.transaction(NAMES[number % 3], number % ORDERS)
    directory = whole(history).write(history, tmp_path / "data", closed=True)
    assert 6 <= len(list(directory.rglob("*.snapshot")))
    result = audit_logs([directory])
    assert [] == result.problems
    assert [] == bad(result)
    for path in directory.glob("orders-0/*.index"):
        if content := path.read_bytes():
            path.write_bytes(content[:-8] + (1 << 20).to_bytes(4) + content[-4:])
    assert "bad-index" in {one.problem for one in audit_logs([directory]).problems}


def test_what_hangs_is_told_of_a_closed_directory_at_once(tmp_path: Path) -> None:
    history = hung()
    result = audit_logs([whole(history).write(history, tmp_path / "data", closed=True)])
    assert result.incidents is not None
    assert ["hanging-transaction"] == result.incidents["incident"].tolist()
    (command,) = destructive(result)
    assert command.endswith("abort --topic orders --partition 0 --start-offset 2")


def test_what_hangs_is_told_of_a_running_broker_once_no_transaction_can_be_as_old(tmp_path: Path) -> None:
    history = hung()
    young = audit_logs([whole(history).write(history, tmp_path / "young")])
    assert [] == bad(young) == destructive(young)
    (row,) = young.anomalies[young.anomalies["anomaly"] == "txn-hanging"].to_dict("records")
    assert ("info", 2) == (row["severity"], row["offset"])
    assert "find-hanging" in row["detail"]
    assert "unproven" in young.tables["open_txns"]["status"].tolist()
    coordinator = grown_old(history)
    old = audit_logs([whole(history).write(history, tmp_path / "old")])
    (command,) = destructive(old)
    assert command.endswith("abort --topic orders --partition 0 --start-offset 2")
    for behind in ("orders-0", coordinator):  # either of them as it was before is no proof any more
        kept = dict(whole(history).batches)
        kept[behind] = len([one for one in history.logs[behind] if one.time < history.now - MAX_TIMEOUT_MS])
        result = audit_logs([Copy(kept).write(history, tmp_path / f"behind-{behind}")])
        assert [] == bad(result) == destructive(result)


def test_consumers_stop_at_the_first_open_transaction(tmp_path: Path) -> None:
    """One that is under way stands before the one that hangs."""
    history = History()
    history.transaction("shop", 0)
    one = history.begin("till", 0)
    history.write(one, 0, history.now)
    history.write(history.producers["shop"], 0, history.now)
    result = audit_logs([whole(history).write(history, tmp_path / "data", closed=True)])
    assert result.incidents is not None
    (row,) = result.incidents.to_dict("records")
    assert ("hanging-transaction", 3) == (row["incident"], row["offset"])
    assert "stop at offset 3, once another open transaction that holds them at 2 has ended" in row["blocks"]


@pytest.mark.parametrize("archive", sorted(RUNNING.glob("*.tar.gz")), ids=lambda path: path.stem)
def test_a_recorded_copy_of_a_real_broker_is_no_alarm(tmp_path: Path, archive: Path) -> None:
    """Copied under load, while segments rolled and the cleaner ran: `python -m tests.pipeline.record_running`."""
    assert [] == alarms(unpacked(archive, tmp_path))


def cuts(root: Path) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Each log of a broker, cut behind each of its batches and within it."""
    for folder in sorted(one for one in (root / "broker-1").iterdir() if one.is_dir()):
        for segment in sorted(folder.glob("*.log")):
            ends = [0]
            for batch in batches(memoryview(segment.read_bytes())):
                ends += [ends[-1] + batch.size // 2, ends[-1] + batch.size] if len(ends) < 60 else []
            for end in ends:
                yield f"{folder.name}/{segment.name} at {end}", partial(cut, folder.name, segment.name, end)


def cut(name: str, segment: str, end: int, root: Path) -> None:
    """As it was when the broker had written so much: no later segment, nor what belongs to one."""
    folder = root / name
    content = (folder / segment).read_bytes()
    for path in [*folder.iterdir()]:
        if path.stem.isdigit() and path.stem > Path(segment).stem:
            path.unlink()
    (folder / segment).write_bytes(content[:end])


@pytest.mark.parametrize(
    ("name", "step"), [("tv1", 6), ("java_level_1_killed", 7), ("killed_with_open_transactions", 7)]
)
def test_no_cut_of_a_real_brokers_logs_is_bad(tmp_path: Path, name: str, step: int) -> None:
    """A broker that ran when its files were taken: each log as it was before, beside all others as they are."""
    root = unpack(name, tmp_path)
    here = root / "broker-1"
    assert not (here / ".kafka_cleanshutdown").exists()
    for path in here.iterdir():
        if path.name.endswith("-checkpoint"):
            os.utime(path, (4_000_000_000, 4_000_000_000))
    count = 0
    for what, change in list(cuts(root))[:: 1 if NIGHTLY else step]:
        folder = here / what.split("/")[0]
        kept = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        change(here)
        result = audit_logs([here])
        assert ([], []) == (bad(result), destructive(result)), what
        for path, content in kept.items():
            path.write_bytes(content)
        count += 1
    assert count > 10
