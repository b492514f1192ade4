"""From events to a history: lanes, steps, and which transaction each step is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.kips.producer import Producer
from tests.kips.styles import OLD
from tests.pictures import events_of
from tests.unit.show.event_files import started, transacted

from odradek.show.attribution import WAITING_MAX
from odradek.show.events import Event
from odradek.show.history import History, Step, history_of
from odradek.show.transaction import only

TILL: dict[str, Any] = {"transactional_id": "x", "producer_id": 7, "producer_epoch": 0}
PLACE: dict[str, Any] = {"topic": "t", "partition": 0}
T0 = "partition:t-0 > partition:t-0"
PRODUCED_BY_NOBODY = {"transactionalId": None, "topicData": [{"partitionData": [{"records": {"producerId": 7}}]}]}

LOOKS = ("DESCRIBE_TRANSACTIONS", "FIND_COORDINATOR")
"""What a test asks while it waits."""


class Told:
    """Events by hand, a millisecond apart."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def tell(self, kind: str, node: int = 1, **fields: Any) -> None:
        at = len(self.events)
        self.events.append(Event(seq=at + 10, at_ns=at * 1_000_000 + 5, node=node, kind=kind, fields=fields))

    def ask(self, api: str, version: int = 5, *, node: int = 1, client: str = "till", **fields: Any) -> None:
        """A request; with a correlation id it has a connection, too."""
        if "correlation" in fields:
            fields = {"connection": 3} | fields
        by = client.startswith("broker-")
        self.tell("request", node, api=api, version=version, client_id=client, from_broker=by, **fields)

    def answer(self, api: str, correlation: int, error: str = "NONE", **fields: Any) -> None:
        told: dict[str, Any] = {"node": 1, "client_id": "till", "from_broker": False, "version": 5, "connection": 3}
        self.tell("response", api=api, correlation=correlation, error=error, **(told | fields))

    @property
    def history(self) -> History:
        return history_of(self.events)


@pytest.fixture
def told() -> Told:
    return Told()


def arrows(history: History, steps: Sequence[Step] | None = None) -> list[str]:
    """`from > to: text` for each step."""
    keys = [lane.key for lane in history.lanes]
    return [f"{keys[step.source]} > {keys[step.target]}: {step.text}" for step in steps or history.steps]


def whose(history: History) -> list[str | None]:
    return [step.transactional_id for step in history.steps]


# ---------------------------------------------------------------------- lanes and texts


def test_a_committed_transaction_has_every_event_as_a_step() -> None:
    cluster = started()
    transacted(cluster, Producer.started(cluster, tid="x"))
    events = events_of(cluster)
    history = history_of(events, title="it", left_out=3, note="cut")
    assert [(step.seq, step.kind, step.node, step.fields) for step in history.steps] == [
        (event.seq, event.kind, event.node, event.fields) for event in events
    ]
    assert (history.title, history.left_out, history.note) == ("it", 3, "cut")
    assert (history.events, history.transactions) == (len(events), ("x",))
    assert {lane.kind for lane in history.lanes} == {"client", "coordinator", "broker", "partition"}


def test_lanes_have_an_order_and_say_what_they_are(told: Told) -> None:
    told.tell("lso_moved", 2, **PLACE, hw=1, lso=1)
    told.tell("lso_moved", 11, topic="t", partition=10, hw=1, lso=1)
    told.tell("feature_changed", 11, feature="transaction.version", level_from=0, level_to=2)
    told.tell("feature_changed", 2, feature="transaction.version", level_from=0, level_to=2)
    told.ask("METADATA", client="")
    told.ask("END_TXN")
    told.tell("state_change", **TILL, state_from="Ongoing", state_to="PrepareCommit")
    assert [(lane.key, lane.name, lane.about) for lane in told.history.lanes] == [
        ("client:", "client without an id", ""),
        ("client:till", "till", "x"),
        ("coordinator:1", "broker 1", "coordinator"),
        ("broker:1", "broker 1", ""),
        ("broker:2", "broker 2", ""),
        ("broker:11", "broker 11", ""),
        ("partition:t-0", "t-0", "led by broker 2"),
        ("partition:t-10", "t-10", "led by broker 11"),
    ]


@pytest.mark.parametrize(
    ("kind", "fields", "step"),
    [
        ("state_change", {**TILL, "state_to": "Empty"}, "coordinator:1 > coordinator:1: Empty, epoch 0"),
        ("partitions_added", {**TILL, **PLACE}, "coordinator:1 > coordinator:1: t-0 is part of the transaction"),
        ("parked", {**TILL, **PLACE}, f"{T0}: the batch for t-0 is parked"),
        ("marker_written", {**PLACE, "offset": 3, "commit": True}, f"{T0}: marker COMMIT at offset 3"),
        ("lso_moved", {**PLACE, "hw": 4, "lso": 2}, f"{T0}: LSO 2, high watermark 4"),
        ("leadership_taken", {**PLACE, "leader_epoch": 4}, f"{T0}: takes the lead of t-0, leader epoch 4"),
        (
            "leadership_taken",
            {"topic": "__transaction_state", "partition": 1, "leader_epoch": 4},
            "coordinator:1 > coordinator:1: takes the lead of __transaction_state-1, leader epoch 4",
        ),
        (
            "group_state_change",
            {"group_id": "g", "state_from": "Empty", "state_to": "Stable", "members": 1},
            "coordinator:1 > coordinator:1: group g: Empty → Stable, 1 member",
        ),
        ("broker_fenced", {"broker": 2}, "broker:1 > broker:1: the controller fences broker 2"),
        ("moon_rose", {"phase": "full", "none": None}, "broker:1 > broker:1: moon rose, phase full"),
        ("moon_rose", {**PLACE}, f"{T0}: moon rose, topic t, partition 0"),
        ("state_change", {}, "coordinator:1 > coordinator:1: None"),
        ("request", {}, "client: > broker:1: None vNone"),
    ],
)
def test_where_an_event_is_and_what_it_says(told: Told, kind: str, fields: dict[str, Any], step: str) -> None:
    told.tell(kind, **fields)
    assert arrows(told.history) == [step]


def test_every_kind_of_event_has_words() -> None:
    from odradek.control.event_kinds import KINDS
    from odradek.show.words import TEXTS

    assert set(KINDS) - {"response"} == set(TEXTS) - {"response"}


def test_no_events_are_a_history() -> None:
    assert history_of([]) == History(title="", lanes=(), steps=(), transactions=(), events=0)


# ---------------------------------------------------------------------- requests and responses


def test_requests_are_arrows_and_responses_answer_them(told: Told) -> None:
    told.ask("END_TXN", correlation=4, body={"transactionalId": "x", "producerId": 7})
    told.ask("PRODUCE", 13, correlation=4, connection=9, body={"transactionalId": None, "topicData": []})
    told.answer("END_TXN", 4, "PRODUCER_FENCED", body={"errorCode": 90})
    told.answer("PRODUCE", 4, connection=9)
    history = told.history
    assert arrows(history) == [
        "client:till > coordinator:1: EndTxn v5",
        "client:till > broker:1: Produce v13",
        "coordinator:1 > client:till: EndTxn answered: PRODUCER_FENCED",
        "broker:1 > client:till: Produce answered",
    ]
    assert [step.answer_to for step in history.steps] == [None, None, 10, 11]
    assert [step.error for step in history.steps] == ["", "", "PRODUCER_FENCED", ""]
    assert whose(history) == ["x", None, "x", None]
    assert [step.kip for step in history.steps] == ["KIP-890", None, "KIP-890", None]
    assert [step.at_ms for step in history.steps] == [0, 1, 2, 3]


def test_a_response_whose_request_is_not_in_the_window(told: Told) -> None:
    told.answer("END_TXN", 4)
    [step] = told.history.steps
    assert (step.answer_to, arrows(told.history)) == (None, ["coordinator:1 > client:till: EndTxn answered"])


def test_what_brokers_ask_each_other(told: Told) -> None:
    told.ask("WRITE_TXN_MARKERS", 2, client="broker-2")
    told.ask("ALLOCATE_PRODUCER_IDS", 0, client="broker-2")
    told.ask("FETCH", 17, client="broker-of-no-number")
    assert arrows(told.history) == [
        "coordinator:2 > broker:1: WriteTxnMarkers v2",
        "broker:2 > broker:1: AllocateProducerIds v0",
        "client:broker-of-no-number > broker:1: Fetch v17",
    ]


def test_a_question_goes_to_where_the_coordinator_is(told: Told) -> None:
    """It may be seen later, and move."""
    told.tell("verify_start", 1, **TILL, **PLACE)
    told.tell("state_change", 2, **TILL, state_to="Ongoing")
    told.tell("verify_end", 1, **TILL, **PLACE, verdict="accepted", error="NONE")
    told.tell("state_change", 3, **TILL, state_to="PrepareCommit")
    told.tell("verify_start", 1, **TILL, **PLACE)
    told.tell("verify_start", 1, transactional_id="unknown", **PLACE)
    assert [each for each in arrows(told.history) if "epoch" not in each] == [
        "broker:1 > coordinator:2: AddPartitionsToTxn of t-0",
        "coordinator:2 > broker:1: accepted",
        "broker:1 > coordinator:3: AddPartitionsToTxn of t-0",
        "broker:1 > broker:1: AddPartitionsToTxn of t-0",
    ]
    assert [step.answer_to for step in told.history.steps] == [None, None, 10, None, None, None]


def test_a_question_without_an_answer_ends_at_the_leader(told: Told) -> None:
    told.tell("state_change", 2, **TILL, state_to="Ongoing")
    told.tell("verify_start", 1, **TILL, **PLACE)
    told.tell("verify_end", 1, **TILL, **PLACE, verdict="refused", error="NETWORK_EXCEPTION")
    assert arrows(told.history)[1:] == [
        "broker:1 > coordinator:2: AddPartitionsToTxn of t-0",
        "broker:1 > broker:1: no answer: NETWORK_EXCEPTION",
    ]


# ---------------------------------------------------------------------- whose an event is


def without_answers(events: Sequence[Event]) -> list[Event]:
    """As an Odradek of before wrote them: no responses, no bodies, no connections."""
    late = ("body", "connection")
    plain = ({name: value for name, value in event.fields.items() if name not in late} for event in events)
    return [
        replace(event, fields=fields) for event, fields in zip(events, plain, strict=True) if event.kind != "response"
    ]


@pytest.mark.parametrize("has_answers", [True, False], ids=["answers", "no-answers"])
@pytest.mark.parametrize("style_is_old", [False, True], ids=["new", "old"])
def test_an_id_is_followed_from_its_first_request_to_its_last_marker(style_is_old: bool, has_answers: bool) -> None:
    cluster = started(brokers=2)
    producers = [
        Producer.started(cluster, OLD, tid=tid) if style_is_old else Producer.started(cluster, tid=tid) for tid in "xy"
    ]
    for producer in producers:
        transacted(cluster, producer)
    events = events_of(cluster)
    history = history_of(events if has_answers else without_answers(events))
    for tid in "xy":
        steps = only(history, tid).steps
        asked = [step.fields["api"] for step in steps if step.kind == "request" and step.fields["api"] not in LOOKS]
        assert len([step for step in steps if step.kind == "response"]) == (
            len([step for step in steps if step.kind == "request"]) if has_answers else 0
        )
        adds = ["ADD_PARTITIONS_TO_TXN", "PRODUCE"] if style_is_old else ["PRODUCE", "ADD_PARTITIONS_TO_TXN"]
        # An older client adds the partition; then its leader asks whether it has.
        adds += ["ADD_PARTITIONS_TO_TXN"] if style_is_old else []
        assert asked[:1] + asked[-2:] == ["INIT_PRODUCER_ID", "END_TXN", "WRITE_TXN_MARKERS"]
        assert set(asked[1:-2]) == set(adds)
        assert {"marker_written", "transaction_opened", "transaction_closed"} <= {step.kind for step in steps}
        assert {step.producer_id for step in steps} - {None} == {
            last.producer_id for last in steps if last.kind == "marker_written"
        }
    mine = {"state_change", "parked", "verify_start", "marker_written", "transaction_closed"}
    assert all(step.transactional_id for step in history.steps if step.kind in mine)


def test_bodies_say_whose_a_request_is(told: Told) -> None:
    told.ask("INIT_PRODUCER_ID", correlation=1, body={"transactionalId": "x", "producerId": -1})
    told.answer("INIT_PRODUCER_ID", 1, body={"producerId": 7, "errorCode": 0})
    told.ask("ADD_PARTITIONS_TO_TXN", 3, body={"v3AndBelowTransactionalId": "x", "v3AndBelowProducerId": 7})
    told.ask("ADD_PARTITIONS_TO_TXN", 5, body={"transactions": [{"transactionalId": "x", "producerId": 7}]})
    told.ask("FIND_COORDINATOR", 6, body={"keyType": 1, "coordinatorKeys": ["x"]})
    told.ask("DESCRIBE_TRANSACTIONS", 0, body={"transactionalIds": ["x"]})
    told.ask("WRITE_TXN_MARKERS", 2, client="broker-1", body={"markers": [{"producerId": 7}]})
    told.ask(
        "PRODUCE",
        13,
        body=PRODUCED_BY_NOBODY,
    )
    told.tell("transaction_opened", producer_id=7, **PLACE)
    assert whose(told.history) == ["x"] * 9
    assert [step.producer_id for step in told.history.steps] == [7, 7, 7, 7, None, None, 7, 7, 7]


def test_bodies_that_name_nobody_or_several(told: Told) -> None:
    told.ask("FIND_COORDINATOR", 6, body={"keyType": 0, "coordinatorKeys": ["x"]})
    told.ask("FIND_COORDINATOR", 6, body={"keyType": 1, "coordinatorKeys": ["x", "y"]})
    told.ask("INIT_PRODUCER_ID", 5, body={"transactionalId": None, "producerId": -1})
    told.ask("PRODUCE", 13, body="odd")
    told.tell("init_producer_id", **TILL)
    assert whose(told.history) == [None, None, None, None, "x"]
    assert "client:till > broker:1: InitProducerId v5" in arrows(told.history)


def test_markers_of_several_transactions_are_told_with_the_first(told: Told) -> None:
    told.tell("fenced", **TILL)
    told.ask("WRITE_TXN_MARKERS", 2, client="broker-1", body={"markers": [{"producerId": 7}, {"producerId": 8}]})
    told.tell("marker_written", producer_id=7, **PLACE)
    told.tell("marker_written", producer_id=8, **PLACE)
    assert whose(told.history) == ["x", "x", "x", None]


def test_an_answered_request_is_not_about_what_follows(told: Told) -> None:
    """The first EndTxn was refused: the second one changes the state."""
    told.ask("END_TXN", correlation=1)
    told.answer("END_TXN", 1, "INVALID_TXN_STATE")
    told.ask("END_TXN", correlation=2)
    told.tell("state_change", **TILL, state_from="Ongoing", state_to="PrepareCommit")
    told.answer("END_TXN", 2)
    assert whose(told.history) == [None, None, "x", "x", "x"]


def test_several_requests_at_once_are_served_in_their_order(told: Told) -> None:
    told.ask("END_TXN", correlation=1)
    told.ask("END_TXN", correlation=2)
    told.tell("state_change", **TILL, state_from="Ongoing", state_to="PrepareCommit")
    told.tell("state_change", transactional_id="y", producer_id=8, state_from="Ongoing", state_to="PrepareAbort")
    assert whose(told.history)[:2] == ["x", "y"]


def test_a_request_is_not_about_an_event_that_it_cannot_bring_about(told: Told) -> None:
    told.ask("PRODUCE", 13)
    told.tell("marker_written", **TILL, **PLACE)
    told.ask("END_TXN")
    told.tell("state_change", **TILL, state_from="PrepareCommit", state_to="CompleteCommit")
    told.tell("lso_moved", **PLACE, hw=1, lso=1)
    assert whose(told.history) == [None, "x", None, "x", None]


def test_a_batch_that_was_parked_is_of_the_request_before(told: Told) -> None:
    """When it goes on, another Produce has come: that one is not about this transaction."""
    told.ask("PRODUCE", 13)
    told.tell("parked", **TILL, **PLACE)
    told.ask("PRODUCE", 13, client="other")
    told.tell("transaction_opened", producer_id=7, offset=0, **PLACE)
    told.ask("PRODUCE", 13)
    told.tell("transaction_opened", producer_id=7, offset=0, **PLACE)
    assert whose(told.history) == ["x", "x", None, "x", "x", "x"]


def test_a_batch_is_of_the_newest_request(told: Told) -> None:
    """A rule holds the first Produce, or it has acks=0 and is never answered."""
    told.ask("PRODUCE", 13, correlation=1, client="other")
    told.ask("PRODUCE", 13, correlation=2)
    told.tell("parked", **TILL, **PLACE)
    assert whose(told.history) == [None, "x", "x"]


def test_many_requests_without_an_answer_do_not_add_up(told: Told) -> None:
    for number in range(WAITING_MAX + 1):
        told.ask("END_TXN", correlation=number)
    told.tell("state_change", **TILL, state_from="Ongoing", state_to="PrepareCommit")
    assert [index for index, tid in enumerate(whose(told.history)) if tid == "x"] == [1, WAITING_MAX + 1]


def test_producers_without_a_transactional_id(told: Told) -> None:
    told.ask(
        "PRODUCE",
        13,
        body=PRODUCED_BY_NOBODY,
    )
    [step] = told.history.steps
    assert (step.transactional_id, step.producer_id, step.kip) == (None, 7, None)


def test_kips_follow_versions_and_levels(told: Told) -> None:
    told.ask("INIT_PRODUCER_ID", 1)
    told.ask("INIT_PRODUCER_ID", 6)
    told.tell("state_change", **TILL, state_to="Empty", tv=1)
    told.tell("state_change", **TILL, state_to="Ongoing", tv=2)
    told.tell("transaction_kept", **TILL)
    told.tell("metadata_transaction_began", offset=0)
    told.tell("moon_rose")
    kips = [step.kip for step in told.history.steps]
    assert kips == ["KIP-98", "KIP-939", "KIP-98", "KIP-890", "KIP-939", "KIP-868", None]
