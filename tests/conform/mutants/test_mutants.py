"""The table of mutants, and the proxy between a right client and the cluster."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatch
from typing import Any

import pytest
from tests.conform.drivers.families import command
from tests.conform.mutants.__main__ import PAGE, kept, look_for, page
from tests.conform.mutants.mutant import Mutant, mutants
from tests.conform.mutants.proxy import chosen, set_values, values

from odradek.conform.protocol import VERBS
from odradek.conform.scenario import load
from odradek.wire.messages import ApiKey
from odradek.wire.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

MUTANTS = mutants()
IDS = [each.id for each in load()]


def named(name: str) -> Mutant:
    [found] = [each for each in MUTANTS if each.name == name]
    return found


def test_there_are_sixty_at_least_and_no_name_twice() -> None:
    assert len({each.name for each in MUTANTS}) == len(MUTANTS) >= 60


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_a_mutant_changes_something_that_there_is(mutant: Mutant) -> None:
    assert mutant.wire or mutant.told or mutant.features or mutant.cap
    assert all(change.api in ApiKey.__members__ for change in mutant.wire)
    assert all(change.verb in VERBS for change in mutant.told)
    assert re.fullmatch(r"[a-z0-9-]+", mutant.name)
    assert all(any(fnmatch(each, pattern) for each in IDS) for pattern in mutant.killed_by), mutant.killed_by


def test_the_page_is_made_of_the_results_and_has_every_mutant() -> None:
    assert page(kept()) == PAGE.read_text()
    assert [each.name for each in MUTANTS] == [each.name for each in kept()]


def test_nineteen_of_twenty_are_killed_by_a_sentence_that_they_break() -> None:
    assert sum(each.expected for each in kept()) * 20 >= len(kept()) * 19
    killers = {each.name: each.killed_by for each in MUTANTS}
    for each in kept():
        assert each.expected == any(fnmatch(id_, pattern) for id_ in each.killed for pattern in killers[each.name])


def test_which_request_is_meant() -> None:
    assert [False, True, False] == [chosen(number, "2") for number in (1, 2, 3)]
    assert [False, True, True] == [chosen(number, "2+") for number in (1, 2, 3)]


def test_a_field_is_set_in_every_element_of_lists() -> None:
    partitions = [TxnOffsetCommitRequestPartition(index, 10 * index) for index in (1, 2)]
    request: Any = TxnOffsetCommitRequest(topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=partitions)])
    set_values(request, "topics.partitions.committed_offset", "+1")
    assert [11, 21] == list(values(request, "topics.partitions.committed_offset"))
    set_values(request, "group_instance_id", "null")
    assert request.group_instance_id is None


@pytest.mark.client
@pytest.mark.slow
def test_the_proxy_alone_harms_nobody_and_a_mutant_is_killed() -> None:
    driver = command("confluent-kafka")
    nothing = Mutant(name="none", about="", killed_by=["kip-98/transactions/abort-shows-nothing"])
    assert {"kip-98/transactions/abort-shows-nothing": "pass"} == look_for(nothing, driver, jobs=1).survived
    found = look_for(named("commits-what-is-aborted"), driver, jobs=1)
    assert found.expected
    assert "lost" in found.killed["kip-98/transactions/abort-shows-nothing"]


@pytest.mark.client
@pytest.mark.slow
@pytest.mark.builds
@pytest.mark.skipif(os.environ.get("CI") != "true", reason="a JVM and Maven, for one sentence more")
def test_the_java_client_keeps_the_bumped_epoch_and_its_mutant_does_not() -> None:
    driver, id_ = command("java"), "kip-890/1/epoch-after-abort"
    nothing = Mutant(name="none", about="", killed_by=[id_])
    assert {id_: "pass"} == look_for(nothing, driver, jobs=1).survived
    assert look_for(named("epoch-in-the-answer-of-abort-not-read"), driver, jobs=1).expected
