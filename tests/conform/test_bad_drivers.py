"""A driver that dies, hangs, floods or lies costs its scenario, and never the run."""

from __future__ import annotations

import os
import time

import pytest
from msgspec.structs import replace
from tests.conform.helpers import QUICK, pretender, results, scenario

from odradek.cli.usage import UsageError
from odradek.conform.driver import DriverFault, Trouble, started
from odradek.conform.play import Outcome
from odradek.conform.protocol import Begin, Send

BEGIN = scenario('steps = [{init = "p1"}, {begin = "p1", timeout_ms = 200}]')
INIT = replace(scenario('steps = [{init = "p1"}]'), id="kip-1/a/c")
WAYS = {
    "dies": "The driver ended with exit code 7 before the answer to begin of p1 (id 2).",
    "killed": "The driver ended with signal SIGKILL before the answer to begin of p1 (id 2).",
    "hangs": "No answer to begin of p1 (id 2) in 0.4 s.",
    "closes": "The driver closed its standard output before the answer to begin of p1 (id 2).",
    "floods-line": "A line of the driver is longer than 1048576 bytes.",
    "floods-lines": 'Not the answer to begin of p1 (id 2), but one to id 3: {"id": 3, "done": {}}',
    "floods-stderr": "The driver has written more than 1048576 bytes to standard error.",
    "no-json": "Not the answer to begin of p1 (id 2) (JSON is malformed",
    "binary": "Not the answer to begin of p1 (id 2) (JSON is malformed",
    "other-id": "Not the answer to begin of p1 (id 2), but one to id 7",
    "both": "Not the answer to begin of p1 (id 2) (an answer has exactly one of done, error and unsupported)",
    "neither": "Not the answer to begin of p1 (id 2) (an answer has exactly one of done, error and unsupported)",
    "class": "Not the answer to begin of p1 (id 2) (Invalid enum value 'harmless'",
    "list": "Not the answer to begin of p1 (id 2) (Expected `object`, got `array`)",
    "done-is-text": "Not the answer to begin of p1 (id 2) (Expected `object | null`, got `str`",
}


@pytest.mark.slow
@pytest.mark.parametrize("how", WAYS)
def test_the_scenario_is_unclear_and_the_next_one_is_played(how: str) -> None:
    _, [first, second] = results(pretender(how), BEGIN, INIT)
    assert Outcome.UNCLEAR is first.outcome
    assert WAYS[how] in first.sentences[0]
    assert Outcome.PASS is second.outcome


def test_what_it_has_said_on_standard_error_is_kept() -> None:
    _, [first, _] = results(pretender("dies"), BEGIN, INIT)
    assert "out of order" in first.errors


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("no-hello", "No hello"),
        ("wrong-hello", "The driver's first line is no hello"),
        ("dies-at-start", "The driver ended with exit code 3 before the hello"),
    ],
)
def test_one_that_does_not_start_ends_the_command(how: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        results(pretender(how), INIT, limits=replace(QUICK, hello_ms=500 if how == "no-hello" else 5_000))


def test_one_that_there_is_not_ends_the_command() -> None:
    with pytest.raises(UsageError, match=r"The driver cannot be started: ./nothing: No such file or directory\."):
        results(["./nothing"], INIT)


async def test_an_answer_without_its_fields_is_a_lie() -> None:
    async with started(pretender("no-offset"), limits=QUICK) as driver:
        with pytest.raises(DriverFault, match="missing required field `partition`") as told:
            await driver.ask(Send(id=driver.next_id(), client="p1", topic="t", value="v", wait=True))
    assert Trouble.LIED is told.value.trouble


async def test_one_that_does_not_read_is_given_up() -> None:
    async with started(pretender("deaf"), limits=QUICK) as driver:
        with pytest.raises(DriverFault, match="does not read its standard input") as told:
            await driver.ask(Send(id=driver.next_id(), client="p1", topic="t", value="v" * (1 << 20)))
    assert Trouble.HUNG is told.value.trouble


@pytest.mark.parametrize("how", ["leaves-children", "stays"])
async def test_it_ends_with_its_children(how: str) -> None:
    began = time.monotonic()
    async with started(pretender(how), limits=QUICK) as driver:
        await driver.ask(Begin(id=driver.next_id(), client="p1"))
        child = int(driver.errors) if how == "leaves-children" else None
    assert time.monotonic() - began < 5
    if child is not None:
        assert not _runs(child)


def _runs(process: int) -> bool:
    ends = time.monotonic() + 5
    while time.monotonic() < ends:
        try:
            with open(f"/proc/{process}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return False
            os.kill(process, 0)
        except (ProcessLookupError, FileNotFoundError):
            return False
        time.sleep(0.02)
    return True


def test_errors_of_the_client_are_outcomes_and_no_faults() -> None:
    slow = replace(scenario('steps = [{init = "slow"}, {begin = "slow"}]'), id="kip-1/a/slow")
    _, [failed, timed_out] = results(pretender("errors"), BEGIN, slow, repeated=1)
    assert (Outcome.FAIL, ["begin of p1 ended in OUT_OF_MEMORY (unknown); it should be done."]) == (
        failed.outcome,
        failed.sentences,
    )
    assert Outcome.FAIL is timed_out.outcome
