"""The event files of simulated runs: of a finding, and of the run without what went wrong."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.sim.late import late_record

from odradek.cli.commands import Commands
from odradek.sim.command import add_commands
from odradek.sim.findings.event_files import calm_run, event_lines
from odradek.sim.run import Run, run
from odradek.sim.schedules.schedule import Deed, schedule_text

LATE = "every broker: the next PRODUCE: delay_ms 200"
BACK = Deed(at_ms=0, kind="set a clock back")


def said(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int | str | None, str]:
    """The exit code of `odradek sim`, and what it prints."""
    commands = Commands("odradek", "", {})
    add_commands(commands)
    with pytest.raises(SystemExit) as ended:
        commands.run(["sim", *map(str, words)])
    return ended.value.code, capsys.readouterr().out


def events(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


@pytest.fixture
def schedule(tmp_path: Path) -> Path:
    path = tmp_path / "late.json"
    path.write_text(schedule_text(late_record()))
    return path


def test_a_finding_and_the_run_without_its_trouble_are_event_files(
    tmp_path: Path, schedule: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "findings"
    code, text = said(capsys, "--schedule", schedule, "--out", out)
    finding, calm = out / "late.jsonl", out / "late-calm.jsonl"
    assert code == 1
    assert f"See it: `odradek show {finding}`" in text
    assert f"without that trouble ({LATE}): `odradek show {finding} {calm}`" in text
    assert said(capsys, "check", calm)[0] == 0

    bad, good = events(finding), events(calm)
    [late] = [each for each in bad if each["kind"] == "transaction_opened"]
    assert late["offset"] == 1
    # Both are the same until the batch that is late is written, or is not.
    [in_time] = [each for each in good if each["kind"] == "transaction_opened"]
    assert bad[: in_time["seq"] - 1] == good[: in_time["seq"] - 1]
    assert bad[in_time["seq"] - 1] != in_time


def test_times_are_virtual_and_events_are_numbered() -> None:
    played = Run(late_record())
    with pytest.raises(Exception, match="hanging transaction"):
        played.play()
    told = [msgspec.json.decode(line) for line in event_lines(played)]
    assert [each["seq"] for each in told] == list(range(1, len(told) + 1))
    assert all(one["wall_ns"] <= other["wall_ns"] for one, other in pairwise(told))
    assert {each["wall_ns"] - each["ts_ns"] for each in told} == {1_700_000_000_000 * 1_000_000}
    [begun] = [each for each in told if each["kind"] == "request" and each["api"] == "INIT_PRODUCER_ID"][:1]
    assert (begun["client_id"], begun["body"]["transactionalId"]) == ("p0", "a")
    assert told[-1]["ts_ns"] // 1_000_000 <= played.world.now - 1_700_000_000_000


def test_a_schedule_that_breaks_nothing_leaves_its_events_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fine.json"
    path.write_text(schedule_text(replace(late_record(), verification=True)))
    code, text = said(capsys, "--schedule", path, "--out", tmp_path)
    assert code == 0
    assert f"See it: `odradek show {tmp_path / 'fine.jsonl'}`" in text
    assert [each.name for each in tmp_path.glob("*.jsonl")] == ["fine.jsonl"]


def test_the_last_deed_is_left_out() -> None:
    [late] = late_record().deeds
    calm = calm_run(replace(late_record(), deeds=(replace(late, at_ms=1), BACK)))
    assert calm is not None
    assert calm.left_out == LATE
    assert calm.run.schedule.deeds == (BACK,)


def test_all_deeds_are_left_out_where_it_takes_that() -> None:
    [late] = late_record().deeds
    calm = calm_run(replace(late_record(), deeds=(late, late)))
    assert calm is not None
    assert (calm.left_out, calm.run.schedule.deeds) == ("all 2 deeds", ())


def test_where_nothing_goes_wrong_there_is_no_other_run() -> None:
    quiet = replace(late_record(), deeds=())
    run(quiet)
    assert calm_run(quiet) is None
