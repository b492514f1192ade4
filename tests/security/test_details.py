"""What permissions mean beyond one for each API, as Kafka's AuthorizerIntegrationTest asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.security.brokers import odradek
from tests.security.details import DETAILS
from tests.security.permissions import login
from tests.security.playing import Book, play_story

from odradek.wire.errors import ErrorCode

BOOK = Book("SASL_PLAINTEXT", DETAILS, login)
NOT_FOR_YOU, NOT_THERE = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture(scope="module")
def addresses() -> Iterator[Mapping[str, tuple[str, int]]]:
    with odradek() as addresses:
        yield addresses


def told(addresses: Mapping[str, tuple[str, int]], story: str) -> list[dict[str, Any]]:
    """The answers of a story."""
    lines = play_story(BOOK, story, addresses)
    return [json.loads(line.partition(" ")[2]) for line in lines if "{" in line]


def errors(value: object) -> list[ErrorCode]:
    """All error codes of an answer that stand in its entries, in order."""
    if isinstance(value, list):
        return [error for each in value for error in errors(each)]
    if not isinstance(value, dict):
        return []
    own = [ErrorCode(value["error_code"])] if "error_code" in value else []
    return own + [error for each in value.values() for error in errors(each)]


def test_a_topic_without_a_name_is_nobodys_to_read(addresses: Mapping[str, tuple[str, int]]) -> None:
    for answer in told(addresses, "fetches_of_no_name"):
        assert errors(answer["responses"]) == [NOT_FOR_YOU]


def test_a_follower_may_act_for_the_cluster_or_reads_nothing(addresses: Mapping[str, tuple[str, int]]) -> None:
    assert [errors(answer["responses"]) for answer in told(addresses, "fetches_of_a_follower")] == [[NOT_FOR_YOU]] * 3


def test_an_id_of_no_topic_is_unknown_and_not_forbidden(addresses: Mapping[str, tuple[str, int]]) -> None:
    [answer] = told(addresses, "produces_to_no_id")
    assert errors(answer["responses"]) == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_who_may_describe_a_topic_hears_that_it_is_not_there_to_be_deleted(
    addresses: Mapping[str, tuple[str, int]],
) -> None:
    answers = [errors(answer["responses"]) for answer in told(addresses, "deletes_what_is_not_there")]
    assert answers == [[NOT_THERE], [NOT_THERE], [NOT_FOR_YOU], [NOT_FOR_YOU]]


def test_who_may_act_for_the_cluster_is_told_of_epochs_and_follows(addresses: Mapping[str, tuple[str, int]]) -> None:
    alice, alice_fetches, carol, carol_fetches = told(addresses, "epochs_for_who_may_act_for_the_cluster")
    assert errors(alice["topics"]) == [NOT_FOR_YOU, NOT_FOR_YOU]
    assert errors(alice_fetches["responses"]) == [NOT_FOR_YOU]
    assert errors(carol["topics"]) == [ErrorCode.NONE, NOT_THERE]
    assert errors(carol_fetches["responses"]) == [ErrorCode.NONE]


def test_a_group_is_described_to_who_may_describe_what_its_members_have(
    addresses: Mapping[str, tuple[str, int]],
) -> None:
    for answer in told(addresses, "groups_of_hidden_topics")[:2]:
        [group] = answer["groups"]
        assert (ErrorCode(group["error_code"]), group["members"]) == (NOT_FOR_YOU, [])
