"""One incident for each cause: every fault of the corpus, every healthy situation, and the words of some."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.pipeline.corpus.__main__ import audited, healthy, play, unpack
from tests.pipeline.corpus.edit import Log, is_commit, is_marker
from tests.pipeline.corpus.faults import FAULTS, Fault
from tests.pipeline.corpus.faults_held_out import HELD_OUT

from odradek.records.record import Record, build_batch
from odradek_pipeline.jobs.audit_logs import audit_logs
from odradek_pipeline.logs.payload import TransactionRecord
from odradek_pipeline.report.evidence import batches_around
from odradek_pipeline.transactions.coordinators import Coordinators


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_one_incident(tmp_path: Path, fault: Fault) -> None:
    outcome = play(fault, tmp_path)
    assert () == outcome.wordless
    if fault.is_missed:
        assert not outcome.is_found, "it is found now: say so in the corpus"
        return
    assert outcome.is_found, outcome.told
    if fault.group != HELD_OUT:
        assert () == outcome.others


@pytest.mark.parametrize("name", healthy())
def test_nothing_healthy_is_bad(tmp_path: Path, name: str) -> None:
    result = audited(unpack(name, tmp_path))
    assert result.incidents is not None
    assert [] == result.incidents.to_dict("records")
    assert not result.is_bad


def test_the_corpus_is_large_enough() -> None:
    assert len({str(fault) for fault in FAULTS}) == len(FAULTS) >= 80
    assert len(healthy()) >= 20


def test_every_bad_finding_has_a_cause(tmp_path: Path) -> None:
    """A missing segment and a lost marker at once: two causes, and all the rest follows from them."""
    root = unpack("deleted_records", tmp_path)
    log = Log(root, "orders-2")
    log.remove(log.segments[1])
    other = Log(root, "orders-1")
    other.drop(is_marker, 0, path=other.segments[3])
    result = audited(root)
    assert result.incidents is not None
    assert [("missing-segment", "orders", 2), ("lost-batches", "orders", 1)] == [
        (row["incident"], row["topic"], row["partition"])
        for row in result.incidents.sort_values("partition", ascending=False).to_dict("records")
    ]
    bad = result.anomalies[result.anomalies["severity"] == "bad"]
    assert {0, 1} == set(bad["incident"]) | set(result.incident_of.values())
    assert len(bad) == result.incidents["anomalies"].sum()
    assert (result.anomalies.loc[result.anomalies["severity"] != "bad", "incident"] == -1).all()


def test_what_is_said_of_a_hanging_transaction(tmp_path: Path) -> None:
    result = audited(unpack("hang", tmp_path))
    assert result.incidents is not None
    (row,) = result.incidents.to_dict("records")
    assert row["what"].startswith("A transaction of producer 1 (shop) hangs in orders-0 since offset 36")
    assert "stop at offset 36; 1 offset waits behind it" in row["blocks"]
    assert row["run"].endswith("abort --topic orders --partition 0 --start-offset 36")
    assert row["since"] > 1_700_000_000_000


def test_a_flipped_bit_of_a_closed_log_is_found_when_asked_for(tmp_path: Path) -> None:
    root = unpack("java_level_2_clean_stop", tmp_path)
    Log(root, "orders-0").change(lambda batch: not batch.is_control, 0, 70, b"\x7e", seal=False)
    assert not audited(root).is_bad
    result = audit_logs([root / "broker-1"], check_crc=True)
    assert result.incidents is not None
    assert ["damaged-segment"] == result.incidents["incident"].tolist()


def test_a_leader_that_lost_its_tail(tmp_path: Path) -> None:
    root = unpack("three_brokers", tmp_path)
    log = Log(root, "orders-0", 1)
    log.write(log.read()[:-3])
    end = int.from_bytes(log.read()[-1][:8]) + 1
    result = audited(root)
    assert result.incidents is not None
    (row,) = result.incidents.to_dict("records")
    assert ("lost-tail", str(log.path), end, 24) == tuple(
        row[key] for key in ("incident", "path", "offset", "end_offset")
    )
    assert f"orders-0 has lost offsets {end} to 23" in row["what"]
    assert row["anomalies"] == 2, "the marker that its coordinator has noted was among them"


def test_a_wrong_outcome_names_the_marker(tmp_path: Path) -> None:
    root = unpack("java_level_2_clean_stop", tmp_path)
    log = Log(root, "orders-1")
    place = log.places(is_commit)[1]
    offset = int.from_bytes(log.read()[place][:8])
    log.change(is_commit, 1, 69, b"\0")
    result = audited(root)
    assert result.incidents is not None
    (row,) = result.incidents.to_dict("records")
    assert ("wrong-outcome", "orders", 1, offset) == tuple(
        row[key] for key in ("incident", "topic", "partition", "offset")
    )
    assert "decided PrepareCommit, and the marker here says abort" in row["what"]


def test_what_lies_astray_is_told_where_it_lies(tmp_path: Path) -> None:
    """The directories 1 and 2 have changed places; nothing is wrong with 0."""
    root = unpack("java_level_2_clean_stop", tmp_path)
    here = root / "broker-1"
    one, two, aside = here / "__transaction_state-1", here / "__transaction_state-2", here / "aside"
    one.rename(aside), two.rename(one), aside.rename(two)
    result = audited(root)
    assert result.incidents is not None
    (what,) = [row["what"] for row in result.incidents.to_dict("records") if row["incident"] == "wrong-coordinator"]
    assert f"{two} has what belongs elsewhere: shop belongs into __transaction_state-1." == what


def test_a_segment_under_a_later_name_is_one_incident(tmp_path: Path) -> None:
    """What its name makes look missing is in it."""
    (fault,) = (one for one in FAULTS if one.name == "a segment under another offset's name")
    assert ("misnamed-segment",) == play(fault, tmp_path).incidents


def test_a_client_that_begins_at_level_2_and_ends_below_it(tmp_path: Path) -> None:
    """Coordinators bump the epoch by the version of EndTxn alone, so none of its markers has the next one."""
    result = audited(unpack("platformatic_at_level_2", tmp_path))
    transactions = result.tables["log_txns"]
    assert (transactions["marker_epoch"] == transactions["epoch"]).any()
    assert (result.tables["timelines"]["level"] == 2).any()
    assert "txn-epoch-not-bumped" not in set(result.anomalies["anomaly"])


@pytest.mark.parametrize(
    ("steps", "is_bumped"),
    [
        ([("Ongoing", 2)], True),
        ([("Ongoing", 2), ("PrepareCommit", 2)], True),
        ([("Ongoing", 2), ("PrepareCommit", 0), ("CompleteCommit", 0), ("Ongoing", 2)], False),
        ([("Ongoing", 2), ("Ongoing", 0), ("PrepareAbort", 0)], False),
        ([("Ongoing", 0), ("PrepareCommit", 0), ("CompleteCommit", 0), ("Ongoing", 2)], True),
    ],
)
def test_whose_markers_have_the_next_epoch(steps: list[tuple[str, int]], is_bumped: bool) -> None:
    """Of the epoch in which a client has ended one transaction below level 2, none has, one under way included."""
    records = [
        TransactionRecord("log", at, 0, at, at, "shop", 1, state, 5, 3, 60_000, client_transaction_version=version)
        for at, (state, version) in enumerate(steps)
    ]
    assert ({(5, 3)} if is_bumped else set()) == Coordinators.fold(records, known=True, now=9).level_2


def test_one_number_that_is_too_high_is_one_finding_with_what_follows(tmp_path: Path) -> None:
    """All batches behind it look repeated: 132 findings of one batch."""
    (tmp_path / "t-0").mkdir()
    numbers = [*range(10), 5_000, *range(11, 143)]
    content = [
        build_batch(
            [Record(value=b"x", timestamp=1)], base_offset=at, producer_id=7, producer_epoch=0, base_sequence=number
        )
        for at, number in enumerate(numbers)
    ]
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(content))
    result = audit_logs([tmp_path])
    bad = result.anomalies[result.anomalies["severity"] == "bad"]
    assert ["seq-duplicate", "seq-gap"] == sorted(bad["anomaly"])
    assert "and 131 more behind it, up to offset 142" in bad[bad["anomaly"] == "seq-duplicate"]["detail"].iloc[0]
    assert result.incidents is not None
    assert 1 == len(result.incidents)


def test_what_befell_a_partition_is_one_incident_for_all_its_producers(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    content, at = [], 0
    for number in (0, 1, 3, 4):  # batch 2 of each is not there, and the offsets are as if it had never been
        for producer in range(21):
            batch = build_batch(
                [Record(value=b"x", timestamp=1)],
                base_offset=at,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=number,
            )
            content.append(batch)
            at += 1
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(content))
    result = audit_logs([tmp_path])
    assert result.incidents is not None
    (row,) = result.incidents.to_dict("records")
    assert ("seq-gap", 21) == (row["incident"], row["anomalies"])
    assert "so of 20 more producers of this partition (producer 1, producer 2, producer 3, …)" in row["what"]
    assert {0} == set(result.anomalies["incident"])


def test_what_befell_a_directory_is_one_incident_for_its_partitions(tmp_path: Path) -> None:
    """The disk that the partitions of a broker were linked to is gone."""
    for number in range(5):
        (tmp_path / f"t-{number}").mkdir()
        (tmp_path / f"t-{number}" / f"{0:020}.log").write_bytes(build_batch([Record(value=b"x", timestamp=1)]))
    assert not audit_logs([tmp_path]).is_bad
    for number in range(1, 5):
        shutil.rmtree(tmp_path / f"t-{number}")
        (tmp_path / f"t-{number}").symlink_to(tmp_path / "gone")
    result = audit_logs([tmp_path])
    assert result.incidents is not None
    (row,) = result.incidents.to_dict("records")
    assert ("leads-nowhere", 4) == (row["incident"], row["problems"])
    assert "so of 3 more partitions of this directory (t-2, t-3, t-4)" in row["what"]
    assert {0, 1, 2, 3} == set(result.incident_of) - {
        at for at, one in enumerate(result.problems) if one.severity != "bad"
    }


def test_a_report_shows_no_batches_that_came_behind_what_was_read(tmp_path: Path) -> None:
    """The directory is a live one: more is appended before the report is written."""
    (tmp_path / "t-0").mkdir()
    segment = tmp_path / "t-0" / f"{0:020}.log"

    def batch(offset: int, number: int) -> bytes:
        record = Record(value=b"x", timestamp=1)
        return build_batch([record], base_offset=offset, producer_id=7, producer_epoch=0, base_sequence=number)

    segment.write_bytes(b"".join(batch(at, number) for at, number in enumerate((0, 1, 9))))
    result = audit_logs([tmp_path])
    assert result.incidents is not None
    (row,) = result.incidents.to_dict("records")
    assert 2 == row["upto"]
    with segment.open("ab") as file:
        file.write(batch(3, 10))
    assert [0, 1, 2] == batches_around(row)["base_offset"].tolist()


def test_nothing_is_said_to_be_missing_before_offset_0(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    batch = build_batch([Record(value=b"x", timestamp=1)], producer_id=7, producer_epoch=0, base_sequence=3)
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(batch)
    result = audit_logs([tmp_path])
    assert result.incidents is not None
    (row,) = result.incidents.to_dict("records")
    assert row["what"].startswith("The first batch of t-0, of producer 7, does not begin with sequence 0: ")
    assert "before offset" not in row["what"]
