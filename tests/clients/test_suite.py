"""The suite of `python -m bench.suite`: its tests as data, its sums, and a small run with each family."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from bench.suite import __main__ as command
from bench.suite import waits
from bench.suite.cases import CASES, PLAYS, Case
from bench.suite.families import FAMILIES, Family
from bench.suite.grounds import Ground
from bench.suite.turns import Turn, play
from tests.clients.lacking import with_toolchains

ONE_OF_EACH = [next(case for case in CASES if case.play == name) for name in PLAYS]
HERE = Path(__file__).resolve().parent
# Answers each line as it says: `error=…` is a failure, `ends` the end of the program.
PROGRAM = """
import sys, json
for line in sys.stdin:
    words = dict(word.split("=", 1) for word in line.split())
    if words["play"] == "ends":
        raise SystemExit
    print(json.dumps({"error": None if words["play"] == "passes" else line}), flush=True)
"""


def test_there_are_a_hundred_tests_each_with_its_own_name_and_all_plays_are_played() -> None:
    assert 100 == len(CASES)
    assert 100 == len({case.name for case in CASES})
    assert set(PLAYS) == {case.play for case in CASES}


def test_each_program_knows_every_play() -> None:
    programs = HERE.parents[1] / "bench" / "suite" / "programs"
    for folder in ("java", "franz-go", "python"):
        text = "".join(file.read_text() for file in (programs / folder).iterdir())
        for name in PLAYS:
            known = f"def {name}(" if folder == "python" else f'"{name}"'
            assert known in text, (folder, name)


def family(**lacks: str) -> Family:
    return Family(lambda: [sys.executable, "-c", PROGRAM], [], [], lacks)


@contextmanager
def nowhere() -> Iterator[Ground]:
    yield Ground(os.getpid(), 0.5, lambda: nullcontext("127.0.0.1:1"))


def played(*plays: str, **lacks: str) -> Turn:
    turn = Turn("tried", "odradek")
    with Path("/dev/null").open("wb") as said:
        play(turn, family(**lacks), nowhere, [Case(name, name, {}) for name in plays], said, quick=False)
    return turn


def test_a_test_that_fails_has_no_time_but_a_reason() -> None:
    turn = played("passes", "fails")
    assert {"passes"} == set(turn.times)
    assert "play=fails" in turn.failed["fails"]
    assert 0.5 == turn.start


def test_a_program_that_ends_fails_the_tests_that_are_left() -> None:
    turn = played("passes", "ends", "passes again")
    assert {"passes"} == set(turn.times)
    assert {"ends", "passes again"} == set(turn.failed)


def test_what_a_client_lacks_is_said() -> None:
    turn = played("passes", "odd", odd="this client has no odd things")
    assert {"odd": "this client has no odd things"} == turn.failed


def test_a_test_that_fails_on_one_peer_counts_for_none() -> None:
    cases = [Case(name, name, {}) for name in ("one", "two")]
    ours = Turn("java", "odradek", start=0.25, broker_cpu=1, client_cpu=2, times={"one": 1.0, "two": 5.0})
    theirs = Turn("java", "kfake", times={"one": 4.0}, failed={"two": "it cannot"})
    told = command.figures([ours, theirs], cases)
    assert {"odradek": 1.0, "kfake": 4.0} == told["java: 1 tests, s"]
    assert {"odradek": 1.0, "kfake": 4.0} == told["all families: tests, s"]
    assert {"odradek": 0.25, "kfake": 0.0} == told["all families: start of the broker, s"]
    assert ["java: one, ms"] == list(command.times([ours, theirs], cases))


def test_the_median_of_the_rounds_counts_and_families_are_added() -> None:
    case = Case("one", "one", {})
    turns = [Turn("java", "odradek", times={"one": seconds}) for seconds in (1.0, 9.0, 2.0)]
    turns.append(Turn("aiokafka", "odradek", times={"one": 10.0}))
    assert {"odradek": 12.0} == command.figures(turns, [case])["all families: tests, s"]


def test_an_unknown_peer_is_named() -> None:
    with pytest.raises(SystemExit, match="no redpanda; there are odradek, kfake, kafka"):
        command.main(["--peers", "redpanda"])


def fact(ms: float, kind: str, api: str = "", **more: object) -> dict[str, object]:
    told = {"connection": 1, "correlation": more.pop("number", 0), "api": api}
    return {"ts_ns": round(ms * 1e6), "kind": kind, **told, **more}


TIME_LINE = [
    fact(0, "request", "METADATA", number=9),
    fact(10, "request", "JOIN_GROUP", number=1),
    fact(30, "response", "JOIN_GROUP", number=1, error="MEMBER_ID_REQUIRED"),
    fact(40, "request", "PRODUCE", connection=0),
    fact(130, "request", "JOIN_GROUP", number=2),
    fact(131, "request", "FETCH", number=1, connection=2),
    fact(132, "response", "JOIN_GROUP", number=2, error="NONE"),
    fact(133, "group_state_change", state_to="CompletingRebalance", members=3),
    fact(134, "request", "HEARTBEAT", number=3),
    fact(135, "response", "HEARTBEAT", number=3, error="NONE"),
    fact(200, "request", "METADATA", number=4),
    fact(201, "response", "METADATA", number=4, error="NONE"),
    fact(900, "request", "METADATA", number=5),
]


def test_the_waits_of_a_test_are_those_between_its_answers_and_its_next_requests() -> None:
    told = waits.read(TIME_LINE, round(5e6), round(280e6))
    assert 5 == told.requests
    assert [3] == told.generations
    assert [(5, "the start to JOIN_GROUP"), (100, "JOIN_GROUP (MEMBER_ID_REQUIRED) to JOIN_GROUP")] == told.at_client[
        :2
    ]
    assert (79, "METADATA to the end") == told.at_client[-1]
    assert (20, "JOIN_GROUP") == told.at_broker[0]
    line = waits.tell("a test", told)
    assert "a test: 5 requests; client 100 ms JOIN_GROUP (MEMBER_ID_REQUIRED) to JOIN_GROUP, 79 ms" in line
    assert line.endswith("broker 20 ms JOIN_GROUP; generations of 3")


def test_while_a_request_is_at_the_broker_its_client_waits_for_that() -> None:
    told = waits.read([*TIME_LINE[:6], fact(150, "response", "FETCH", number=1, connection=2, error="NONE")], 0, 10**9)
    assert (850, "FETCH to the end") == told.at_client[-1]
    assert (19, "FETCH") == told.at_broker[-1]


@pytest.mark.client
def test_the_waits_of_real_clients_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with with_toolchains("aiokafka"):
        assert 0 == waits.main(["--families", "aiokafka", "--match", "groups, partitions 1"])
    printed = capsys.readouterr().out
    assert "aiokafka, odradek with events: groups, partitions 1: " in printed
    assert "in 1 tests, 0 failed" in printed


@pytest.mark.client
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("own", [False, True])
def test_every_play_passes_on_odradek(name: str, own: bool, capsys: pytest.CaptureFixture[str]) -> None:
    given = command.parse(["--families", name, "--peers", "odradek", *(["--own-cluster"] if own else [])])
    with with_toolchains(name):
        (turn,) = command.suite(given, ONE_OF_EACH, print)
    assert {} == turn.failed, capsys.readouterr().out
    assert {case.name for case in ONE_OF_EACH} == set(turn.times)
