"""`odradek sim`: runs of the simulator from seeds; a finding is shrunk and told as a story."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import Annotated, NoReturn

from msgspec import Struct, ValidationError
from msgspec.structs import replace

from odradek.cli.commands import Commands, Option
from odradek.cli.parent import end_with_parent
from odradek.cli.usage import UsageError
from odradek.control.plan import PlanError, load_plan
from odradek.core.wording import counted
from odradek.faults.model import Rule, RuleError
from odradek.releases.dialects.load import load, names
from odradek.sim.checks.event_log import check
from odradek.sim.findings.event_files import calm_run, write_events
from odradek.sim.findings.shrink import shrink
from odradek.sim.findings.story import Story, tell
from odradek.sim.model.promises import Violation
from odradek.sim.run import Report, Run
from odradek.sim.schedules.schedule import Schedule, read_schedule, schedule_text
from odradek.sim.workloads.catalogue import FOCUSES
from odradek.sim.workloads.draw import Settings, draw

__all__ = ["ALL", "Found", "Switch", "add_commands", "find", "sim"]

FOUND = 1
EVENTS = ".jsonl"
ALL = "all"
"""Each seed plays every workload."""
GARBAGE = (100_000, 20, 10)
"""Thresholds of the garbage collector: objects until it checks the youngest generation, factors for the others."""
NOT_SHRUNK = "livelock"
"""Not shrunk, because each try would take as long as the finding itself."""


class Switch(StrEnum):
    """On or off, as a value on the command line."""

    ON = "on"
    OFF = "off"


class Played(Struct, frozen=True):
    """The result of one run, as a worker process passes it on."""

    seed: int
    workload: str
    report: Report | None
    problem: str = ""
    """The first breach: its name, and the sentence about it."""
    virtual_ms: int = 0
    """Duration of the run, also if it ended with a finding."""

    def __str__(self) -> str:
        name = f"seed {self.seed} {self.workload}"
        if self.report is None:
            return f"{name}: {self.problem}"
        report = self.report
        return (
            f"{name}: {report.committed} committed of {report.transactions}, "
            f"{report.virtual_ms / 1000:.1f} virtual s, trace {report.digest[:16]}"
        )


class Found(Struct, frozen=True, kw_only=True):
    """A finding, shrunk, with its story."""

    schedule: Schedule
    story: Story
    runs: int
    """Number of runs that it took to shrink it."""
    run: Run
    """The run of the story."""


def add_commands(commands: Commands) -> None:
    commands.add("sim", sim)
    commands.add("sim check", check)


def sim(
    seed: Annotated[int, Option(help="The first seed.")] = 1,
    runs: Annotated[
        int | None, Option(min=1, help="How many seeds; 1, or with --until-found as many as it takes.")
    ] = None,
    jobs: Annotated[int, Option(min=1, help="So many processes side by side.")] = 1,
    level: Annotated[
        int | None, Option(min=0, max=2, help="transaction.version; else each seed draws it, and changes of it.")
    ] = None,
    verification: Annotated[
        Switch, Option(help="Whether leaders verify transactions (transaction.partition.verification.enable).")
    ] = Switch.ON,
    dialect: Annotated[
        str | None, Option(metavar="NAME|DIR", names=names, help="Simulate brokers of this dialect.")
    ] = None,
    careful: Annotated[
        bool, Option(help="Producers of the dialect do what its text has forgotten (docs/dialects.md).")
    ] = False,
    brokers: Annotated[int, Option(min=1, max=9, help="Number of brokers.")] = 3,
    workload: Annotated[
        str,
        Option(
            metavar="NAME",
            names=lambda: [*FOCUSES, ALL],
            help=f"What the runs are about: {', '.join(FOCUSES)}, or all.",
        ),
    ] = "general",
    rules: Annotated[
        Path | None, Option(metavar="PLAN", help="A plan of rules that are at work from the start of each run.")
    ] = None,
    schedule: Annotated[
        Path | None, Option(metavar="FILE", help="Play this schedule, as --out wrote it, in place of seeds.")
    ] = None,
    until_found: Annotated[bool, Option(help="End with the first finding.")] = False,
    no_shrink: Annotated[bool, Option(help="Tell findings as they are.")] = False,
    out: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Write each finding there: its schedule, its story and its events."),
    ] = None,
) -> None:
    """Play clusters, clients and faults over a virtual clock, and check the promises of transactions.

    Exit code 0 if every promise was kept, 1 if one was broken: then the finding is shrunk and its story printed.
    """
    if schedule is not None:
        _end(_replayed(schedule, out))
    if dialect is not None:
        load(dialect)
    settings = Settings(
        levels=None if level is None else (level,),
        verification=verification is Switch.ON,
        brokers=brokers,
        dialect=dialect,
        careful=careful,
        rules=() if rules is None else _rules(rules),
    )
    workloads = _workloads(workload)
    seeds: Iterable[int] = count(seed) if until_found and runs is None else range(seed, seed + (runs or 1))
    tasks = ((each, name) for each in seeds for name in workloads)
    _collect_less()
    began, played, virtual_ms, findings = monotonic(), 0, 0, 0
    for outcome in _play_all(tasks, settings, jobs=jobs):
        print(outcome, flush=True)
        played += 1
        virtual_ms += outcome.virtual_ms
        if outcome.report is not None:
            continue
        findings += 1
        drawn = draw(outcome.seed, outcome.workload, settings)
        command = _command(outcome, level=level, settings=settings, rules=rules)
        found = find(drawn, repeat=command, shrinks=not no_shrink)
        print(f"\n{found.story.text(picture=False)}", flush=True)
        if out is not None:
            _write(out, f"{outcome.workload}-{outcome.seed}", found)
        if until_found:
            break
    seconds = max(monotonic() - began, 0.001)
    print(
        f"{counted(played, 'run')}, {findings} with a finding; "
        f"{virtual_ms / 1000:.0f} virtual s were played in {seconds:.1f} s, findings made small included"
    )
    _end(findings > 0)


def find(schedule: Schedule, *, repeat: str, shrinks: bool = True) -> Found:
    """Shrink the schedule of a finding, play it once more, and tell its story. The schedule must break a promise."""
    violation = _violation(Run(schedule))
    assert violation is not None, "the schedule breaks no promise"
    name, runs = violation.problems[0].name, 0
    if shrinks and name != NOT_SHRUNK:
        schedule, runs = shrink(schedule, name)
    run = Run(schedule)
    violation = _violation(run)
    assert violation is not None, "a schedule that broke a promise breaks it again"
    assert name in violation.names, "and the same promise"
    return Found(schedule=schedule, story=tell(run, violation, repeat=repeat, name=name), runs=runs, run=run)


def _violation(run: Run) -> Violation | None:
    try:
        run.play()
    except Violation as violation:
        return violation
    return None


def _collect_less() -> None:
    """Collect garbage more rarely: a run keeps nearly all its objects until its end."""
    gc.freeze()
    gc.set_threshold(*GARBAGE)


def _begin() -> None:
    """Start a worker process, which plays runs."""
    end_with_parent()
    _collect_less()


def _play(task: tuple[int, str], settings: Settings) -> Played:
    seed, workload = task
    run = Run(draw(seed, workload, settings))
    try:
        report = run.play()
        return Played(seed, workload, report, virtual_ms=report.virtual_ms)
    except Violation as violation:
        first = violation.problems[0]
        return Played(seed, workload, None, f"{first.name}: {first.seen}", virtual_ms=violation.at_ms)


def _play_all(tasks: Iterator[tuple[int, str]], settings: Settings, *, jobs: int) -> Iterator[Played]:
    play = partial(_play, settings=settings)
    if jobs == 1:
        yield from map(play, tasks)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), _begin) as pool:
        try:
            # A few at a time: the number of runs may be unlimited.
            while some := list(islice(tasks, 8 * jobs)):
                with _unheard():
                    outcomes = pool.map(play, some)
                yield from outcomes
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


@contextmanager
def _unheard() -> Iterator[None]:
    """Processes that are started meanwhile ignore SIGINT, which is for the process that prints findings."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _replayed(path: Path, out: Path | None) -> bool:
    try:
        schedule = read_schedule(path.read_bytes())
        run = Run(schedule)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from None
    except (ValidationError, RuleError, KeyError, ValueError) as error:
        raise UsageError(f"{path} is no schedule: {error}.") from None
    violation = _violation(run)
    if violation is None:
        print("Every promise was kept.")
    else:
        print(tell(run, violation, repeat=f"odradek sim --schedule {path}").text(picture=False))
    if out is not None:
        with _writing_to(out):
            views = _write_events(out / path.with_suffix(EVENTS).name, run, compares=violation is not None)
        print("\n".join(views))
    return violation is not None


def _write(folder: Path, name: str, found: Found) -> None:
    path = folder / f"{name}.json"
    with _writing_to(folder):
        path.write_text(schedule_text(found.schedule))
        views = _write_events(path.with_suffix(EVENTS), found.run, compares=True)
        story = replace(found.story, repeat=f"odradek sim --schedule {path}", views=views)
        path.with_suffix(".md").write_text(story.text())
    print(f"Written to {path}, {path.with_suffix('.md')} and {path.with_suffix(EVENTS)}.")
    print("\n".join(views))


@contextmanager
def _writing_to(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}.") from None


def _write_events(path: Path, run: Run, *, compares: bool) -> tuple[str, ...]:
    """Write the events of a run and, if it `compares`, of a calm one; return sentences that say how to see them."""
    write_events(path, run)
    see = f"See it: `odradek show {path}`"
    calm = calm_run(run.schedule) if compares else None
    if calm is None:
        return (see,)
    beside = path.with_name(f"{path.stem}-calm{EVENTS}")
    write_events(beside, calm.run)
    return (see, f"Compare it with the run without that trouble ({calm.left_out}): `odradek show {path} {beside}`")


def _rules(path: Path) -> tuple[Rule, ...]:
    try:
        return tuple(load_plan(path).rules)
    except PlanError as error:
        raise UsageError(str(error)) from None


def _workloads(name: str) -> tuple[str, ...]:
    if name == ALL:
        return tuple(FOCUSES)
    if name not in FOCUSES:
        near = get_close_matches(name, (*FOCUSES, ALL), 1)
        meant = f"did you mean {near[0]}?" if near else f"there is {', '.join(FOCUSES)}, and all."
        raise UsageError(f"There is no workload {name}: {meant}")
    return (name,)


def _command(outcome: Played, *, level: int | None, settings: Settings, rules: Path | None) -> str:
    words = ["odradek", "sim", "--seed", str(outcome.seed), "--workload", outcome.workload]
    words += [] if level is None else ["--level", str(level)]
    words += [] if settings.verification else ["--verification", "off"]
    words += [] if settings.brokers == 3 else ["--brokers", str(settings.brokers)]
    words += [] if settings.dialect is None else ["--dialect", settings.dialect]
    words += ["--careful"] if settings.careful else []
    words += [] if rules is None else ["--rules", str(rules)]
    return " ".join(words)


def _end(found: bool) -> NoReturn:
    raise SystemExit(FOUND if found else 0)
