"""Whatever is in a file that looks like events: it is shown, or left out, and never an error."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.show.event_files import line

from odradek.control.event_kinds import KINDS
from odradek.show.difference import difference
from odradek.show.events import TYPES, event_of
from odradek.show.history import history_of
from odradek.show.mermaid import mermaid
from odradek.show.svg import drawn
from odradek.show.transaction import of_transaction, only
from odradek.show.words import api_name

BODY_NAMES = ("transactionalId", "producerId", "markers", "transactions", "topicData", "partitionData", "records")
NUMBERS = st.integers(-2, 9)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(BODY_NAMES), inner, max_size=3),
    max_leaves=6,
)
OF_TYPES = {str: st.sampled_from(["t", "x", "END_TXN", "PRODUCE", "broker-2", "Ongoing", ""]), int: NUMBERS}
FIELDS = st.fixed_dictionaries(
    {},
    optional={name: OF_TYPES.get(kind, VALUES) | st.none() for name, kind in TYPES.items()}
    | {"body": VALUES, "tv": VALUES, "from_broker": st.booleans(), "moon": VALUES},
)
EVENT = st.tuples(st.sampled_from([*KINDS, "response", "moon_rose"]), st.integers(1, 3), FIELDS)


@given(told=st.lists(EVENT, max_size=12))
def test_any_events_are_a_history(told: list[tuple[str, int, dict[str, Any]]]) -> None:
    lines = [line(seq, kind, node, **fields) for seq, (kind, node, fields) in enumerate(told, 1)]
    events = [event for event in map(event_of, lines) if event is not None]
    history = history_of(events)
    assert [step.seq for step in history.steps] == [event.seq for event in events]
    assert {lane for step in history.steps for lane in (step.source, step.target)} == set(range(len(history.lanes)))
    seqs = {step.seq for step in history.steps}
    assert all(step.answer_to in seqs for step in history.steps if step.answer_to is not None)
    assert difference(history, history).left is None
    for tid in history.transactions:
        mine = [step for step in history.steps if step.transactional_id == tid]
        assert len(only(history, tid).steps) == len(mine)
        if any(step.kind in ("state_change", "fenced", "parked") for step in mine):
            drawing = of_transaction(history, tid)
            assert drawn(drawing).startswith("<svg")
            assert mermaid(drawing).startswith("sequenceDiagram")


@given(st.text())
def test_any_name_of_an_api_has_a_form(name: str) -> None:
    assert "_" not in api_name(name)
