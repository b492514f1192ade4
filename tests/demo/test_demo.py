"""`odradek demo` as people run it, with real clients, real crashes and a verdict that can be bad."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = [pytest.mark.client, pytest.mark.slow]

TIMEOUT_S = 120
# With this seed the first producer commits, aborts twice, and crashes in the commit of its 4th transaction.
BUSY = ("--rate", "100", "--abort-every", "4", "--crash-every", "12", "--seed", "21")


@pytest.fixture(autouse=True)
def hangup_ends() -> Iterator[None]:
    """Whoever runs the tests with `nohup` lets them, and what they start, ignore the loss of a terminal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@contextmanager
def demo(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "odradek", "demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # its brokers and players end with it


def played(*arguments: str) -> tuple[int, str]:
    with demo(*arguments) as process:
        said, _ = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, said


def number(pattern: str, said: str) -> int:
    """The number in the summary."""
    found = re.search(pattern, said, re.MULTILINE)
    assert found is not None, said
    return int(found[1])


def test_exactly_once_holds_though_producers_crash(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    code, said = played("--seconds", "5", "--events", str(events), *BUSY)
    assert 0 == code, said
    assert "Exactly-once held" in said
    committed = number(r"^transactions: (\d+) committed", said)
    assert committed > 0
    assert number(r" s, (\d+) crash(?:es)?,", said) > 0, said
    assert number(r"(\d+) by their producers", said) > 0, said
    completed = sum(json.loads(line).get("state_to") == "CompleteCommit" for line in events.read_text().splitlines())
    assert committed == completed


def test_a_violation_is_told() -> None:
    code, said = played("--seconds", "5", "--isolation", "read_uncommitted", *BUSY)
    assert 1 == code, said
    assert "EXACTLY-ONCE DID NOT HOLD" in said
    assert number(r"(\d+) records of aborted transactions were read", said) > 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_of_consumers_shares_the_partitions(protocol: str, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    group = ("--group-protocol", protocol, "--consumers", "3", "--events", str(events))
    code, said = played("--seconds", "10", *group, *BUSY)
    assert 0 == code, said
    assert "Exactly-once held" in said
    told = [json.loads(line) for line in events.read_text().splitlines()]
    members = [event["members"] for event in told if event["kind"] == "group_state_change"]
    assert 3 == max(members)


def test_ctrl_c_ends_with_the_summary() -> None:
    with demo("--seconds", "600") as process:
        assert process.stdout is not None
        said = ""
        while not re.search(r"committed=[1-9]", said):
            line = process.stdout.readline()
            assert line, said
            said += line
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=TIMEOUT_S)
    assert 0 == process.returncode, said + rest
    assert "Exactly-once held" in rest


def test_without_its_terminal_it_ends_and_tidies_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with demo("--seconds", "600") as process:
        assert process.stdout is not None
        while not re.search(r"committed=[1-9]", process.stdout.readline()):
            assert process.poll() is None
        assert [] != list(tmp_path.iterdir())
        process.send_signal(signal.SIGHUP)
        rest, _ = process.communicate(timeout=TIMEOUT_S)
    assert 1 == process.returncode
    assert "The terminal went away" in rest
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGHUP])
def test_nobody_outlives_a_demo_that_is_killed(how: signal.Signals) -> None:
    with demo("--seconds", "600", "--crash-every", "0") as process:
        assert process.stdout is not None
        while not re.search(r"committed=[1-9]", process.stdout.readline()):
            assert process.poll() is None
        children = children_of(process.pid)
        assert 4 == len(children)  # brokers, two producers, a consumer
        process.send_signal(how)
        process.wait(TIMEOUT_S)
        end = time.monotonic() + TIMEOUT_S
        while left := [pid for pid in children if not is_over(pid)]:
            assert time.monotonic() < end, left
            time.sleep(0.05)


def children_of(pid: int) -> list[int]:
    """As soon as all have been started."""
    end = time.monotonic() + TIMEOUT_S
    while len(found := direct_children(pid)) < 4 and time.monotonic() < end:
        time.sleep(0.05)
    return found


def direct_children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def is_over(pid: int) -> bool:
    """It is gone, or only waits to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_nothing_committed_is_no_success() -> None:
    code, said = played("--seconds", "1", "--abort-every", "1", "--crash-every", "0")
    assert 1 == code, said
    assert "Nothing was shown: no transaction was committed" in said


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--isolation", "read_nothing"), 2, "read_nothing"),
        (("--consumers", "2"), 2, "Several consumers need a group: say --group-protocol classic"),
        (("--port", "70000"), 2, "--port: 70000 is above 65535"),
        (("--port", "65535"), 1, "The broker did not start: odradek: Port 65535 is out of range for 3"),
        (("--events", __file__), 2, "is not empty"),
    ],
)
def test_a_wrong_start_is_told(arguments: tuple[str, ...], code: int, sentence: str) -> None:
    ended, said = played("--seconds", "1", *arguments)
    assert code == ended, said
    assert sentence in said
    assert "Traceback" not in said
