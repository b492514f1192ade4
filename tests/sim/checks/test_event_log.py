"""`odradek sim check`: the events of runs with real clients, and with simulated ones, held against the model."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from odradek.cli.commands import Commands
from odradek.cli.usage import UsageError
from odradek.sim.command import add_commands
from odradek.sim.model.promises import Violation
from odradek.sim.run import Run
from odradek.sim.schedules.schedule import Schedule
from odradek.sim.workloads.draw import Settings, draw
from odradek.testing import Cluster

PLAYED = [
    "late-produce-after-abort",
    "late-produce-undefended",
    "coordinator-moves-in-prepare",
    "leader-moves-with-open-transaction",
    "transaction-times-out-during-a-produce",
]
"""Stories: situations of the KIPs."""
UNDEFENDED = "late-produce-undefended"


def checked(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code, and what is said."""
    commands = Commands("odradek", "", {})
    add_commands(commands)
    with pytest.raises(SystemExit) as ended:
        commands.run(["sim", "check", str(path)])
    assert isinstance(ended.value.code, int)
    return ended.value.code, capsys.readouterr().out


def lines_of(schedule: Schedule) -> list[bytes]:
    """What brokers would have written to --events in such a run."""
    run = Run(schedule)
    with suppress(Violation):
        run.play()
    facts = enumerate(run.world.facts, 1)
    return [
        msgspec.json.encode({"seq": seq, "node": node, "kind": fact.kind} | fact.fields, enc_hook=str) + b"\n"
        for seq, (node, fact) in facts
    ]


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    return lines_of(draw(1, "general"))


def test_a_run_that_kept_its_promises(tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[bytes]) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(lines))
    assert checked(path, capsys) == (0, f"{len(lines)} events: every promise was kept.\n")


def test_starts_that_append_to_one_file_are_runs_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[bytes]
) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join([*lines, *lines]))
    assert checked(path, capsys)[0] == 0


def test_events_that_are_missing_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[bytes]
) -> None:
    path = tmp_path / "events.jsonl"
    begun = next(n for n, line in enumerate(lines) if b'"leadership_taken"' in line)
    path.write_bytes(b"".join([*lines[:begun], *lines[begun + 1 :]]))
    assert f"{len(lines) - 1} events (1 missing)" in checked(path, capsys)[1]


def test_the_lines_of_two_runs_are_not_one(tmp_path: Path, lines: list[bytes]) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(reversed(lines)))
    commands = Commands("odradek", "", {})
    add_commands(commands)
    with pytest.raises(UsageError, match="they are not of one run, in order"):
        commands.run(["sim", "check", str(path)])


def test_a_marker_that_is_missing_is_told_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[bytes]
) -> None:
    closed = next(each for each in lines if b'"transaction_closed"' in each)
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(each for each in lines if each != closed))
    code, said = checked(path, capsys)
    assert code == 1
    assert re.search(rf"^{re.escape(str(path))}:\d+: (hanging transaction|last stable offset): ", said)
    assert "Promised: " in said


@pytest.mark.slow
def test_a_run_without_verification_is_found_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(lines_of(draw(1, "late-records", Settings(levels=(0,), verification=False)))))
    code, said = checked(path, capsys)
    assert code == 1
    assert "late record" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense\n", ":1 is no event: "),
        ('\n{"seq": 1, "node": 1}\n', ":2 is no event: it has no kind"),
        ("", "There is no event in "),
        ("\n\n", "There is no event in "),
        ('{"seq": "1", "node": 1, "kind": "lso_moved"}\n', ":1 is no event: its seq is '1'"),
        ('{"seq": 2, "node": 1, "kind": "a"}\n{"seq": 2, "node": 1, "kind": "a"}\n', ":2 has event 2 behind event 2"),
        (
            '{"seq": 1, "node": 1, "kind": "lso_moved", "topic": "t", "partition": 0, "lso": null, "hw": 1}\n',
            ":1 is no event: a field of lso_moved is of another type",
        ),
        ('{"seq": 1, "node": 1, "kind": "lso_moved"}\n', ":1 is no event: lso_moved has no topic"),
    ],
)
def test_what_is_no_event_is_told(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(text)
    commands = Commands("odradek", "", {})
    add_commands(commands)
    with pytest.raises(UsageError, match=r"^[^\n]+$") as told:
        commands.run(["sim", "check", str(path)])
    assert said in str(told.value)


def test_a_file_that_is_not_there_is_told() -> None:
    commands = Commands("odradek", "", {})
    add_commands(commands)
    with pytest.raises(UsageError, match="No such file"):
        commands.run(["sim", "check", "/no/such/file"])


@pytest.mark.slow
@pytest.mark.client
@pytest.mark.parametrize(
    "name",
    ["late-produce-after-abort", UNDEFENDED, "coordinator-moves-in-prepare", "leader-moves-with-open-transaction"],
)
def test_the_events_of_a_real_client(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A producer of confluent-kafka in the situations of the KIPs; only without the defence something is found."""
    stories = pytest.importorskip("tests.stories.test_confluent_kafka")
    path = tmp_path / "events.jsonl"
    with Cluster(story=name, events=path) as cluster:
        stories.PLAYED[name](cluster)
    code, said = checked(path, capsys)
    assert code == (name == UNDEFENDED), said
    assert ("hanging transaction" in said) == (name == UNDEFENDED)


@pytest.mark.slow
@pytest.mark.client
@pytest.mark.parametrize("scenario", ["transactions", "txn-offsets"])
@pytest.mark.parametrize(
    ("family", "version"), [("java", "4.4.0"), ("java", "3.6.2"), ("confluent-kafka", "2.16.1"), ("franz-go", None)]
)
def test_the_events_of_other_families(
    family: str, version: str | None, scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Newer and older styles of transactions of real clients break no promise."""
    driver = pytest.importorskip("tests.clients.driver")
    lacking = pytest.importorskip("tests.clients.lacking")
    path = tmp_path / "events.jsonl"
    with lacking.with_toolchains(family), Cluster(brokers=3, events=path) as cluster:
        bootstrap = cluster.bootstrap.split(",")[0]
        topic = f"of-{family}"
        assert driver.play(
            family, scenario, bootstrap, version=version, topic=topic, records=200, transactions=6, timeout=60
        ).ok
    code, said = checked(path, capsys)
    assert code == 0, said
