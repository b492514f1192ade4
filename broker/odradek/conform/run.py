"""Many scenarios with one driver: several at once, failures repeated, and no driver that can stop the run."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from fnmatch import fnmatchcase

import anyio
from msgspec import Struct
from msgspec.structs import replace

from odradek.cli.logs import make_logger
from odradek.cli.usage import UsageError
from odradek.conform.aide import Aide, AideFailed
from odradek.conform.driver import DriverFault, DriverProcess, Limits, started
from odradek.conform.play import AgainstStage, Outcome, Play, Stage, hosted_stage, play
from odradek.conform.protocol import Hello
from odradek.conform.scenario import Scenario
from odradek.control.hub import Hub
from odradek.core.wording import counted

__all__ = ["Result", "Wanted", "chosen", "run"]

SCENARIO_MAX_S = 90.0
REPEATED = 3


class Wanted(Struct, frozen=True, kw_only=True):
    """The scenarios to play, and how."""

    scenarios: Sequence[Scenario]
    command: Sequence[str]
    releases: Sequence[str | None] = (None,)
    """The release of Kafka; None: the newest."""
    against: str | None = None
    """`HOST:PORT` of a broker that is there, in place of clusters of one's own."""
    jobs: int = 8
    """Scenarios wait more than they work: for what a client gives up only after a time-out, three times over."""
    repeated: int = REPEATED
    """The number of failures that make a scenario fail."""
    limits: Limits = Limits()


class Result(Struct, frozen=True, kw_only=True):
    """The outcome of a scenario with a release."""

    scenario: Scenario
    release: str | None
    outcome: Outcome
    sentences: list[str]
    plays: list[Play]
    errors: str = ""
    """The end of the driver's standard error, where the outcome is fail or unclear."""

    @property
    def shown(self) -> Play:
        """The play that says most: the last one that failed, or the last."""
        return next((each for each in reversed(self.plays) if each.outcome is Outcome.FAIL), self.plays[-1])

    @property
    def seconds(self) -> float:
        """The results of all plays."""
        return sum(each.seconds for each in self.plays)


def chosen(scenarios: Sequence[Scenario], *, only: Sequence[str], level: int, anywhere: bool) -> list[Scenario]:
    """The scenarios whose ids match a glob, up to a level; with `anywhere` those without rules.

    Raises UsageError if none is left.
    """
    found = [
        each
        for each in scenarios
        if each.level <= level
        and (not only or any(fnmatchcase(each.id, glob) for glob in only))
        and (not anywhere or each.needs_no_rules)
    ]
    if not found:
        raise UsageError(f"No scenario is left of {len(scenarios)}: odradek conform --list names them all.")
    return found


async def run(wanted: Wanted, tell: Callable[[Result], None]) -> tuple[Hello, list[Result]]:
    """Play all scenarios; `tell` is called with each result at once. The results are in the order of scenarios and
    releases.

    Raises `UsageError` for a driver that does not start, and for a broker that is not there.
    """
    hello = await _greeting(wanted)
    if wanted.against is not None:
        await _awake(wanted.against)
    waiting = deque((scenario, release) for scenario in wanted.scenarios for release in wanted.releases)
    order = {(scenario.id, release): index for index, (scenario, release) in enumerate(waiting)}
    results: list[Result] = []
    hub = Hub(log=make_logger(level="error"))

    def done(result: Result) -> None:
        results.append(result)
        tell(result)

    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(min(wanted.jobs, len(waiting))):
                tasks.start_soon(_work, wanted, hub, waiting, done)
    finally:
        with anyio.CancelScope(shield=True):
            await hub.close()
    return hello, sorted(results, key=lambda each: order[each.scenario.id, each.release])


async def _greeting(wanted: Wanted) -> Hello:
    try:
        async with started(wanted.command, limits=wanted.limits) as driver:
            return driver.hello
    except DriverFault as fault:
        raise UsageError(str(fault)) from None


async def _awake(bootstrap: str) -> None:
    try:
        await anyio.to_thread.run_sync(Aide(bootstrap).wake)
    except AideFailed as failed:
        raise UsageError(str(failed)) from None


async def _work(
    wanted: Wanted, hub: Hub, waiting: deque[tuple[Scenario, str | None]], done: Callable[[Result], None]
) -> None:
    """Play the waiting scenarios, with one driver process as long as it works."""
    crew = _Crew(wanted)
    try:
        while waiting:
            scenario, release = waiting.popleft()
            first = await _once(wanted, hub, crew, scenario, release)
            plays, errors = [first], crew.errors
            while plays[-1].outcome is Outcome.FAIL and len(plays) < wanted.repeated:
                await crew.dismiss()
                plays.append(await _once(wanted, hub, crew, scenario, release))
            done(_result(scenario, release, plays, errors))
    finally:
        await crew.dismiss()


def _result(scenario: Scenario, release: str | None, plays: list[Play], errors: str) -> Result:
    first, last = plays[0], plays[-1]
    outcome, sentences = first.outcome, first.sentences
    if last.outcome is Outcome.UNSUPPORTED:
        # It is so of the library in every play; the ones before it had not come so far.
        outcome, sentences = last.outcome, last.sentences
    elif first.outcome is Outcome.FAIL and last.outcome is not Outcome.FAIL:
        outcome = Outcome.UNCLEAR
        told = last.outcome.value
        sentences = [f"{counted(len(plays) - 1, 'play')} failed, and then the outcome was {told}.", *sentences]
    keeps = outcome in (Outcome.FAIL, Outcome.UNCLEAR)
    return Result(
        scenario=scenario,
        release=release,
        outcome=outcome,
        sentences=sentences,
        plays=[each if keeps else replace(each, events=[]) for each in plays],
        errors=errors if keeps else "",
    )


class _Crew:
    """The driver process of one worker: started when it is needed, dismissed when it is unfit."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._driver: DriverProcess | None = None
        self._context: AbstractAsyncContextManager[DriverProcess] | None = None
        self.errors = ""

    async def driver(self) -> DriverProcess:
        """A process that is ready. Raises DriverFault."""
        if self._driver is None:
            context = started(self._wanted.command, limits=self._wanted.limits)
            self._driver, self._context = await context.__aenter__(), context
        return self._driver

    async def dismiss(self) -> None:
        """End the process, if there is one."""
        if self._driver is not None and self._context is not None:
            self.note()
            self._driver = None
            await self._context.__aexit__(None, None, None)

    def note(self) -> None:
        """Keep its output on standard error."""
        self.errors = self._driver.errors if self._driver is not None else self.errors


async def _once(wanted: Wanted, hub: Hub, crew: _Crew, scenario: Scenario, release: str | None) -> Play:
    try:
        driver = await crew.driver()
    except DriverFault as fault:
        return Play(scenario=scenario, outcome=Outcome.UNCLEAR, sentences=[str(fault)])
    try:
        async with _stage(wanted, hub, scenario, release) as stage:
            played: Play | None = None
            with anyio.move_on_after(SCENARIO_MAX_S):
                played, fit = await play(scenario, stage, driver)
        crew.note()
        if played is None:
            await crew.dismiss()
            sentence = f"It was not over after {SCENARIO_MAX_S:g} s."
            return Play(scenario=scenario, outcome=Outcome.UNCLEAR, sentences=[sentence])
        if not fit:
            await crew.dismiss()
    except AideFailed as failed:
        return Play(scenario=scenario, outcome=Outcome.UNCLEAR, sentences=[str(failed)])
    except ValueError as error:
        sentence = f"There is no such cluster at this release: {error}"
        return Play(scenario=scenario, outcome=Outcome.NOT_EXERCISED, sentences=[sentence])
    return played


@asynccontextmanager
async def _stage(wanted: Wanted, hub: Hub, scenario: Scenario, release: str | None) -> AsyncIterator[Stage]:
    if wanted.against is not None:
        stage = AgainstStage(wanted.against, secrets.token_hex(4))
        await stage.begin(scenario)
        yield stage
        return
    hosted, own = await hosted_stage(hub, scenario, release)
    try:
        yield own
    finally:
        with anyio.CancelScope(shield=True):
            await hub.remove(hosted.id)
