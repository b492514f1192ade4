"""One scenario, played once: its cluster, its steps with a driver, its judgements, and its outcome."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from odradek.conform.aide import Aide, AideFailed
from odradek.conform.checks import FOREVER, Check, Witnessed, listed
from odradek.conform.driver import DriverFault, DriverProcess
from odradek.conform.exchange import Exchange, lines, read_exchange
from odradek.conform.protocol import (
    TIMED_OUT,
    VERBS,
    Abort,
    Answer,
    Begin,
    Close,
    Commit,
    ErrorClass,
    Flush,
    Init,
    Poll,
    Polled,
    Request,
    Role,
    Send,
    SendOffsets,
    Subscribe,
    Value,
    result_of,
    verb_of,
)
from odradek.conform.scenario import ANY, DONE, FAILS, Control, Expected, Scenario, Step
from odradek.control.conditions import TookTooLong, wait_for
from odradek.control.messages.clusters import NewCluster
from odradek.control.messages.events import WaitBody
from odradek.control.plan import converted
from odradek.control.steps import add_rules
from odradek.core.internal_topics import CoordinatorKind

if TYPE_CHECKING:
    from odradek.control.hub import Hosted, Hub
    from odradek.faults.armed import Armed

__all__ = ["AgainstStage", "HostedStage", "Outcome", "Play", "Stage", "hosted_stage", "play"]

T = TypeVar("T")
VERB_MS, POLL_MS, CLOSE_MS = 10_000, 5_000, 5_000
SETTLE_S = 5.0
"""For the end of a transaction to be written everywhere."""
LOOK_S = 0.05
PRODUCER: Mapping[str, Value] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "retry.backoff.ms": 100,
    "request.timeout.ms": 5_000,
    "delivery.timeout.ms": 20_000,
    "max.block.ms": 10_000,
    "transaction.timeout.ms": 60_000,
}
CONSUMER: Mapping[str, Value] = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "group.protocol": "classic",
}


class Outcome(Enum):
    """The outcome of a scenario."""

    PASS = "pass"
    FAIL = "fail"
    NOT_EXERCISED = "not exercised"
    """The hazard did not come about, so nothing is known."""
    UNSUPPORTED = "unsupported"
    """The library, or its driver, cannot do it."""
    UNCLEAR = "unclear"
    """The driver broke off, the judge could not do its part, or repetitions had different outcomes."""


class Play(Struct, kw_only=True):
    """One play of a scenario."""

    scenario: Scenario
    outcome: Outcome
    sentences: list[str]
    """Why, for every outcome but pass."""
    verbs: list[str] = []
    """The requests to the driver and its answers."""
    exchange: list[str] = []
    """The requests as text."""
    events: list[bytes] = []
    """The event file's lines."""
    seconds: float = 0.0


class Stage(Protocol):
    """Where a scenario is played: a cluster of the hub, or any broker.

    A Protocol: a cluster of the hub and any other broker have classes that share nothing.
    """

    @property
    def bootstrap(self) -> str: ...

    async def do(self, control: Control, aide: Aide) -> None:
        """Take a step of the judge itself. Raises errors of `Controls`, and TookTooLong."""
        ...

    @property
    def now(self) -> int:
        """The number of the newest event."""
        ...

    def exchange(self) -> Exchange: ...
    def hits(self) -> Iterable[Armed]: ...

    def complaints(self) -> list[str]:
        """The steps of rules that failed."""
        ...

    def lines(self) -> list[bytes]: ...
    def topic(self, name: str) -> str:
        """The name of a topic, group or transactional id where it is played."""
        ...

    @property
    def sees_requests(self) -> bool:
        """Whether the requests of clients are visible."""
        ...


class HostedStage:
    """A cluster of the hub."""

    sees_requests = True

    def __init__(self, hosted: Hosted, armed: list[Armed]) -> None:
        self._hosted = hosted
        self._armed = armed

    @property
    def bootstrap(self) -> str:
        return self._hosted.running.bootstrap

    @property
    def now(self) -> int:
        return self._hosted.events.last

    async def do(self, control: Control, aide: Aide) -> None:
        running, controls = self._hosted.running, self._hosted.controls
        named = {each.name: each for each in self._armed}
        match control:
            case Control(wait=dict(wanted)):
                await wait_for(converted(wanted, WaitBody), running, self._hosted.events)
            case Control(release=str(name)):
                running.rules.release(named[name], None)
            case Control(remove=str(name)):
                running.rules.remove(named[name])
            case Control(advance_ms=int(milliseconds)):
                running.advance(milliseconds)
            case Control(move_leader=str(topic)):
                controls.move_leader(topic, 0, to=None)
            case Control(move_transaction_coordinator=str(key)):
                controls.move_coordinator(CoordinatorKind.TRANSACTION, key)
            case Control(set_transaction_version=int(level)):
                controls.set_feature("transaction.version", level)
            case Control(disconnect_clients=True):
                controls.disconnect_clients()
            case _:
                await do_anywhere(control, aide, lambda name: name)

    def exchange(self) -> Exchange:
        """All requests since the start."""
        return read_exchange(self._hosted.events.after(0))

    def hits(self) -> Iterable[Armed]:
        return self._armed

    def complaints(self) -> list[str]:
        return [f"A rule has failed: {error}." for error in self._hosted.running.rules.failures]

    def lines(self) -> list[bytes]:
        """The lines of an event file."""
        return list(self._hosted.events.recent.lines())

    def topic(self, name: str) -> str:
        """The cluster is the scenario's own."""
        return name


class AgainstStage:
    """A broker that already runs; every scenario has its own topics, groups and transactional ids."""

    sees_requests = False

    def __init__(self, bootstrap: str, mark: str) -> None:
        self.bootstrap = bootstrap
        self._mark = mark
        self.now = 0

    async def begin(self, scenario: Scenario) -> None:
        """Make its topics. Raises AideFailed."""
        aide = Aide(self.bootstrap)
        for each in scenario.cluster.topics or ["orders"]:
            name, _, partitions = each.partition(":")
            await anyio.to_thread.run_sync(aide.create_topic, self.topic(name), int(partitions or 1))

    async def do(self, control: Control, aide: Aide) -> None:
        await do_anywhere(control, aide, self.topic)

    def exchange(self) -> Exchange:
        return Exchange(asked=[], topics={})

    def hits(self) -> Iterable[Armed]:
        return ()

    def complaints(self) -> list[str]:
        return []

    def lines(self) -> list[bytes]:
        return []

    def topic(self, name: str) -> str:
        """Its own one."""
        return f"{name}-{self._mark}"


async def do_anywhere(control: Control, aide: Aide, named: Callable[[str], str]) -> None:
    """Steps that need only a client."""
    match control:
        case Control(fence=str(transactional_id)):
            await anyio.to_thread.run_sync(aide.fence, named(transactional_id))
        case Control(put=[topic, *values]):
            for value in values:
                await anyio.to_thread.run_sync(aide.put, named(topic), value)
        case Control(create=dict(topics)):
            for topic, configs in topics.items():
                await anyio.to_thread.run_sync(aide.create_topic, named(topic), 1, configs)
        case Control(pause_ms=int(milliseconds)):
            await anyio.sleep(milliseconds / 1000)
        case _:
            raise AideFailed(f"There is nothing to do in {control}.")


async def hosted_stage(hub: Hub, scenario: Scenario, as_kafka: str | None) -> tuple[Hosted, HostedStage]:
    """A cluster for a scenario, with its rules."""
    plan = scenario.cluster
    hosted = await hub.make(
        NewCluster(
            brokers=plan.brokers,
            topics=list(plan.topics or ["orders"]),
            config=plan.config,
            as_kafka=plan.as_kafka or as_kafka,
            transaction_version=plan.transaction_version,
            seed=1,
            lease_s=0,
        )
    )
    armed = add_rules(hosted.running, scenario.rules) if scenario.rules else []
    return hosted, HostedStage(hosted, armed)


class Stop(Exception):
    """The steps of a scenario end here."""

    def __init__(self, outcome: Outcome, sentence: str) -> None:
        super().__init__(sentence)
        self.outcome = outcome


class _Player:
    """The steps of one play."""

    def __init__(self, scenario: Scenario, stage: Stage, driver: DriverProcess, aide: Aide) -> None:
        self.scenario = scenario
        self.stage = stage
        self.driver = driver
        self.aide = aide
        self.marks: dict[str, int] = {}
        self.open: dict[str, Init] = {}
        self.verbs: list[str] = []
        self.last: Answer | None = None
        self._behind: tuple[Step, Request] | None = None
        self._answers: list[Answer] = []
        self._tasks: anyio.abc.TaskGroup | None = None
        self._ready: anyio.Event | None = None
        self._fault: DriverFault | None = None

    async def run(self) -> None:
        """All steps. Raises `Stop`, `DriverFault`, `AideFailed`."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            for step in self.scenario.steps:
                await self._step(step)
            await self._caught_up()

    async def _step(self, step: Step) -> None:
        if step.name is not None:
            self.marks[f"begin:{step.name}"] = self.stage.now
        if step.do is not None:
            await self._do(step.do)
        elif step.recover is not None:
            await self._recover(step.recover)
        elif step.attempt is not None:
            await self._attempt(step)
        else:
            await self._verb(step)
        if step.name is not None and not step.behind:
            self.marks[f"end:{step.name}"] = self.stage.now

    async def _do(self, control: Control) -> None:
        try:
            with anyio.CancelScope() as waiting:
                if control.wait is not None and self._behind is not None:
                    assert self._tasks is not None, "steps run in it"
                    self._tasks.start_soon(self._cancel_once_answered, waiting)
                await self.stage.do(control, self.aide)
            if waiting.cancelled_caught:
                await self._came_too_late()
        except TookTooLong as error:
            raise Stop(Outcome.NOT_EXERCISED, f"What the scenario waits for did not come: {error}") from None
        except (LookupError, RuntimeError, ValueError) as error:
            raise Stop(Outcome.UNCLEAR, f"The judge could not do its part: {error}.") from None

    async def _cancel_once_answered(self, waiting: anyio.CancelScope) -> None:
        """What is waited for while a verb runs is of no use once the verb is over."""
        assert self._ready is not None, "a verb runs"
        await self._ready.wait()
        waiting.cancel()

    async def _came_too_late(self) -> None:
        """The verb that runs behind ended first: with an error that is judged, or without the hazard."""
        assert self._behind is not None, "it has ended just now"
        (_, request) = self._behind
        if self._fault is not None or (self.last is not None and self.last.error is not None):
            await self._caught_up()
        raise Stop(
            Outcome.NOT_EXERCISED,
            f"What the scenario waits for did not come before {verb_of(request)} of {request.client} was over.",
        )

    async def _attempt(self, group: Step) -> None:
        assert group.attempt is not None, "it is one"
        for step in group.attempt:
            answer, request = await self._asked(step)
            if answer.done is None:
                break
        self._check(group, request, answer)

    async def _verb(self, step: Step) -> None:
        if step.behind:
            await self._caught_up()
            request = self._request(step)
            self._behind, self._ready = (step, request), anyio.Event()
            assert self._tasks is not None, "steps run in it"
            self._tasks.start_soon(self._ask_behind, request)
            return
        answer, request = await self._asked(step)
        self._check(step, request, answer)

    async def _ask_behind(self, request: Request) -> None:
        assert self._ready is not None, "it was made before"
        try:
            self.last = await self._ask(request)
        except DriverFault as fault:
            self._fault = fault
        self._ready.set()

    async def _caught_up(self) -> None:
        """Wait for the verb that runs behind."""
        if self._behind is None:
            return
        assert self._ready is not None, "it was made with it"
        (step, request), self._behind = self._behind, None
        await self._ready.wait()
        if self._fault is not None:
            raise self._fault
        assert self.last is not None, "it has answered"
        if step.name is not None:
            self.marks[f"end:{step.name}"] = self.stage.now
        self._check(step, request, self.last)

    async def _asked(self, step: Step) -> tuple[Answer, Request]:
        await self._caught_up()
        request = self._request(step)
        return await self._ask(request), request

    async def _ask(self, request: Request) -> Answer:
        verb = verb_of(request)
        if verb not in self.driver.hello.verbs:
            raise Stop(Outcome.UNSUPPORTED, f"The driver has no {verb}.")
        if isinstance(request, Init):
            self.open[request.client] = request
        answer = await self.driver.ask(request)
        self.last = answer
        if isinstance(request, Close):
            self.open.pop(request.client, None)
        self.verbs.append(f"{_shown(request)} <- {_told(answer)}")
        if answer.unsupported is not None:
            raise Stop(Outcome.UNSUPPORTED, f"{verb}: {answer.unsupported}.")
        return answer

    async def _recover(self, client: str) -> None:
        """As an application that goes by the class of the error: abort and go on, or begin anew."""
        await self._caught_up()
        error = None if self.last is None else self.last.error
        if error is None:
            return
        if error.class_ is not ErrorClass.FATAL:
            answer = await self._ask(Abort(id=self.driver.next_id(), client=client, timeout_ms=VERB_MS))
            if answer.done is not None:
                return
            if error.class_ is ErrorClass.ABORTABLE:
                raise Stop(Outcome.FAIL, f"{error.name} was called abortable, and abort ended in {_told(answer)}.")
        again = self.open[client]
        await self._ask(Close(id=self.driver.next_id(), client=client, timeout_ms=CLOSE_MS))
        answer = await self._ask(msgspec.structs.replace(again, id=self.driver.next_id(), lazy=False))
        if answer.done is None:
            raise Stop(Outcome.FAIL, f"Another instance could not begin: {_told(answer)}.")

    async def close(self) -> bool:
        """Close the clients that are there; whether the driver is fit for the next scenario."""
        for client in list(self.open):
            answer = await self.driver.ask(Close(id=self.driver.next_id(), client=client, timeout_ms=CLOSE_MS))
            if answer.error is not None and answer.error.name == TIMED_OUT:
                return False
        return True

    def _request(self, step: Step) -> Request:
        verb, id_, named = step.verb, self.driver.next_id(), self.stage.topic
        assert verb in VERBS, "a step without a verb asks nothing"
        client = step.client
        wait_ms = VERB_MS if step.timeout_ms is None else step.timeout_ms
        match verb:
            case "init":
                return self._init(step, id_, wait_ms)
            case "begin":
                return Begin(id=id_, client=client, timeout_ms=wait_ms)
            case "send":
                return Send(
                    id=id_,
                    client=client,
                    topic=named(step.topic),
                    partition=0 if step.partition is None else step.partition,
                    key=step.key,
                    value=step.value or "record",
                    wait=step.wait,
                    timeout_ms=wait_ms,
                )
            case "flush":
                return Flush(id=id_, client=client, timeout_ms=wait_ms)
            case "send_offsets":
                offsets = [msgspec.structs.replace(each, topic=named(each.topic)) for each in step.offsets]
                return SendOffsets(
                    id=id_,
                    client=client,
                    group=named(step.group),
                    offsets=offsets,
                    consumer=step.consumer,
                    timeout_ms=wait_ms,
                )
            case "commit":
                return Commit(id=id_, client=client, timeout_ms=wait_ms)
            case "abort":
                return Abort(id=id_, client=client, timeout_ms=wait_ms)
            case "subscribe":
                topics = [named(each) for each in (step.topics or [step.topic])]
                return Subscribe(id=id_, client=client, topics=topics, mode=step.mode, timeout_ms=wait_ms)
            case "poll":
                poll_ms = POLL_MS if step.timeout_ms is None else step.timeout_ms
                return Poll(id=id_, client=client, max=step.max, timeout_ms=poll_ms)
            case _:
                return Close(id=id_, client=client, timeout_ms=CLOSE_MS)

    def _init(self, step: Step, id_: int, wait_ms: int) -> Init:
        role = step.role or (Role.CONSUMER if "group.id" in step.config else Role.PRODUCER)
        config: dict[str, Value] = {"client.id": step.client, **(CONSUMER if role is Role.CONSUMER else PRODUCER)}
        config |= step.config
        for key in ("transactional.id", "group.id"):
            if key in config:
                config[key] = self.stage.topic(str(config[key]))
        # An empty text stands for the library's own default.
        config = {key: value for key, value in config.items() if value != ""}
        return Init(
            id=id_,
            client=step.client,
            role=role,
            bootstrap=self.stage.bootstrap,
            config=config,
            needs=step.needs,
            lazy=step.lazy,
            timeout_ms=wait_ms,
        )

    def _check(self, step: Step, request: Request, answer: Answer) -> None:
        """Compare an answer with the expectation of the step."""
        wanted = step.expected
        verb = f"{verb_of(request)} of {request.client}"
        if wanted == ANY:
            return
        if wanted == DONE:
            if answer.done is None:
                raise Stop(Outcome.FAIL, f"{verb} ended in {_told(answer)}; it should be done.")
            return
        if answer.error is not None and answer.error.name == TIMED_OUT:
            raise Stop(Outcome.FAIL, f"{verb} did not end in {request.timeout_ms} ms: the application hears nothing.")
        if wanted == FAILS:
            if answer.error is None:
                raise Stop(Outcome.FAIL, f"{verb} was done; it should fail.")
            return
        assert isinstance(wanted, Expected), "there are no other words"
        self._check_expected(wanted, verb, request, answer)

    def _check_expected(self, wanted: Expected, verb: str, request: Request, answer: Answer) -> None:
        if wanted.values is not None:
            if answer.done is None:
                raise Stop(Outcome.FAIL, f"{verb} ended in {_told(answer)}; it should read.")
            result = result_of(request, answer.done)
            assert isinstance(result, Polled), "only polls expect values"
            found = [each.value for each in result.records]
            if found != wanted.values:
                raise Stop(Outcome.FAIL, f"{verb} gave {listed(found)}; it should give {listed(wanted.values)}.")
            return
        if answer.error is None:
            raise Stop(Outcome.FAIL, f"{verb} was done; it should fail{_of(wanted)}.")
        error = answer.error
        if wanted.strict and error.class_ is ErrorClass.UNKNOWN:
            raise Stop(Outcome.UNSUPPORTED, f"The library does not say of which class {error.name} is.")
        if wanted.class_ and error.class_ not in (*wanted.class_, ErrorClass.UNKNOWN):
            raise Stop(Outcome.FAIL, f"{verb} ended in {_told(answer)}; it should be{_of(wanted)}.")
        if wanted.error and error.name not in wanted.error:
            raise Stop(Outcome.FAIL, f"{verb} ended in {_told(answer)}; it should be{_of(wanted)}.")


async def play(scenario: Scenario, stage: Stage, driver: DriverProcess) -> tuple[Play, bool]:
    """Play a scenario once; the second says whether the driver is fit for another one.

    Whatever the driver does is in the outcome; nothing is raised.
    """
    began = anyio.current_time()
    aide = Aide(stage.bootstrap)
    player = _Player(scenario, stage, driver, aide)
    stopped: Stop | None = None
    fit = True
    try:
        try:
            await player.run()
        except* (Stop, DriverFault, AideFailed) as group:
            raise _first(group) from None
    except Stop as stop:
        stopped = stop
    except DriverFault as fault:
        stopped, fit = Stop(Outcome.UNCLEAR, str(fault)), False
    except AideFailed as failed:
        stopped = Stop(Outcome.UNCLEAR, str(failed))
    outcome, sentences = await _judged(scenario, stage, player.marks, aide, stopped)
    shown, events = lines(stage.exchange()), stage.lines()
    if fit:
        try:
            fit = await player.close() and outcome is not Outcome.FAIL
        except DriverFault:
            fit = False
    ended = Play(
        scenario=scenario,
        outcome=outcome,
        sentences=sentences,
        verbs=player.verbs,
        exchange=shown,
        events=events,
        seconds=anyio.current_time() - began,
    )
    return ended, fit


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


async def _judged(
    scenario: Scenario, stage: Stage, marks: dict[str, int], aide: Aide, stopped: Stop | None
) -> tuple[Outcome, list[str]]:
    """The outcome, and why."""
    exchange = stage.exchange()
    for armed in stage.hits():
        _mark_rule(armed, exchange, marks)
    spoken = _unspoken(scenario, exchange)
    if stopped is not None and stopped.outcome in (Outcome.UNSUPPORTED, Outcome.UNCLEAR):
        return stopped.outcome, [str(stopped)]
    if spoken:
        return Outcome.UNSUPPORTED, spoken
    if complaints := stage.complaints():
        return Outcome.UNCLEAR, complaints
    seen = Witnessed(
        exchange=exchange,
        marks=marks,
        committed=partial(_committed, aide, stage.topic),
        group_offset=partial(_group_offset, aide, stage.topic),
    )
    lacking = [unmet for armed in stage.hits() if (unmet := armed.unmet) is not None]
    judge, proof = scenario.judge, scenario.proof
    if not stage.sees_requests:
        judge, proof = [each for each in judge if each.sees_results], []
    lacking += _wrong(proof, seen)
    if stopped is not None and stopped.outcome is Outcome.NOT_EXERCISED:
        return Outcome.NOT_EXERCISED, [str(stopped), *lacking]
    # Without rules nothing but the client keeps the hazard from coming about.
    if lacking and stopped is not None and scenario.rules:
        # a client that breaks the sentence may well fail at a step ahead of the hazard
        sent = [part for each in judge if (part := each.of_what_was_sent()) is not None]
        if found := _wrong(sent, seen):
            return Outcome.FAIL, [*found, str(stopped)]
        return Outcome.UNCLEAR, [f"Before the hazard came about: {stopped}", *lacking]
    if stopped is not None:
        return Outcome.FAIL, [str(stopped)]
    if lacking:
        return Outcome.NOT_EXERCISED, lacking
    try:
        wrong = await anyio.to_thread.run_sync(_wrong, judge, seen)
    except AideFailed as failed:
        return Outcome.UNCLEAR, [str(failed)]
    return (Outcome.FAIL, wrong) if wrong else (Outcome.PASS, [])


def _wrong(checks: list[Check], seen: Witnessed) -> list[str]:
    return [sentence for each in checks for sentence in each.judge(seen)]


def _unspoken(scenario: Scenario, exchange: Exchange) -> list[str]:
    """The reason why the client lacks the protocol of the scenario."""
    for api, version in scenario.speaks.items():
        versions = {each.version for each in exchange.of_clients() if each.api == api}
        if versions and max(versions) < version:
            return [f"The client speaks {api} {max(versions)}; this is about {version} and later."]
    return []


def _mark_rule(armed: Armed, exchange: Exchange, marks: dict[str, int]) -> None:
    """Where the first request is that a rule has hit."""
    hit = next((each for each in armed.requests if each.passed is None), None)
    if hit is None:
        return
    for asked in exchange.asked:
        key = (asked.api, asked.correlation, asked.client or None, asked.node)
        if key == (hit.api, hit.correlation_id, hit.client_id or None, hit.broker):
            marks[f"hit:{armed.name}"] = asked.seq
            marks[f"answer:{armed.name}"] = FOREVER if asked.answer is None else asked.answer.seq
            return


def _committed(aide: Aide, named: Callable[[str], str], topic: str, wanted: list[str]) -> list[str]:
    def beyond(found: list[str]) -> bool:
        """Whether these cannot become the wanted ones: committed records only grow."""
        return len(found) >= len(wanted) or bool(Counter(found) - Counter(wanted))

    return _settled(lambda: _values(aide, named(topic)), wanted, beyond)


def _values(aide: Aide, topic: str) -> list[str]:
    return [value for _, read in sorted(aide.committed(topic).items()) for value in read.values]


def _group_offset(aide: Aide, named: Callable[[str], str], group: str, topic: str, partition: int, wanted: int) -> int:
    return _settled(lambda: aide.group_offset(named(group), named(topic), partition), wanted)


def _settled(read: Callable[[], T], wanted: T, beyond: Callable[[T], bool] = lambda found: False) -> T:
    """The value that is read, once it is the wanted one or cannot become it, or the last value after some seconds."""
    ends = time.monotonic() + SETTLE_S
    while (found := read()) != wanted and not beyond(found) and time.monotonic() < ends:
        time.sleep(LOOK_S)
    return found


def _shown(request: Request) -> str:
    fields = {
        name: value
        for name in request.__struct_fields__
        if name not in ("id", "client", "timeout_ms", "bootstrap")
        and (value := getattr(request, name)) not in (None, False, [], {})
    }
    told = "".join(f" {name}={_plain(value)}" for name, value in fields.items())
    return f"{request.client} {verb_of(request)}{told}"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _told(answer: Answer) -> str:
    if answer.error is not None:
        told = f"{answer.error.name} ({answer.error.class_.value})"
        return f"{told}: {answer.error.message}" if answer.error.message else told
    if answer.unsupported is not None:
        return f"unsupported: {answer.unsupported}"
    return f"done {_plain(answer.done)}" if answer.done else "done"


def _of(wanted: Expected) -> str:
    names = " or ".join(wanted.error)
    classes = " or ".join(each.value for each in wanted.class_)
    return f" {names}" * bool(names) + f" {classes}" * bool(classes)
