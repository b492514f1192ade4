"""What compaction may have removed, and what nobody has: by checkpoints, by the metadata log, by what is not there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.pipeline.corpus.__main__ import unpack
from tests.pipeline.corpus.edit import COUNT_AT, Log, is_data

from odradek_pipeline.directories.cluster import read_cluster
from odradek_pipeline.directories.place import EVERYWHERE, Place, cleaned_somewhere
from odradek_pipeline.jobs.audit_logs import audit_logs
from odradek_pipeline.logs.layout import find_files
from odradek_pipeline.logs.summary import scan_directories

COPIED = "compacted_before_it_was_copied"


def bad(directories: Sequence[Path]) -> set[str]:
    """The names of everything that an audit calls bad."""
    result = audit_logs(directories)
    told = {row["anomaly"] for row in result.anomalies.to_dict("records") if row["severity"] == "bad"}
    return told | {one.problem for one in result.problems if one.severity == "bad"}


@pytest.mark.parametrize("brokers", [(1, 2), (2, 1), (1,), (2,)])
def test_a_copy_of_a_compacted_log_has_the_gaps_of_its_leader(tmp_path: Path, brokers: tuple[int, ...]) -> None:
    """The second broker's own cleaner has not been there: its checkpoint has no line for any of them."""
    root = unpack(COPIED, tmp_path)
    assert not find_files([root / "broker-2"]).cleaned
    here = [root / f"broker-{number}" for number in brokers]
    assert set() == bad(here)
    scanned = scan_directories(here, cleaned=cleaned_somewhere)
    assert not scanned.is_bad
    if brokers == (2,):
        assert {"bad-count"} == {one.problem for one in scan_directories(here).problems if one.severity == "bad"}


def test_what_compaction_does_not_do_is_bad_in_a_copy_too(tmp_path: Path) -> None:
    root = unpack(COPIED, tmp_path)
    Log(root, "moved-0", broker=2).change(is_data, 0, COUNT_AT, (9).to_bytes(4))
    assert "bad-count" in bad([root / "broker-2"])


def test_each_replica_has_the_checkpoint_of_its_own_broker(tmp_path: Path) -> None:
    """The cleaner of one broker says nothing of the log of another, whichever directory is named last."""
    root = unpack("a_new_disk", tmp_path)
    here = [root / f"broker-{number}" for number in (1, 2, 3)]
    (here[2] / "cleaner-offset-checkpoint").write_text("0\n1\nplain 0 3\n")
    chosen = {one.key: one for one in Place.of(here, ()).audited()}
    assert EVERYWHERE == Place.of(here, ()).tree.cleaned[chosen["plain", 0].key], "a copy of what was compacted there"
    (here[2] / "plain-0").rename(root / "plain-0")
    alone = Place.of([here[0]], ())
    assert ("plain", 0) not in alone.tree.cleaned


def test_the_metadata_log_says_who_has_had_a_replica_and_what_was_compacted(tmp_path: Path) -> None:
    root = unpack(COPIED, tmp_path)
    cluster = read_cluster(find_files([root / "broker-2"]))
    assert cluster is not None
    assert {1, 2} == cluster.held_by("moved", 0) == cluster.held_by("once", 0)
    assert {"both", "moved", "once"} <= cluster.compacted
    assert not cluster.is_compacted("once"), "not any more"
    assert frozenset() == cluster.held_by("nobody's", 0)


def without_a_segment(root: Path) -> Path:
    """A directory in which a segment is missing between others, with all that belongs to it."""
    directory = root / "broker-1"
    log = sorted((directory / "orders-2").glob("*.log"))
    assert len(log) >= 3
    for path in (directory / "orders-2").glob(f"{log[1].stem}.*"):
        path.unlink()
    return directory


def test_a_segment_that_is_missing_between_others_is_bad_in_a_closed_directory(tmp_path: Path) -> None:
    assert {"offset-gap", "txn-without-marker"} & bad([without_a_segment(unpack("deleted_records", tmp_path))])


def test_a_running_broker_may_have_deleted_it_while_it_was_copied(tmp_path: Path) -> None:
    """Files are copied in the order of their names: the first segments are here, and were deleted with the others."""
    directory = without_a_segment(unpack("deleted_records", tmp_path))
    (directory / ".kafka_cleanshutdown").unlink()
    result = audit_logs([directory])
    assert set() == bad([directory])
    (told,) = [one for one in result.problems if one.problem == "vanished"]
    assert "info" == told.severity
    assert "no segment has the offsets from" in told.detail
