"""`odradek show`: a transaction as a picture, from the events of brokers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.kips.cluster import Cluster
from tests.kips.producer import Producer
from tests.kips.styles import OLD
from tests.pictures import TRANSACTION, events_of, lines_of, transaction

from odradek.all_commands import commands_for
from odradek.show.events import Event, read_events
from odradek.show.history import History, history_of
from odradek.show.mermaid import mermaid
from odradek.show.svg import drawn
from odradek.show.transaction import of_transaction
from odradek.usage import UsageError

HOSTILE = '</text><script>alert("1")</script>;#end\n'
ABORT = False


def about_x(kind: str, at_ns: int, node: int, **fields: object) -> Event:
    """An event about the transactional id `x`."""
    named = {"transactional_id": "x", "producer_id": 7, "producer_epoch": 0}
    return Event(seq=at_ns + 1, at_ns=at_ns, node=node, kind=kind, fields=named | fields)


def picture(events: Iterable[Event], transactional_id: str | None = None) -> History:
    """What a picture of a transaction shows."""
    return of_transaction(history_of(events), transactional_id)


def told(history: History) -> list[str]:
    """A line for each step: from which side to which, and what."""
    names = [lane.about.split()[0] for lane in history.lanes]
    return [f"{names[step.source]} {names[step.target]}: {step.text}" for step in history.steps]


@pytest.fixture
def cluster() -> Cluster:
    """Its brokers have heard of the metadata that they start with."""
    cluster = Cluster(2, brokers=2, topics=["t:1"], delay_ms=(1, 1))
    cluster.world.run_until(lambda: False, within_ms=100)
    return cluster


def test_the_picture_of_the_readme_is_what_the_command_makes() -> None:
    assert TRANSACTION.read_text(encoding="utf-8") == transaction()


def test_an_aborted_transaction_step_by_step(cluster: Cluster) -> None:
    producer = Producer.started(cluster, tid="x")
    producer.transact(("t", 0), outcome=ABORT)
    assert cluster.world.run_until(lambda: cluster.state("x") == "CompleteAbort", within_ms=1_000)
    assert told(picture(events_of(cluster))) == [
        "x coordinator: InitProducerId v5",
        "coordinator coordinator: Empty, epoch 0",
        "x leader: Produce v13",
        "leader leader: the batch for t-0 is parked",
        "leader coordinator: AddPartitionsToTxn of t-0",
        "coordinator coordinator: Empty → Ongoing, epoch 0",
        "coordinator coordinator: t-0 is part of the transaction",
        "coordinator leader: accepted",
        "leader leader: open: the LSO stays at 0",
        "x coordinator: EndTxn v5",
        "coordinator coordinator: Ongoing → PrepareAbort, epoch 1",
        "coordinator leader: WriteTxnMarkers v2",
        "leader leader: marker ABORT at offset 1",
        "leader leader: closed: the LSO goes on",
        "coordinator coordinator: PrepareAbort → CompleteAbort, epoch 1",
    ]


def test_a_refused_verification_is_told_as_refused() -> None:
    asked = about_x("verify_start", 1, 2, topic="t", partition=0)
    refused = about_x("verify_end", 2, 2, topic="t", partition=0, verdict="refused", error="INVALID_TXN_STATE")
    events = [about_x("state_change", 0, 1, state_to="Empty"), asked, refused]
    [*_, last] = picture(events, "x").steps
    assert (last.text, last.answer_to, last.error) == ("INVALID_TXN_STATE", asked.seq, "INVALID_TXN_STATE")
    assert "refused" in drawn(picture(events, "x"))
    assert "L0--xL1: INVALID_TXN_STATE" in mermaid(picture(events, "x"))


def test_what_clients_name_is_text() -> None:
    request = Event(
        seq=1, at_ns=0, node=1, kind="request", fields={"api": "END_TXN", "version": 5, "client_id": HOSTILE}
    )
    drawing = picture([request, about_x("state_change", 1, 1, transactional_id=HOSTILE, state_to="PrepareCommit")])
    tree = ElementTree.fromstring(drawn(drawing))
    assert {"script"} & {element.tag.rpartition("}")[2] for element in tree.iter()} == set()
    assert len(mermaid(drawing).splitlines()) == 5
    assert not set("<>;#") & set(mermaid(drawing).replace("->>", ""))


# ---------------------------------------------------------------------- the command


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def show(*words: object) -> None:
    commands_for("show").run(["show", *map(str, words)])


@pytest.fixture
def file(tmp_path: Path, cluster: Cluster) -> Path:
    for tid in ("x", "y"):
        Producer.started(cluster, tid=tid).transact(("t", 0))
        assert cluster.world.run_until(lambda tid=tid: cluster.state(tid) == "CompleteCommit", within_ms=1_000)  # type: ignore[misc]
    return written(tmp_path / "events.jsonl", *(line.decode() for line in lines_of(cluster)))


def test_the_transaction_that_ended_last_is_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(file)
    assert "participant L0 as client, y" in capsys.readouterr().out


def test_a_transaction_that_has_not_ended_is_shown(cluster: Cluster) -> None:
    """Its producer adds the partition itself, as in a test that fails while a commit is held."""
    producer = Producer.started(cluster, OLD, tid="x")
    producer.begin(("t", 0))
    assert told(picture(events_of(cluster)))[-1] == "coordinator coordinator: t-0 is part of the transaction"


def test_another_transaction_and_another_form(file: Path, tmp_path: Path) -> None:
    show(file, "--transaction", "x", "--out", tmp_path / "x.svg")
    assert "The transaction of x" in (tmp_path / "x.svg").read_text()
    show(file, "--transaction", "x", "--out", tmp_path / "x.mmd")
    assert (tmp_path / "x.mmd").read_text().startswith("sequenceDiagram\n")


def test_a_file_that_is_cut_in_its_last_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = file.read_text()
    file.write_text(text + text[:40])
    show(file)
    assert "CompleteCommit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lines", "options", "sentence"),
    [
        (['{"kind": "request"}'], [], ":1: this is no event"),
        (["kafka"], [], ":1: this is no event"),
        ([], [], "These events are about no transaction."),
        ([], ["--transaction", "z"], "These events say nothing about the transactional id 'z'."),
        ([], ["--out", "picture.png"], "the name of a picture ends in .svg or .mmd"),
    ],
    ids=["fields", "json", "empty", "unknown", "form"],
)
def test_bad_input_is_one_sentence(tmp_path: Path, lines: list[str], options: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence.replace("(", r"\(")):
        show(written(tmp_path / "events.jsonl", *lines), *options)


def test_files_that_cannot_be_read_or_written(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        list(read_events(tmp_path / "none"))
    with pytest.raises(UsageError, match="No such file"):
        show(file, "--out", tmp_path / "none" / "x.svg")
