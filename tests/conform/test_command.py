"""The command `odradek conform`, with drivers that need no client library but one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conform.drivers.families import command
from tests.conform.helpers import pretender

from odradek.cli.all_commands import commands_for
from odradek.cli.usage import UsageError
from odradek.conform.scenario import load
from odradek.conform.schema import committed
from odradek.conform.skeletons import LANGUAGES, skeleton

TURNCOAT = Path(__file__).with_name("bad_drivers") / "turncoat.py"
FEW = [
    "kip-98/transactions/abort-shows-nothing",
    "kip-98/transactions/commit-shows-all",
    "kip-98/transactions/end-txn-lost",
    "kip-890/1/epoch-after-commit",
]


def ask(*words: str | Path) -> None:
    """The command in this process."""
    commands_for("conform").run(["conform", *map(str, words)])


def code(*words: str | Path) -> int:
    """Its exit code."""
    with pytest.raises(SystemExit) as ended:
        ask(*words)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def rows(card: Path) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in msgspec.json.decode(card.read_bytes())["rows"]}


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    ask("--list")
    assert [each.id for each in load()] == [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    ask("--list", "--only", "kip-890/1/*", "--level", "1")
    assert 0 < len(capsys.readouterr().out.splitlines()) < 20


@pytest.mark.parametrize("language", LANGUAGES)
def test_skeletons(language: str, capsys: pytest.CaptureFixture[str]) -> None:
    ask("--skeleton", language)
    assert skeleton(language) == capsys.readouterr().out


def test_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    ask("--schema")
    assert committed() == capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Name a driver: odradek conform -- ./driver"),
        (["--only", "kip-1/*", "--", "x"], "No scenario is left of"),
        (["--as-kafka", "9.9", "--", "x"], "--as-kafka 9.9: Invalid value 9.9"),
        (["--against", "here:there", "--", "x"], "--against takes HOST:PORT, not here:there."),
        (["--against", "a:1", "--as-kafka", "3.6", "--", "x"], "leave --as-kafka out"),
        (["--badge", "badge.gif", "--", "x"], "badge.gif: the name of a badge ends in .svg or .json."),
        (["--skeleton", "cobol"], "There is no skeleton for cobol; there are go, java, node, python, rust."),
        (["--replay", "nothing"], "nothing: No such file or directory."),
        (["--level", "4", "--", "x"], "4 is above 3"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as told:
        ask(*words)
    assert sentence in str(told.value)


def test_no_failure_is_not_replayed(tmp_path: Path) -> None:
    (tmp_path / "failure.json").write_text('{"scenario": 1}')
    with pytest.raises(UsageError, match="is no failure of odradek conform"):
        ask("--replay", tmp_path)


def test_a_driver_that_there_is_not_ends_the_command(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "odradek", "conform", "--", "./nothing"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 2 == done.returncode
    assert "odradek: The driver cannot be started: ./nothing: No such file or directory.\n" == done.stderr


def test_the_trial_of_a_driver_that_does_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        ask("--try", "--", *pretender())
    assert '-> {"verb":"begin","id":2,"client":"p1"}\n<- {"id": 2, "done": {}}\n' in capsys.readouterr().out
    with pytest.raises(SystemExit, match="1"):
        ask("--try", "--", *pretender("dies"))
    assert "The driver ended with exit code 7 before the answer to begin of p1 (id 2)." in capsys.readouterr().out


@pytest.mark.client
@pytest.mark.slow
def test_a_spoiled_client_fails_where_it_is_spoiled_and_passes_when_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    driver = command("confluent-kafka")
    only = [word for each in FEW for word in ("--only", each)]
    files = {"--json": "card.json", "--junit": "card.xml", "--markdown": "card.md", "--badge": "badge.svg"}
    forms = [word for pair in files.items() for word in pair]
    assert 1 == code(*only, *forms, "--repeat", "2", "--", sys.executable, TURNCOAT, *driver)
    assert all((tmp_path / name).stat().st_size for name in files.values())
    card = rows(tmp_path / "card.json")
    right = dict.fromkeys(FEW, "pass") | {"kip-890/1/epoch-after-commit": "unsupported"}
    assert right | {FEW[0]: "fail"} == {name: row["outcome"] for name, row in card.items()}
    assert "lost" in card[FEW[0]]["why"][0]
    assert ["fail"] * 2 == card[FEW[0]]["plays"]

    [failure] = (tmp_path / "conform-failures").iterdir()
    assert {"failure.json", "events.jsonl", "page.html", "exchange.txt"} == {each.name for each in failure.iterdir()}
    assert "END_TXN" in (failure / "exchange.txt").read_text()
    assert 1 == code("--replay", failure)
    assert 1 == code("--replay", Path(*failure.parts[:-1], *failure.name.split("_")))  # by the id of its scenario
    assert f"fail          {FEW[0]}" in capsys.readouterr().out
    # With the driver mended, the same failure is gone.
    assert 0 == code("--replay", failure, "--", *driver)
    assert f"pass          {FEW[0]}" in capsys.readouterr().out


@pytest.mark.client
@pytest.mark.slow
def test_against_a_broker_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.testing import Cluster

    monkeypatch.chdir(tmp_path)
    with Cluster(config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        only = [word for each in FEW[:3] for word in ("--only", each)]
        driver = command("confluent-kafka")
        assert 0 == code(*only, "--against", cluster.bootstrap, "--json", "card.json", "--", *driver)
    # The one with a rule cannot be played there.
    assert sorted(FEW[:2]) == sorted(rows(tmp_path / "card.json"))
    assert not (tmp_path / "conform-failures").exists()
