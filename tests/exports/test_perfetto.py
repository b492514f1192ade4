"""Traces for Perfetto, read by the classes of its own schema (the package perfetto of PyPI)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet
from msgspec.structs import replace
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema
from tests.exports.histories import hostile_texts, named, two_transactions

from odradek.show.history import History
from odradek.show.perfetto import perfetto

BEGIN, END, INSTANT, COUNTER = (
    schema.TrackEvent.TYPE_SLICE_BEGIN,
    schema.TrackEvent.TYPE_SLICE_END,
    schema.TrackEvent.TYPE_INSTANT,
    schema.TrackEvent.TYPE_COUNTER,
)


def unknown(message: Any) -> Iterator[int]:
    """The numbers of fields that the schema does not have, in a message or within it."""
    yield from (field.field_number for field in UnknownFieldSet(message))
    for field, within in message.ListFields():
        if field.message_type is not None:
            for each in within if field.is_repeated else [within]:
                yield from unknown(each)


class Read:
    """A trace as its reader has it."""

    def __init__(self, history: History) -> None:
        trace = schema.Trace.FromString(perfetto(history))
        assert not list(unknown(trace))
        self.packets = list(trace.packet)
        described = [one.track_descriptor for one in self.packets if one.HasField("track_descriptor")]
        self.tracks = {track.uuid: track for track in described}
        assert len(self.tracks) == len(described)
        self.events = [(one.timestamp, one.track_event) for one in self.packets if one.HasField("track_event")]

    def path(self, uuid: int) -> str:
        """`clients/till (till)/requests`."""
        track = self.tracks[uuid]
        above = f"{self.path(track.parent_uuid)}/" if track.HasField("parent_uuid") else ""
        return f"{above}{track.name}"

    def named(self, kind: int, path: str) -> list[str]:
        return [event.name for _, event in self.events if event.type == kind and self.path(event.track_uuid) == path]


def arguments(event: Any) -> dict[str, object]:
    """The arguments of an event."""
    return {each.name: value(each) for each in event.debug_annotations}


def value(annotation: Any) -> object:
    if annotation.dict_entries:
        return {each.name: value(each) for each in annotation.dict_entries}
    if annotation.array_values:
        return [value(each) for each in annotation.array_values]
    kind = annotation.WhichOneof("value")
    return None if kind is None else getattr(annotation, kind)


def assert_well_formed(read: Read) -> None:
    """What the reader of a trace relies on: times go on, tracks are described first, slices lie within slices."""
    assert all(one <= other for (one, _), (other, _) in pairwise(read.events))
    assert {one.trusted_packet_sequence_id for one in read.packets} == {1}
    assert read.packets[0].sequence_flags & schema.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    depth: Counter[int] = Counter()
    for _, event in read.events:
        assert event.track_uuid in read.tracks
        if event.type in (BEGIN, END):
            depth[event.track_uuid] += 1 if event.type == BEGIN else -1
            assert depth[event.track_uuid] >= 0
    for uuid, track in read.tracks.items():
        assert uuid
        assert track.name is not None
        assert not track.HasField("parent_uuid") or track.parent_uuid in read.tracks


def test_a_trace_is_well_formed() -> None:
    history = two_transactions()
    read = Read(history)
    assert_well_formed(read)
    groups = {track.name for track in read.tracks.values() if not track.HasField("parent_uuid")}
    assert groups == {"clients", "coordinators", "brokers", "partitions", "transactions"}
    lanes = {f"{lane.name} ({lane.about})" if lane.about else lane.name for lane in history.lanes}
    assert lanes <= {track.name for track in read.tracks.values()}


def test_a_transaction_is_a_slice_with_its_states_in_it() -> None:
    read = Read(two_transactions())
    for name, last in (("x", "PrepareCommit"), ("y", "PrepareAbort")):
        assert read.named(BEGIN, f"transactions/{name}") == ["transaction 1", "Ongoing", last]
        [*_, ended] = read.named(INSTANT, f"transactions/{name}")
        assert f"→ Complete{last.removeprefix('Prepare')}" in ended
        place = f"transactions/{name}"
        assert sum(event.type == END and read.path(event.track_uuid) == place for _, event in read.events) == 3


def test_the_last_stable_offset_and_the_high_watermark_are_counters() -> None:
    history = two_transactions()
    read = Read(history)
    counted = defaultdict(list)
    for _, event in read.events:
        if event.type == COUNTER:
            assert read.tracks[event.track_uuid].HasField("counter")
            counted[read.path(event.track_uuid)].append(event.counter_value)
    moved = [step.fields for step in history.steps if step.kind == "lso_moved" and step.fields["topic"] == "t"]
    [lane] = [lane for lane in history.lanes if lane.kind == "partition"]
    place = f"partitions/{lane.name} ({lane.about})"
    assert counted[f"{place}/last stable offset"] == [fields["lso"] for fields in moved]
    assert counted[f"{place}/high watermark"] == [fields["hw"] for fields in moved]
    assert read.named(BEGIN, f"{place}/open transactions") == ["x", "y"]


def test_a_request_is_a_slice_at_both_ends_with_an_arrow_between_them() -> None:
    read = Read(named("till"))
    assert_well_formed(read)
    begun = [(at, event) for at, event in read.events if event.type == BEGIN]
    assert [read.path(event.track_uuid) for _, event in begun] == [
        "clients/till (till)/requests",
        "brokers/broker 1/requests",
    ]
    [(_, sent), (_, received)] = begun
    assert list(sent.flow_ids) == list(received.terminating_flow_ids) == [1]
    ends = [(at, event) for at, event in read.events if event.type == END]
    assert [at - begun[0][0] for at, _ in ends] == [2_000_000, 2_000_000]
    assert arguments(ends[0][1])["error"] == "till"
    assert list(ends[0][1].categories) == ["error"]


def test_requests_that_overlap_lie_on_tracks_of_one_name() -> None:
    history = named("till")
    first, parked, answer = history.steps
    second, later = replace(first, seq=4, at_ms=1.5), replace(answer, seq=5, at_ms=3.0, answer_to=4)
    read = Read(replace(history, steps=(first, parked, second, answer, later)))
    assert_well_formed(read)
    used = {event.track_uuid for _, event in read.events if event.type == BEGIN}
    assert len(used) == 4
    assert Counter(map(read.path, used)) == {"clients/till (till)/requests": 2, "brokers/broker 1/requests": 2}
    # Each of them ends where it began.
    for uuid in used:
        [begun, ended] = [event.type for _, event in read.events if event.track_uuid == uuid]
        assert (begun, ended) == (BEGIN, END)


def test_a_request_without_an_answer_stays_open_where_answers_are_told() -> None:
    history = named("till")
    first, parked, answer = history.steps
    unanswered = replace(first, seq=4, at_ms=3.0)
    read = Read(replace(history, steps=(first, parked, answer, unanswered)))
    assert sum(event.type == BEGIN for _, event in read.events) == 4
    assert sum(event.type == END for _, event in read.events) == 2
    # An older file tells no answers at all: there a request is an instant.
    assert {event.type for _, event in Read(replace(history, steps=(first, parked))).events} == {INSTANT}


def test_an_event_has_its_fields_as_arguments() -> None:
    body = {"transactional_id": "till", "topics": [{"name": "t", "partitions": [0, 1]}], "committed": True, "at": 1.5}
    history = named("till")
    steps = (replace(history.steps[1], kip="KIP-890", fields={"body": body, "producer_id": -1, "none": None}),)
    [(_, event)] = Read(replace(history, steps=steps)).events
    told = arguments(event)
    assert told == {"event": 2, "transactional_id": "till", "kip": "KIP-890", "body": body, "producer_id": -1}
    assert list(event.categories) == ["parked"]


def test_a_clock_that_was_set_back_does_not_end_a_slice_before_it_begins() -> None:
    history = named("till")
    first, _, answer = history.steps
    read = Read(replace(history, steps=(replace(first, at_ms=5.0), replace(answer, at_ms=1.0))))
    assert_well_formed(read)


def test_times_are_those_of_the_wall_clock() -> None:
    read = Read(replace(named("till"), start_ms=1_700_000_000_000.0))
    assert read.events[0][0] == 1_700_000_000_000_000_000
    clocks = {clock.clock_id: clock.timestamp for clock in read.packets[0].clock_snapshot.clocks}
    assert clocks == {6: 1_700_000_000_000_000_000, 1: 1_700_000_000_000_000_000}


def test_every_name_is_a_text_in_it() -> None:
    for text in hostile_texts():
        read = Read(named(text))
        assert_well_formed(read)
        assert any(event.name == text for _, event in read.events), text
    assert any("?" in event.name for _, event in Read(named("half \ud800 pair")).events)
