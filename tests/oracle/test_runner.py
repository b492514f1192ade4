"""The runner itself: its language, its transcripts, and how answers become text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle import shapes
from tests.oracle.answers import Aliases, find, render
from tests.oracle.explore import shrunk
from tests.oracle.language import LanguageError, Scope, split_words
from tests.oracle.player import assignment, java_hash, subscription
from tests.oracle.requests import api_key, build_request
from tests.oracle.scenario import LEVELS, Step, load_all, parse_file, parse_text
from tests.oracle.stories import KINDS
from tests.oracle.telling import BEFORE_LEVELS
from tests.oracle.transcript import Entry, difference, merge, parse
from tests.oracle.verbs import VERBS

from odradek.records.batch import parse_batch
from odradek.wire.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from odradek.wire.messages.end_txn_response import EndTxnResponse
from odradek.wire.messages.fetch_response import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from odradek.wire.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember


def make_aliases() -> Aliases:
    return Aliases("story-", ports={9092: "PORT"})


def scope(**variables: Any) -> Scope:
    made = Scope("story-")
    made.variables.update(variables)
    return made


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-1", -1),
        ("e+1", 8),
        ("e-1+x", 106),
        ('"a \\"b\\""', 'a "b"'),
        ("null", None),
        ("true", True),
        ("[1, [], t]", [1, [], "story-t"]),
        ("{name: t, partitions: [0, e]}", {"name": "story-t", "partitions": [0, 7]}),
        ('hex("00ff")', b"\x00\xff"),
        ('times("ab", 3)', "ababab"),
    ],
)
def test_values(text: str, value: object) -> None:
    assert value == scope(e=7, x=100).value(text)


@pytest.mark.parametrize("text", ["", "1 2", "[1", "{1: 2}", "nothing(1)", "e+", "?", "[1 2]"])
def test_what_is_not_a_value(text: str) -> None:
    with pytest.raises(LanguageError):
        scope(e=7).value(text)


def test_words_keep_brackets_and_quotes_together() -> None:
    assert ["a", 'b={c: "d e"}', "[1, 2]"] == split_words('a  b={c: "d e"} [1, 2]')


@pytest.mark.parametrize("line", ['a "b', "a [b", "a b)"])
def test_words_that_are_not_closed(line: str) -> None:
    with pytest.raises(LanguageError):
        split_words(line)


def test_a_file_of_scenarios(tmp_path: Path) -> None:
    path = tmp_path / "topic.txt"
    path.write_text(
        "# A comment\nwith a.b=1\n\n== It's a Title!\nlevels 1 2\ndiffers because\n"
        "[2] @b EndTxn v5 tid x\n    e commit until error_code=NONE -> x e\nawait tid Empty\n"
    )
    (scenario,) = parse_file(path)
    assert "topic/it-s-a-title" == scenario.path
    assert "topic-it-s-a-title-" == scenario.prefix
    assert (1, 2) == scenario.levels
    assert "because" == scenario.differs
    assert {"a.b": "1"} == scenario.properties
    request, verb = scenario.steps
    assert (2,) == request.levels
    assert ("b", "EndTxn", 5) == (request.connection, request.verb, request.version)
    assert ("tid", "x", "e", "commit") == request.words
    assert ("x", "e") == request.captures
    assert ["error_code"] == [condition.field for condition in request.until]
    assert "await" == verb.verb
    assert [verb] == list(scenario.at(1))


@pytest.mark.parametrize("line", ["EndTxn tid", "levels 3", "EndTxn v5 until what"])
def test_a_line_that_is_wrong_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "topic.txt"
    path.write_text(f"== Title\n{line}\n")
    with pytest.raises(LanguageError, match=r"topic\.txt:2"):
        parse_file(path)


def test_every_step_of_the_scenarios_is_known() -> None:
    for scenario in load_all():
        for step in scenario.steps:
            if step.is_request:
                api_key(step.verb)
            else:
                assert step.verb in VERBS, f"{scenario.path} line {step.line}"


def test_short_forms_are_explained() -> None:
    for name, shape in shapes.SHAPES.items():
        assert shape.__doc__ is not None
        assert shape.__doc__.startswith((name, "SyncGroup", "ReadShareGroupState")), name


def test_a_short_form_of_produce() -> None:
    words = tuple(split_words("tid x e acks=1 t-0 sequence=3 records=2 t-1 sequence=0"))
    fields = shapes.request_fields("Produce", 12, words, scope(x=5, e=1), {})
    assert ("story-tid", 1) == (fields["transactional_id"], fields["acks"])
    (topic,) = fields["topic_data"]
    first, second = topic["partition_data"]
    batch = parse_batch(memoryview(first["records"]))
    assert (5, 1, 3, 2, True) == (
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.record_count,
        batch.is_transactional,
    )
    assert (0, 1) == (first["index"], second["index"])


def test_fields_that_a_request_does_not_have() -> None:
    with pytest.raises(LanguageError, match="no field nonsense"):
        build_request(api_key("EndTxn"), {"nonsense": 1})


def test_producer_ids_are_shown_by_their_order() -> None:
    aliases = make_aliases()
    assert ["error_code=NONE producer_id=x producer_epoch=1"] == render(EndTxnResponse(0, 0, 4711, 1), 5, aliases)
    assert ["error_code=NONE producer_id=y producer_epoch=1"] == render(EndTxnResponse(0, 0, 4700, 1), 5, aliases)
    assert ["error_code=PRODUCER_FENCED producer_id=-1 producer_epoch=-1"] == render(
        EndTxnResponse(0, 90, -1, -1), 5, aliases
    )
    # a version without these fields
    assert ["error_code=NONE"] == render(EndTxnResponse(0, 0, 4711, 1), 4, aliases)


def test_members_are_sorted_by_when_they_came() -> None:
    first, second = "c-ffffffff-0000-0000-0000-000000000000", "c-00000000-0000-0000-0000-000000000000"
    aliases = make_aliases()
    assert "c-uuid1" == aliases.text(first)
    members = [JoinGroupResponseMember(member_id=second), JoinGroupResponseMember(member_id=first)]
    lines = render(JoinGroupResponse(members=members), 3, aliases)
    assert ['    members member_id=c-uuid1 metadata=""', '    members member_id=c-uuid2 metadata=""'] == lines[1:]


def test_aborted_transactions_keep_their_order() -> None:
    aborted = [AbortedTransaction(producer_id=9, first_offset=4), AbortedTransaction(producer_id=8, first_offset=0)]
    partition = PartitionData(high_watermark=5, aborted_transactions=aborted)
    message = FetchResponse(responses=[FetchableTopicResponse(topic="story-t", partitions=[partition])])
    found = [text for text, _ in find("first_offset", message, 4, make_aliases())]
    assert ["4", "0"] == found


def test_texts_lose_what_is_random() -> None:
    aliases = make_aliases()
    aliases.topic("t", bytes(15) + b"\x01")
    assert '"t of AAAAAAAAAAAAAAAAAAAAAg"' == aliases.text("story-t of AAAAAAAAAAAAAAAAAAAAAg")
    assert "id(t)" == aliases.text("AAAAAAAAAAAAAAAAAAAAAQ")
    assert '"at now"' == aliases.text("at 1795273488070")
    assert '""' == aliases.text("")


def test_java_hash() -> None:
    assert 0 == java_hash("")
    assert 96354 == java_hash("abc")
    assert -1367724422 == java_hash("cancel")


lines = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)
answers = st.lists(lines, max_size=3).map(tuple)


@given(st.lists(st.tuples(lines.filter(lambda line: line[0] not in "[#"), st.tuples(*[answers] * 3)), min_size=1))
def test_a_merged_transcript_can_be_taken_apart(steps: list[tuple[str, tuple[tuple[str, ...], ...]]]) -> None:
    transcripts = {
        level: [Entry(number, text, by_level[level]) for number, (text, by_level) in enumerate(steps)]
        for level in LEVELS
    }
    assert transcripts == parse(merge("Somebody", transcripts))


def test_levels_that_agree_share_their_answer() -> None:
    transcripts = {0: [Entry(0, "a", ("no",))], 1: [Entry(0, "a", ("yes",))], 2: [Entry(0, "a", ("yes",))]}
    expected = "# Kafka, transaction.version 0 1 2\n\na\n  [0]\n    no\n  [1 2]\n    yes\n"
    assert expected == merge("Kafka", transcripts)


def test_steps_of_one_level() -> None:
    text = "# Kafka, transaction.version 1 2\n\na\n    yes\n[2] b\n    only\n"
    transcripts = parse(text)
    assert [Entry(0, "a", ("yes",))] == transcripts[1]
    assert [Entry(0, "a", ("yes",)), Entry(1, "[2] b", ("only",))] == transcripts[2]
    assert text == merge("Kafka", transcripts)


def test_differences_name_the_step() -> None:
    one, other = [Entry(0, "a", ("x", "y")), Entry(1, "b")], [Entry(0, "a", ("x", "z")), Entry(1, "b")]
    assert [] == difference(one, one)
    assert ["a", "    x", "  - y", "  + z"] == difference(one, other)
    assert "recorded again" in difference(one, other[:1])[0]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_tells_one_story(kind: str, level: int) -> None:
    assert KINDS[kind].story(7, level) == KINDS[kind].story(7, level)
    assert KINDS[kind].story(7, level) != KINDS[kind].story(8, level)


ASKED = {
    "transactions": {
        "Produce",
        "EndTxn",
        "TxnOffsetCommit",
        "WriteTxnMarkers",
        "AddPartitionsToTxn",
        "ListTransactions",
    },
    "logs": {"Produce", "Fetch", "ListOffsets", "DeleteRecords", "OffsetForLeaderEpoch"},
    "classic": {"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "TxnOffsetCommit"},
    "topics": {"IncrementalAlterConfigs", "AlterConfigs", "CreatePartitions", "CreateTopics", "DeleteTopics"},
    "groups": {"ConsumerGroupHeartbeat", "OffsetCommit", "TxnOffsetCommit", "OffsetFetch", "DeleteGroups"},
    "sessions": {"Fetch", "Produce", "DeleteTopics", "CreatePartitions", "DeleteRecords"},
    "shares": {"ShareFetch", "ShareAcknowledge", "Produce", "DeleteTopics", "DeleteRecords"},
}


def steps_of(kind: str, seed: int, level: int) -> list[Step]:
    begin, steps = KINDS[kind].story(seed, level)
    (scenario,) = parse_text("explored", "\n".join(("== A story", *begin, *steps, *KINDS[kind].end)))
    return [step for step in scenario.steps if step.is_request]


def is_of_a_transaction(step: Step) -> bool:
    """Whether a real Kafka has to write what an entry of level 0 has no place for, if the version is a new one."""
    return step.verb in BEFORE_LEVELS and "null" not in step.words and "verify" not in step.words


@pytest.mark.parametrize("kind", KINDS)
def test_stories_at_level_0_are_those_of_clients_that_know_no_levels(kind: str) -> None:
    for seed in range(100):
        for step in filter(is_of_a_transaction, steps_of(kind, seed, 0)):
            assert step.version <= BEFORE_LEVELS[step.verb], step.text


@pytest.mark.parametrize("kind", ["transactions", "logs", "classic", "groups"])
def test_stories_at_other_levels_are_of_newer_clients_too(kind: str) -> None:
    told = {step.verb for seed in range(40) for step in steps_of(kind, seed, 2) if is_newer(step)}
    assert told >= {"EndTxn", "Produce" if kind == "logs" else "TxnOffsetCommit"}


def is_newer(step: Step) -> bool:
    return is_of_a_transaction(step) and step.version > BEFORE_LEVELS[step.verb]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_request_of_stories_is_known(kind: str, level: int) -> None:
    known = scope(**dict.fromkeys("abcdefghijklnsxyz", 1), m="member", p=bytes(16), q=bytes(16), w=bytes(16))
    known.functions |= {"assignment": assignment, "subscription": subscription, "id": lambda name: bytes(16)}
    ids = dict.fromkeys(("story-t", "story-u", "story-v", "story-unknown"), bytes(16))
    asked = set()
    for seed in range(40):
        for step in steps_of(kind, seed, level):
            asked.add(step.verb)
            fields = shapes.request_fields(step.verb, step.version, step.words, known, ids)
            build_request(api_key(step.verb), fields)
    assert asked >= ASKED[kind]


def test_a_story_is_cut_down_to_what_differs() -> None:
    assert shrunk(list("defghij"), lambda shorter: {"e", "i"} <= set(shorter)) == ["e", "i"]


@pytest.mark.parametrize(("head", "count"), [("", 1), ("two brokers\n", 2), ("three brokers\n", 3)])
def test_how_many_brokers_a_scenario_needs(head: str, count: int) -> None:
    (scenario,) = parse_text("topic", f"{head}== Title\nkill 2\n")
    assert count == scenario.brokers


def test_the_order_of_replicas_is_kept_and_that_of_those_in_sync_is_not() -> None:
    partition = DescribeTopicPartitionsResponsePartition(replica_nodes=[3, 1, 2], isr_nodes=[3, 1, 2])
    topic = DescribeTopicPartitionsResponseTopic(name="t", partitions=[partition])
    text = "\n".join(render(DescribeTopicPartitionsResponse(topics=[topic]), 0, make_aliases()))
    assert "replica_nodes=[3, 1, 2] isr_nodes=[1, 2, 3]" in text


@pytest.mark.parametrize(("moving", "shown"), [(False, "7"), (True, "term1")])
def test_where_coordinators_move_their_epochs_are_named(moving: bool, shown: str) -> None:
    aliases = Aliases("story-", ports={}, coordinators_move=moving)
    assert (shown, "7") == (aliases.leadership("coordinator_epoch", 7), aliases.leadership("leader_epoch", 7))
