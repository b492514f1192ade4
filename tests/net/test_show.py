"""`odradek show` of event files that real clusters leave, over sockets."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from tests.hub.helpers import Till

from odradek.cli.all_commands import commands_for
from odradek.net.recent import Recent
from odradek.show.history import history_of
from odradek.show.transaction import only
from odradek.show.window import read_window
from odradek.testing import Cluster


def ran(path: Path, *, commit: bool = True) -> Path:
    """The event file of a cluster in which one transaction has ended."""
    recent = Recent()
    with Cluster(topics=["t"], events=recent) as cluster:
        with closing(Till(cluster.bootstrap)) as till:
            assert [0, 0, 0] == [till.add(), till.send(), till.end(commit=commit)]
        cluster.wait(transaction={"id": "till-1", "state": "CompleteCommit" if commit else "CompleteAbort"})
    path.write_bytes(b"".join(line + b"\n" for line in recent.lines()))
    return path


def test_one_id_is_followed_from_its_first_request_to_its_last_marker(tmp_path: Path) -> None:
    history = only(history_of(read_window(ran(tmp_path / "run.jsonl")).events), "till-1")
    told = [step.fields.get("api", step.kind) for step in history.steps if step.kind != "response"]
    assert [each for each in told if each.isupper()] == [
        "INIT_PRODUCER_ID",
        "ADD_PARTITIONS_TO_TXN",
        "PRODUCE",
        "ADD_PARTITIONS_TO_TXN",
        "END_TXN",
        "WRITE_TXN_MARKERS",
    ]
    answered = {step.answer_to for step in history.steps if step.kind == "response"}
    assert answered == {step.seq for step in history.steps if step.kind == "request"}
    assert {"marker_written", "transaction_closed", "parked", "verify_end"} <= set(told)


@pytest.mark.parametrize("commit", [True, False])
def test_two_runs_differ_where_their_clients_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], commit: bool
) -> None:
    one, two = ran(tmp_path / "one.jsonl"), ran(tmp_path / "two.jsonl", commit=commit)
    commands_for("show").run(["show", str(one), str(two), "-o", str(tmp_path / "both.html")])
    sentence = capsys.readouterr().out.splitlines()[0]
    if commit:
        assert sentence == "one.jsonl and two.jsonl do not differ, except in times and in ids that are drawn."
    else:
        assert "till-1, requests to the coordinator: one.jsonl has “EndTxn v3”" in sentence
        assert sentence.endswith("committed is True and False.")
