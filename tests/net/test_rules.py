"""Rules over real sockets: they fail the test or the command whose expectation they do not meet."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.net.test_serve import TIMEOUT_S, api_versions, refused, serving

from odradek.host.call import Call
from odradek.net.client import BlockingClient
from odradek.testing import ApiKey, Cluster, RuleError, rule
from odradek.wire.messages.metadata_request import MetadataRequest

pytestmark = pytest.mark.slow

PLAN = "rules:\n  - {name: late, match: {api: API_VERSIONS}, act: {throttle_ms: 1}, expect: {hits: 1}}\n"


def ask(cluster: Cluster) -> None:
    with BlockingClient(cluster.bootstrap.split(",")[0], client_id="t") as client:
        client.ask(MetadataRequest(topics=[]), 12)


# ---------------------------------------------------------------------- a cluster in a test


def test_what_is_expected_in_vain_is_an_error_at_the_end_of_the_cluster() -> None:
    with (
        pytest.raises(AssertionError, match="Rule never expects 1 hit and had 0 hits; no request matched"),
        Cluster(rules=[rule("END_TXN", name="never", drop=True, expect=1)]),
    ):
        pass


async def test_the_same_in_the_event_loop_of_the_test() -> None:
    with pytest.raises(AssertionError, match="Rule rule-1 expects 1 hit"):
        async with Cluster(rules=[rule("END_TXN", drop=True, expect=1)]):
            pass


def test_how_the_test_has_failed_goes_before() -> None:
    with pytest.raises(KeyError), Cluster(rules=[rule("END_TXN", drop=True, expect=1)]):
        raise KeyError("the test's own")


def test_what_a_function_raises_is_raised_in_the_test_with_what_followed_from_it() -> None:
    def reply(call: Call) -> object:
        raise ZeroDivisionError("in reply")

    def play() -> None:
        with Cluster(rules=[rule(ApiKey.METADATA, reply=reply)]) as cluster:
            ask(cluster)
            raise ConnectionError("what the test sees")

    with pytest.raises(ZeroDivisionError, match="in reply") as raised:
        play()
    assert isinstance(raised.value.__cause__, ConnectionError)


def test_what_decides_whether_it_matches_may_raise_as_well() -> None:
    def matches(call: Call) -> bool:
        raise ZeroDivisionError("in matches")

    with pytest.raises(ZeroDivisionError, match="in matches"), Cluster(rules=[rule("METADATA", matches=matches)]) as it:
        ask(it)  # which is served, as if there were no rule


def test_a_rule_that_does_not_fit_the_cluster_is_refused_at_its_start() -> None:
    with pytest.raises(RuleError, match="There is no broker 7: there is 1"), Cluster(rules=[rule(broker=7, drop=True)]):
        pass


@pytest.mark.parametrize("wrong", [[3], [{"match": {}}], "nowhere.yaml"])
def test_what_is_no_rule(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"A rule is a Rule|nowhere.yaml: It cannot be read"):
        Cluster(rules=wrong)


def test_a_plan_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("- {match: {api: METADATA}, act: {throttle_ms: 5}, expect: {hits: 1}}\n")
    with Cluster(rules=path) as cluster:
        [armed] = cluster.add_rules(path)
        ask(cluster)
        ask(cluster)
        assert 1 == armed.hits
        cluster.verify()


def test_waiting_says_what_is_missing() -> None:
    with Cluster() as cluster:
        armed = cluster.add_rule(rule("METADATA", hold=True, expect=1))
        unmet = r"not true after 0.05 s. Rule rule-1 \(test_rules.py:\d+\) expects 1 hit and had 0 hits"
        with pytest.raises(TimeoutError, match=unmet):
            cluster.wait_for(lambda: armed.held, timeout_s=0.05)
        cluster.remove_rule(armed)
        with pytest.raises(AssertionError, match="Rule rule-1"):
            cluster.verify()
        cluster.add_rule(rule("METADATA", name="other", expect={"at_least": 1}))
        ask(cluster)
        cluster._running.rules.clear()


# ---------------------------------------------------------------------- a test of pytest's

TESTS = """
import pytest
from odradek.testing import Cluster, rule

def test_in_vain(kafka_cluster):
    kafka_cluster.add_rule(rule("END_TXN", name="mine", drop=True, expect=1))

def test_nothing_expected(kafka_cluster):
    kafka_cluster.add_rule(rule("END_TXN", drop=True))

def test_a_failure_of_its_own(kafka_cluster):
    kafka_cluster.add_rule(rule("END_TXN", drop=True, expect=1))
    assert False, "its own"
"""


def test_a_test_fails_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=tmp_path)
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "Rule mine expects 1 hit and had 0 hits" in done.stdout
    assert "FAILED test_it.py::test_in_vain - Failed: Rule mine" in done.stdout
    assert "PASSED test_it.py::test_nothing_expected" in done.stdout
    assert "its own" in done.stdout
    assert "ERROR" not in done.stdout


# ---------------------------------------------------------------------- the command


def test_a_plan_that_is_met_ends_well(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    with serving("--faults", str(path)) as (process, [address]):
        api_versions(address)
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(TIMEOUT_S)


@pytest.mark.parametrize("asked", [0, 2])
def test_a_plan_that_is_not_met_ends_with_3_and_a_sentence(tmp_path: Path, asked: int) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN.replace("throttle_ms: 1}", "throttle_ms: 1}, when: {times: all}"))
    with serving("--faults", str(path), "--log-level", "error") as (process, [address]):
        for _ in range(asked):
            api_versions(address)
        process.send_signal(signal.SIGTERM)
        assert 3 == process.wait(TIMEOUT_S)
        assert process.stderr is not None
        saw = "no request matched" if asked == 0 else "2 requests matched"
        assert f"odradek: Rule late expects 1 hit and had {asked} hits; {saw}.\n" == process.stderr.read()


def test_a_plan_with_one_bad_rule_is_refused_whole(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN + "  - match: {api: METADAT}\n    act: {drop: true}\n")
    said = refused("--port", "0", "--faults", str(path))
    assert f"odradek: {path}:3:18: $.rules[1].match.api: There is no API METADAT: did you mean METADATA?\n" == said
    path.write_text(PLAN.replace("API_VERSIONS", "API_VERSIONS, broker: 4"))
    assert "odradek: match.broker: There is no broker 4: there is 1.\n" == refused("--port", "0", "--faults", str(path))


def test_a_story_comes_with_its_cluster() -> None:
    with serving("--story", "coordinator-loading", "--log-level", "error") as (process, addresses):
        assert 3 == len(addresses)
        process.send_signal(signal.SIGTERM)
        assert 3 == process.wait(TIMEOUT_S)
        assert process.stderr is not None
        assert "odradek: Rule records expects 1 hit and had 0 hits; no request matched.\n" == process.stderr.read()


def test_what_is_said_goes_before_the_story() -> None:
    with serving("--story", "late-produce-undefended", "--brokers", "2") as (_, addresses):
        assert 2 == len(addresses)


def test_stories_are_listed_and_shown() -> None:
    command = [sys.executable, "-m", "odradek", "stories"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stdout
    assert "late-produce-after-abort  " in listed
    shown = subprocess.run([*command, "epoch-overflow"], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    assert "set_producer_epoch: 32766" in shown.stdout
    wrong = subprocess.run([*command, "epoch"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (2, "odradek: There is no story epoch: there is epoch-overflow.\n") == (wrong.returncode, wrong.stderr)
    said = refused("--port", "0", "--story", "epoch-overflow", "--faults", "plan.yaml")
    assert "odradek: A start has --faults or --story, not both.\n" == said
