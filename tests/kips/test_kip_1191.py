"""KIP-1191, dead letter queues of share groups: each of its situations, and the test that holds it.

Kafka's own ShareConsumerDLQTest is of 4.4 and not published with the other tests (docs/kafka-tests.md), so that the
list is ours: what the KIP says and Kafka 4.4.0 does, sentence by sentence.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
UNIT = "unit/share/test_dead_letters.py"
ORACLE = "oracle/scenarios/share_dead_letters.txt"
ACLS = "oracle/scenarios/share_dead_letters_with_acls.txt"

SITUATIONS = [
    # which records
    ("A rejected record goes to the queue.", ORACLE, "Rejected records go to the dead letter queue"),
    (
        "A record that is released at the limit of deliveries goes there.",
        ORACLE,
        "A record that was delivered too often",
    ),
    (
        "A record that is released below the limit does not.",
        UNIT,
        "test_a_released_record_goes_there_at_the_limit_alone",
    ),
    ("A record whose lock expires at the limit goes there.", ORACLE, "A lock that expires at the limit"),
    ("A record whose member goes at the limit goes there.", ORACLE, "A member that goes at the limit"),
    ("Gaps do not go there.", UNIT, "test_offsets_without_records_do_not_go_there"),
    ("A renewed lock does not send its record there.", UNIT, "test_a_renewed_lock_gives_nothing_up"),
    ("Records that are gone from the log do not.", ORACLE, "Records that are gone are copied by their headers alone"),
    # the switches
    ("Without share.version 2 there is no queue.", UNIT, "test_before_share_version_2_there_is_no_queue"),
    (
        "A group whose queue has no name has none; it may get and lose one at any time.",
        ORACLE,
        "A queue that is named while records are in flight",
    ),
    ("The queue of a group may be the topic that it reads.", ORACLE, "A queue of a queue"),
    # the topic
    ("The topic is created where brokers may create it.", ORACLE, "The topic is created"),
    (
        "It is created once for records that come together.",
        UNIT,
        "test_the_topic_is_created_once_for_records_that_come_together",
    ),
    (
        "A topic that is not there and is not to be created fails the write.",
        ORACLE,
        "A topic that is not there and is not created",
    ),
    ("A topic that has not opted in fails the write.", ORACLE, "A topic that is not for dead letters"),
    ("A name without the prefix fails the write.", ORACLE, "A name without the prefix"),
    (
        "The prefix is wanted of a topic that brokers would create, too.",
        ORACLE,
        "A topic that is there needs the prefix as one that is created",
    ),
    (
        "The name of a group's queue does not begin with two underscores.",
        "oracle/scenarios/streams_topics.txt",
        "Configs of a group that are wrong",
    ),
    ("The checks are made before each attempt.", UNIT, "test_the_name_of_the_queue_is_looked_at_before_each_attempt"),
    # two phases
    (
        "The answer to an acknowledgement does not wait for the queue.",
        UNIT,
        "test_rejected_records_are_in_the_queue_before_they_are_archived",
    ),
    (
        "If the first write of the state fails, nothing is given up.",
        UNIT,
        "test_a_refused_first_write_gives_nothing_up",
    ),
    (
        "If the second one fails, the leader goes on all the same.",
        UNIT,
        "test_a_refused_second_write_does_not_bring_records_back",
    ),
    (
        "A record that cannot be written is archived all the same.",
        UNIT,
        "test_what_cannot_be_written_is_archived_all_the_same",
    ),
    (
        "The next leader resumes with records that are archiving, and guesses their cause.",
        ORACLE,
        "Records that are archiving are written again by the next leader",
    ),
    (
        "It writes them again if the one before had written them.",
        UNIT,
        "test_a_leader_that_takes_over_between_both_writes_writes_again",
    ),
    # the record
    (
        "Without a copy key and value are null; six headers tell the source.",
        ORACLE,
        "Rejected records go to the dead letter queue",
    ),
    ("A copy has key and value, and not the source's own headers.", ORACLE, "A copy has key and value"),
    (
        "The partition is the source's, modulo the number of the queue's.",
        ORACLE,
        "The partition is that of the source by the number of the queue's",
    ),
    (
        "Records that were given up together are one batch, without a producer id.",
        ORACLE,
        "A whole batch is one request",
    ),
    ("Batches keep to max.message.bytes of the queue.", ORACLE, "Copies of large batches and large records"),
    ("A record that is too large for a copy goes without it.", ORACLE, "A copy too large for the queue"),
    # the writer
    (
        "Records that come while a request is on its way go with the next one.",
        UNIT,
        "test_records_that_come_meanwhile_go_together",
    ),
    (
        "NOT_LEADER_OR_FOLLOWER is tried again behind a wait.",
        UNIT,
        "test_an_error_that_passes_is_tried_again_behind_a_wait",
    ),
    (
        "A lost answer is tried again, so that a record may be there twice.",
        UNIT,
        "test_a_letter_whose_answer_is_lost_is_written_again",
    ),
    (
        "A leader of the queue that is away is tried again, five times in all.",
        UNIT,
        "test_a_queue_whose_leader_is_away",
    ),
    (
        "A creation that a quota or a lost connection hinders is tried again.",
        UNIT,
        "test_a_creation_that_fails_for_now_is_tried_again",
    ),
    ("Any other error gives the records up.", UNIT, "test_a_topic_that_the_controller_refuses_to_create"),
    ("Metrics count records and requests.", UNIT, "test_records_that_come_meanwhile_go_together"),
    # rights
    ("The broker writes as itself.", ACLS, "A queue for which only others have rights"),
    ("It needs WRITE.", ACLS, "A broker that may not write to the queue loses the record"),
    ("It needs CREATE.", ACLS, "A broker that may not create the queue loses the record"),
]


@pytest.mark.parametrize(("sentence", "file", "name"), SITUATIONS)
def test_a_situation_has_its_test(sentence: str, file: str, name: str) -> None:
    text = (TESTS / file).read_text(encoding="utf-8")
    assert f"\ndef {name}(" in text or f"\n== {name}\n" in text, sentence


@pytest.mark.parametrize("file", [UNIT, ORACLE, ACLS])
def test_every_test_of_dead_letters_has_its_sentence(file: str) -> None:
    """What is held beyond the KIP is named here."""
    begins = "== " if file.endswith(".txt") else "def test_"
    there = {
        line.removeprefix("== ").removeprefix("def ").split("(")[0]
        for line in (TESTS / file).read_text(encoding="utf-8").splitlines()
        if line.startswith(begins)
    }
    assert there - BEYOND == {name for _, held, name in SITUATIONS if held == file}


BEYOND = {
    "test_very_many_dead_letters_leave_room_for_others",
    "test_very_many_that_went_together_end_a_few_at_a_time",
    "test_records_that_do_not_fit_go_with_the_next_request_in_their_order",
}
"""Tests of the broker's fairness and of its own limits."""
