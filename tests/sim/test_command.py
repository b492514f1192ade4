"""`odradek sim`: findings are shrunk to stories that repeat, and what cannot be played is told."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.sim.late import PLAN, late_record

from odradek.cli.all_commands import commands_for
from odradek.cli.commands import Commands
from odradek.cli.usage import UsageError
from odradek.control.plan import load_plan, read_plan
from odradek.host.events import Command
from odradek.sim.command import Found, add_commands, find
from odradek.sim.findings import story
from odradek.sim.findings.shrink import shrink
from odradek.sim.model.promises import MEANINGS, PROMISES, Violation
from odradek.sim.run import Run, run
from odradek.sim.schedules.schedule import Schedule, read_schedule, schedule_text
from odradek.sim.workloads.catalogue import FOCUSES
from odradek.sim.workloads.draw import Settings, draw
from odradek.sim.world import world
from odradek.wire.messages.produce_request import ProduceRequest

STEPS_MAX = 12
THEN = '"deeds": [{"at_ms": 0, "kind": "move a leader", "then": "pause a broker"}]'
SEEDS_MAX = 12
"""A finding is met before that."""


def commands() -> Commands:
    commands = Commands("odradek", "", {})
    add_commands(commands)
    return commands


def exit_code(*words: object) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        commands().run(["sim", *map(str, words)])
    return ended.value.code


def without_verification(level: int, seed: int) -> Schedule:
    return draw(seed, "late-records", Settings(levels=(level,), verification=False))


def broken(schedule: Schedule) -> frozenset[str]:
    """The names of the promises that a run of it breaks."""
    try:
        run(schedule)
    except Violation as violation:
        return violation.names
    return frozenset()


def test_a_request_with_several_partitions_is_told() -> None:
    played = Run(draw(20_015, "sessions"))
    played.play()
    told = [
        story.REQUESTS[ProduceRequest](each.request) for each in played.asked if type(each.request) is ProduceRequest
    ]
    assert "Produce to t-0, id 1001 epoch 0 sequence 0" in told
    assert any(re.fullmatch(r"Produce to t-\d, t-\d, id \d+ epoch \d+ sequence \d+, \d+", each) for each in told)


@pytest.fixture(scope="module", params=[0, 1])
def hanging(request: pytest.FixtureRequest) -> Found:
    """What is found first without verification."""
    schedules = (without_verification(request.param, seed) for seed in range(1, SEEDS_MAX))
    return find(next(each for each in schedules if broken(each)), repeat="odradek sim")


@pytest.mark.slow
def test_a_hanging_transaction_is_told_in_a_few_steps(hanging: Found) -> None:
    assert hanging.story.problems[0].name == "hanging transaction"
    assert hanging.schedule.steps <= STEPS_MAX
    assert hanging.schedule.brokers == 1
    text = hanging.story.text()
    for part in (
        PROMISES["hanging transaction"],
        "no answer within",
        "has marker ABORT",
        "opens a transaction",
        "odradek sim",
    ):
        assert part in text
    # The record comes when the marker is written: that is what KIP-890 is about.
    assert text.index("has marker ABORT") < text.index("opens a transaction")
    assert hanging.story.mermaid().startswith("sequenceDiagram\n    participant ")
    assert MEANINGS["hanging transaction"] in text


def test_each_promise_says_what_its_breach_means() -> None:
    assert PROMISES.keys() == MEANINGS.keys()


@pytest.mark.slow
def test_a_terminal_gets_one_sentence_of_each_kind_and_no_source_of_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--level", 0, "--verification", "off", "--workload", "late-records", "--until-found")
    assert exit_code(*words, "--out", tmp_path) == 1
    said = capsys.readouterr().out
    [seen] = re.findall(r"^Seen: (.*)$", said, re.MULTILINE)
    assert re.fullmatch(r"[^;]+ \(and \d+ more of the kind\)\.", seen)
    assert "mermaid" not in said
    virtual = re.search(r"^1 run, 1 with a finding; (\d+) virtual s were played", said, re.MULTILINE)
    assert virtual is not None
    assert int(virtual[1]) > 0
    [written] = tmp_path.glob("*.md")
    assert "```mermaid" in written.read_text()


@pytest.mark.slow
def test_its_rules_are_a_plan(hanging: Found) -> None:
    plan = hanging.story.plan()
    assert plan is not None
    assert [rule.match.api for rule in read_plan(plan).rules] == ["PRODUCE"]


@pytest.mark.slow
def test_with_verification_the_same_steps_break_nothing(hanging: Found) -> None:
    assert "hanging transaction" in broken(hanging.schedule)
    assert not broken(replace(hanging.schedule, verification=True))


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1])
def test_a_record_that_joins_a_later_transaction_is_told_in_a_few_steps(level: int) -> None:
    name = "mixed transaction"
    schedule = next(each for seed in range(1, SEEDS_MAX) if name in broken(each := without_verification(level, seed)))
    small, _ = shrink(schedule, name)
    assert name in broken(small)
    assert small.steps <= STEPS_MAX
    assert name not in broken(replace(small, verification=True))


def test_a_schedule_is_text(tmp_path: Path) -> None:
    assert read_schedule(schedule_text(late_record())) == late_record()
    path = tmp_path / "late.json"
    path.write_text(schedule_text(late_record()))
    assert exit_code("--schedule", path) == 1


def test_a_run_that_keeps_its_promises_ends_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fine.json"
    path.write_text(schedule_text(late_record()).replace('"verification": false', '"verification": true'))
    assert exit_code("--schedule", path) == 0
    assert "Every promise was kept" in capsys.readouterr().out


@pytest.mark.slow
def test_the_command_writes_what_repeats_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--level", 1, "--verification", "off", "--workload", "late-records", "--until-found", "--out", tmp_path]
    assert exit_code(*words) == 1
    said = capsys.readouterr().out
    assert "1 with a finding" in said
    [written] = tmp_path.glob("*.json")
    assert json.loads(written.read_text())["verification"] is False
    story, finding = written.with_suffix(".md").read_text(), written.with_suffix(".jsonl")
    assert f"odradek sim --schedule {written}" in story
    for view in (f"`odradek show {finding}`", f"`odradek show {finding} {written.with_suffix('')}-calm.jsonl`"):
        assert view in said
        assert view in story
    assert exit_code("--schedule", written) == 1


@pytest.mark.slow
def test_a_plan_of_rules_is_at_work_in_every_run(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    schedule = draw(1, "duplicates", Settings(rules=tuple(load_plan(plan).rules)))
    played = Run(schedule)
    played.play()
    assert any("PRODUCE: delay_ms 200" in what for _, what in played.nemesis.deeds)
    assert exit_code("--rules", plan, "--workload", "duplicates") == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--workload", "late-record"], "did you mean late-records?"),
        (["--workload", "zzz"], "there is general, "),
        (["--level", "3"], "3 is above 2"),
        (["--verification", "maybe"], "one of on, off"),
        (["--brokers", "0"], "0 is below 1"),
        (["--dialect", "no-such"], "no-such"),
        (["--schedule", "/no/such/file"], "No such file"),
        (["--rules", "/no/such/file"], "cannot be read"),
        (["--sed", "1"], "did you mean --seed?"),
    ],
)
def test_what_cannot_be_played_is_told(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=r"^[^\n]+$") as told:
        commands().run(["sim", *words])
    assert said in str(told.value)


@pytest.mark.parametrize(
    "change", ['"sead": 1', '"deeds": [{"at_ms": 0, "kind": "move a laeder"}]', '"levels": []', THEN]
)
def test_a_schedule_that_makes_no_sense_is_told(tmp_path: Path, change: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text('{"seed": 1, ' + change + "}")
    with pytest.raises(UsageError, match="is no schedule"):
        commands().run(["sim", "--schedule", str(path)])


def test_a_livelock_ends_with_its_seed_and_the_last_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(world, "EVENTS_MAX", 2_000)
    begin = Run.__init__

    def begin_to_spin(self: Run, schedule: Schedule) -> None:
        begin(self, schedule)

        def spin() -> None:
            self.world.post(1, Command(spin))

        self.world.post(1, Command(spin), at=self.world.now + 500)

    monkeypatch.setattr(Run, "__init__", begin_to_spin)
    assert exit_code("--seed", 7, "--workload", "late-records") == 1
    said = capsys.readouterr().out
    assert said.startswith("seed 7 late-records: livelock: ")
    assert "the last 100 steps:" in said.split("# livelock")[0]
    assert said.split("# livelock")[0].count("ms  broker 1: Command") >= 90


def test_serving_does_not_wait_for_the_simulator() -> None:
    assert "sim" not in commands_for("serve").options()


def test_every_workload_can_be_drawn_for_one_broker() -> None:
    for name in FOCUSES:
        schedule = draw(1, name, Settings(brokers=1))
        assert {deed.rule.match.broker for deed in schedule.deeds if deed.rule is not None} <= {1}
