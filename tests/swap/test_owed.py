"""A transaction that one system has prepared, and whose markers the other one writes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.cimpl import NewTopic
from tests.swap.judges import audit
from tests.swap.look import TRANSACTION_KEY, Brokers, NotReady, look, transaction_of
from tests.swap.members import wait_for
from tests.swap.states import TIMEOUT_S, Clients
from tests.swap.systems import Kafka, Odradek, directory, folders
from tests.swap.turns import LARGE, both, played, ready, until

from odradek.records.batch import CONTROL

pytestmark = pytest.mark.skipif(not os.environ.get("ODRADEK_SWAP"), reason="make swap: it needs a real Kafka")

HELD = """\
rules:
  - match: {api: WRITE_TXN_MARKERS}
    act: {hold: true}
"""
LEADS_WHEN_DEAD = {"broker.session.timeout.ms": "300000", "replica.lag.time.max.ms": "2000"}
"""A broker that has died leads on: to Kafka's coordinator a partition without a leader is one that was deleted.

Replicas that it had leave the ISR, so that the others can go on.
"""
REGISTERS_SOON = {"broker.session.timeout.ms": "3000"}
"""The only broker may register so long after it was killed: until then Kafka's coordinator may forget markers."""


class Owed(NamedTuple):
    """A transaction that is decided."""

    level: int
    commits: bool
    end: str = "kill"
    """How the system ends that has prepared it."""
    brokers: int = 1

    @property
    def id(self) -> str:
        return f"tv{self.level}-{'commit' if self.commits else 'abort'}-{self.end}-{self.brokers}"

    @property
    def state(self) -> str:
        return "PrepareCommit" if self.commits else "PrepareAbort"

    def decide(self, producer: Producer, timeout_s: float = TIMEOUT_S) -> None:
        (producer.commit_transaction if self.commits else producer.abort_transaction)(timeout_s)

    def is_done(self, seen: Mapping[str, Any]) -> bool:
        """Its end and what is stable are asked for one after the other: a marker may come between."""
        log = seen["logs"]["orders-0"]
        is_complete = seen["transactions"]["owed"][0] == self.state.replace("Prepare", "Complete")
        return bool(is_complete and 1 < log["stable"] == log["end"])

    def check(self, seen: Mapping[str, Any], producer_id: int) -> None:
        """The markers are there, again where the coordinator has moved before it had heard that they are.

        A coordinator that loads a prepared transaction sends its markers, whoever has sent them before, and a
        partition takes a marker of the same epoch again. No coordinator has two of them written.
        """
        log = seen["logs"]["orders-0"]
        assert self.is_done(seen)
        assert log["stable"] == log["end"]
        assert ([] if self.commits else [(producer_id, 0)]) == log["aborted"]
        assert [b"decided"] == [record[3] for record in log["records"] if not record[-1] & CONTROL]
        markers = [record for record in log["records"] if record[-1] & CONTROL]
        assert {int(self.commits)} == {int.from_bytes(record[2][2:4]) for record in markers}
        coordinators = [int.from_bytes(record[3][2:6]) for record in markers]
        assert sorted({*coordinators}) == coordinators


# None of them is small: a Kafka that starts forgets markers now and then (`played`), and they take long.
OF_ODRADEK = (
    *(Owed(2, commits, end) for commits in (True, False) for end in ("stop", "kill")),
    *(Owed(level, commits) for level in (0, 1) for commits in (True, False)),
    *(Owed(2, commits, end, brokers=3) for commits, end in ((True, "kill"), (False, "stop"))),
)
OF_KAFKA = tuple(Owed(level, commits, brokers=3) for level in (0, 1, 2) for commits in (True, False))


def each_of(table: Sequence[Owed]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("owed", [pytest.param(each, id=each.id, marks=LARGE) for each in table])


def begin(producer: Producer) -> None:
    producer.begin_transaction()
    producer.produce("orders", "decided", partition=0)
    assert 0 == producer.flush(TIMEOUT_S)


@each_of(OF_ODRADEK)
def test_kafka_writes_the_markers_that_odradek_owed(tmp_path: Path, owed: Owed) -> None:
    settings = REGISTERS_SOON if owed.brokers == 1 else None
    played(tmp_path, partial(go_on_with_kafka, owed), owed.level, brokers=owed.brokers, settings=settings)


def go_on_with_kafka(owed: Owed, root: Path, kafka: Kafka, odradek: Odradek) -> None:
    odradek.faults = root.with_suffix(".yaml")
    odradek.faults.write_text(HELD)
    try:
        producer = ready(odradek, replicas=owed.brokers).transactional("owed")
        begin(producer)
        owed.decide(producer)
        seen = look(odradek.bootstrap)
    finally:
        getattr(odradek, owed.end)()
    assert owed.state == seen["transactions"]["owed"][0]
    assert (0, 1) == (seen["logs"]["orders-0"]["stable"], seen["logs"]["orders-0"]["end"])
    try:
        kafka.start()
        done = until(kafka, owed.is_done)
    finally:
        kafka.stop()
    owed.check(done, seen["transactions"]["owed"][1])


@LARGE
@each_of(OF_KAFKA)
def test_odradek_writes_the_markers_that_kafka_owed(tmp_path: Path, owed: Owed) -> None:
    """The broker of the only partition has died, so the coordinator cannot write them; then all others die, too."""
    kafka, odradek = both(tmp_path, owed.level, brokers=owed.brokers, settings=LEADS_WHEN_DEAD)
    try:
        kafka.start()
        clients = Clients(kafka.bootstrap)
        producer = clients.transactional("owed")
        with Brokers(kafka.bootstrap) as brokers:
            coordinator = brokers.coordinator_of(TRANSACTION_KEY, "owed")
            away = next(each for each in (3, 2) if each != coordinator)
        new = NewTopic("orders", 1, replica_assignment=[[away]])
        clients.admin.create_topics([new])["orders"].result(TIMEOUT_S)
        begin(producer)
        kafka.nodes[away - 1].kill()
        # Its first answer may come too late for the client, which gets no other one before the markers are there.
        with suppress(KafkaException):
            owed.decide(producer, 10)
        found: tuple[Any, ...] = ()

        def is_prepared() -> bool:
            nonlocal found
            try:
                with Brokers(kafka.bootstrap) as brokers:
                    found = transaction_of(brokers, "owed")
            except NotReady:
                return False
            return bool(found[0] == owed.state)

        wait_for(is_prepared, "the coordinator says that the transaction is prepared")
    finally:
        kafka.kill()
    try:
        odradek.start()
        done = until(odradek, owed.is_done)
    finally:
        odradek.stop()
    owed.check(done, found[1])
    for each in folders(tmp_path):
        assert [] == audit(each, tmp_path / "audit" / each.name)
    assert [] == odradek.complaints()
    assert not list(directory(tmp_path).glob("*/*-stray"))
