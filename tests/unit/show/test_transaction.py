"""A transaction as a picture, from the events of brokers."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree

import pytest
from tests.kips.cluster import Cluster
from tests.kips.producer import Producer
from tests.kips.styles import OLD
from tests.pictures import TRANSACTION, events_of, transaction

from odradek.cli.usage import UsageError
from odradek.show.events import Event
from odradek.show.history import History, history_of
from odradek.show.mermaid import mermaid
from odradek.show.svg import drawn
from odradek.show.transaction import of_transaction

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
        "coordinator x: InitProducerId answered",
        "x leader: Produce v13",
        "leader leader: the batch for t-0 is parked",
        "leader coordinator: AddPartitionsToTxn of t-0",
        "coordinator coordinator: Empty → Ongoing, epoch 0",
        "coordinator coordinator: t-0 is part of the transaction",
        "coordinator leader: accepted",
        "leader leader: open: the LSO stays at 0",
        "leader x: Produce answered",
        "x coordinator: EndTxn v5",
        "coordinator coordinator: Ongoing → PrepareAbort, epoch 1",
        "coordinator x: EndTxn answered",
        "coordinator leader: WriteTxnMarkers v2",
        "leader leader: marker ABORT at offset 1",
        "leader leader: closed: the LSO goes on",
        "leader coordinator: WriteTxnMarkers answered",
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


def test_a_transaction_that_has_not_ended_is_shown(cluster: Cluster) -> None:
    """Its producer adds the partition itself, as in a test that fails while a commit is held."""
    producer = Producer.started(cluster, OLD, tid="x")
    producer.begin(("t", 0))
    assert told(picture(events_of(cluster)))[-2:] == [
        "coordinator coordinator: t-0 is part of the transaction",
        "coordinator x: AddPartitionsToTxn answered",
    ]


def test_partitions_of_one_leader_are_told_apart(cluster: Cluster) -> None:
    opened = [about_x("transaction_opened", at, 1, topic=topic, partition=0, offset=7) for at, topic in enumerate("tu")]
    drawing = picture(opened)
    assert [lane.about for lane in drawing.lanes] == ["leader of t-0, u-0"]
    assert [step.text for step in drawing.steps] == ["t-0: open: the LSO stays at 7", "u-0: open: the LSO stays at 7"]


def test_a_picture_of_no_transaction_is_refused() -> None:
    feature = Event(seq=1, at_ns=0, node=1, kind="feature_changed", fields={})
    with pytest.raises(UsageError, match="These events are about no transaction"):
        picture([feature])
    with pytest.raises(UsageError, match="say nothing about the transactional id 'z'"):
        picture([about_x("fenced", 0, 1)], "z")
