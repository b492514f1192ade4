"""A scenario as data: a sentence of a KIP, a cluster, rules, steps, and judgements. The files are in `scenarios/`."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from odradek.conform.checks import Check
from odradek.conform.protocol import ErrorClass, Mode, Offset, Role, Value
from odradek.control.plan import ClusterPlan
from odradek.faults.model import Rule

__all__ = ["Basis", "Control", "Expected", "Scenario", "Step", "VERB_FIELDS", "load", "read_scenarios"]

PACKAGE = "odradek.conform.scenarios"
_ID = r"^kip-[0-9]+(/[a-z0-9.+-]+){2}$"


QUICKER = frozenset({"group.initial.rebalance.delay.ms"})
"""Configuration of brokers that only saves time: any broker will do without it."""


class Basis(Enum):
    """Where the promise of a scenario stands."""

    QUOTED = "quoted"
    """In the KIP, word for word."""
    STATED = "stated"
    """In the KIP; here in our words."""
    JAVA = "java"
    """Nowhere: the KIP is silent, and the Java client does so. Counted apart."""


class Expected(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer that a step must have; fields that are left out may have any value."""

    error: list[str] = []
    """One of these errors, by Kafka's names."""
    class_: list[ErrorClass] = msgspec.field(name="class", default=[])
    """One of these classes; `unknown`, of a library that has none, always counts."""
    strict: bool = False
    """Then `unknown` is unsupported: the scenario is about classes."""
    values: list[str] | None = None
    """For a poll: the values, in their order within each partition."""


DONE, ANY, FAILS = "done", "any", "fails"
WORDS: Mapping[str, Expected] = {
    "abortable": Expected(class_=[ErrorClass.ABORTABLE]),
    "fatal": Expected(class_=[ErrorClass.FATAL]),
    "lost": Expected(class_=[ErrorClass.ABORTABLE, ErrorClass.FATAL]),
    "abortable, and says so": Expected(class_=[ErrorClass.ABORTABLE], strict=True),
    "fatal, and says so": Expected(class_=[ErrorClass.FATAL], strict=True),
}
"""Words for expectations; `lost`: the application learns that the transaction will not be committed."""

VERB_FIELDS = ("init", "begin", "send", "flush", "send_offsets", "commit", "abort", "subscribe", "poll", "close")


class Control(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that the judge does itself: one of these."""

    wait: dict[str, Any] | None = None
    """Until this is so, in the words of the hub's `wait`."""
    release: str | None = None
    """Serve the requests that the rule of this name holds."""
    remove: str | None = None
    """Serve the requests that it holds, and remove it."""
    advance_ms: int | None = None
    fence: str | None = None
    """Be a newer producer with this transactional id."""
    put: list[str] | None = None
    """Write records without a transaction: the topic, then the values."""
    create: dict[str, dict[str, str]] | None = None
    """Topics with one partition, and their configs."""
    move_leader: str | None = None
    """Move partition 0 of this topic to the next broker."""
    move_transaction_coordinator: str | None = None
    set_transaction_version: int | None = None
    disconnect_clients: bool = False
    pause_ms: int | None = None
    """Wait in real time, for work that clients do by their own clock."""

    @property
    def needs_a_client_only(self) -> bool:
        """Whether it can be done to any broker."""
        done = (self.fence, self.put, self.pause_ms, self.create)
        return any(each is not None for each in done)


class Step(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A verb for a client, several of which the first that fails counts, or something that the judge does."""

    init: str | None = None
    begin: str | None = None
    send: str | None = None
    flush: str | None = None
    send_offsets: str | None = None
    commit: str | None = None
    abort: str | None = None
    subscribe: str | None = None
    poll: str | None = None
    close: str | None = None
    attempt: list[Step] | None = None
    """Until one of these answers an error: `expect` is for that answer, else for the last."""
    recover: str | None = None
    """React to the class of the last error: abort, or close and begin with a new instance."""
    do: Control | None = None

    name: str | None = None
    """For the marks `begin:NAME` and `end:NAME` of judgements."""
    expect: str | Expected = DONE
    behind: bool = False
    """Go on before the answer is there; the next verb waits for it."""
    timeout_ms: int | None = None

    role: Role | None = None
    config: dict[str, Value] = {}
    needs: list[str] = []
    lazy: bool = False
    topic: str = "orders"
    topics: list[str] = []
    """The topic of `subscribe`; `topic` if there is none."""
    partition: int | None = None
    key: str | None = None
    value: str | None = None
    wait: bool = False
    group: str = "kitchen"
    consumer: str | None = None
    offsets: list[Offset] = []
    mode: Mode = Mode.CLASSIC
    max: int = 500

    @property
    def verb(self) -> str | None:
        """The verb, if it is one."""
        return next((each for each in VERB_FIELDS if getattr(self, each) is not None), None)

    @property
    def client(self) -> str:
        verb = self.verb
        assert verb is not None, "it has a verb"
        return str(getattr(self, verb))

    @property
    def expected(self) -> Expected | str:
        """The expectation of a step; `done`, `any` and `fails` are words for common ones."""
        if isinstance(self.expect, Expected) or self.expect in (DONE, ANY, FAILS):
            return self.expect
        return WORDS[self.expect]

    def __post_init__(self) -> None:
        transactions = (self.init, self.begin, self.send, self.flush, self.send_offsets, self.commit, self.abort)
        fields = (*transactions, self.subscribe, self.poll, self.close, self.attempt, self.recover, self.do)
        kinds = [each for each in fields if each is not None]
        if len(kinds) != 1:
            raise ValueError("a step is one verb, attempt, recover or do")
        if isinstance(self.expect, str) and self.expect not in {DONE, ANY, FAILS, *WORDS}:
            raise ValueError(f"there is no expectation {self.expect}")


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One promise, and how it is put to the test."""

    id: Annotated[str, Meta(pattern=_ID)]
    """`kip-890/2/no-add-partitions`: it never changes and is never given to another scenario."""
    about: str
    """One line: the events, and the duty of the client."""
    basis: Basis = Basis.STATED
    says: str | None = None
    """The sentence: of the KIP word for word where `basis` is quoted, else in our words."""
    section: str | None = None
    """The section of the KIP."""
    speaks: dict[str, int] = {}
    """The scenario needs this version of an API, or a later one; a client that sends older ones does not speak it."""
    cluster: ClusterPlan = ClusterPlan()
    rules: list[Rule] = []
    steps: list[Step]
    proof: list[Check] = []
    """The hazard has happened if these hold, in addition to the expectations of the rules."""
    judge: list[Check] = []
    level: int = 1
    """1: in every transaction; 2: when brokers fail or move; 3: rare."""

    @property
    def kip(self) -> int:
        return int(self.id.split("/", 1)[0].removeprefix("kip-"))

    @property
    def needs_no_rules(self) -> bool:
        """Whether it can be played and judged with any broker: by answers and committed records."""
        steps = [each for step in self.steps for each in (step.attempt or [step])]
        config = {key: value for key, value in self.cluster.config.items() if key in QUICKER}
        plain = ClusterPlan(topics=self.cluster.topics, config=config)
        controls = [each.do for each in steps if each.do is not None]
        possible = all(each.needs_a_client_only for each in controls) and self.cluster == plain and not self.rules
        expects = any(step.expect not in (DONE, ANY) for step in (*self.steps, *steps))
        # A sentence about requests would count as kept, although no request was examined.
        judged = all(each.sees_results for each in self.judge) and (bool(self.judge) or expects)
        return possible and judged


def read_scenarios(text: str, source: str) -> list[Scenario]:
    """The scenarios of a file. Raises ValueError with a sentence for a mistake in it."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{source}: {error}.") from None
    shared = data.get("shared", {})
    found = []
    for table in data.get("scenario", []):
        for each in _expanded(table):
            try:
                scenario = msgspec.convert(_shared(each, shared), Scenario)
            except msgspec.ValidationError as error:
                raise ValueError(f"{source}: {each.get('id')}: {error}.") from None
            found.append(scenario)
    return found


@cache
def load() -> tuple[Scenario, ...]:
    """All scenarios, in the order of KIPs and files."""
    found: dict[str, Scenario] = {}
    names = sorted(each.name for each in files(PACKAGE).iterdir() if each.name.endswith(".toml"))
    for name in names:
        for scenario in read_scenarios(files(PACKAGE).joinpath(name).read_text(encoding="utf-8"), name):
            if scenario.id in found:
                raise ValueError(f"{name}: there are two scenarios {scenario.id}.")
            found[scenario.id] = scenario
    return tuple(sorted(found.values(), key=lambda each: each.kip))


def _expanded(table: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A table with `each` is one scenario for every combination; `{name}` stands for the value in all of its texts.

    `{name-}` is the value in lower case with hyphens, for ids.
    """
    table = dict(table)
    each: dict[str, list[Any]] = table.pop("each", {})
    for values in itertools.product(*each.values()):
        chosen = dict(zip(each, values, strict=True))
        yield _filled(table, chosen)


def _filled(value: Any, chosen: Mapping[str, Any]) -> Any:
    match value:
        case str():
            for name, word in chosen.items():
                if value == f"{{{name}}}":
                    return word
                if isinstance(word, str | int):
                    value = value.replace(f"{{{name}}}", str(word))
                    value = value.replace(f"{{{name}-}}", str(word).lower().replace("_", "-"))
            return value
        case list():
            return [_filled(each, chosen) for each in value]
        case dict():
            return {_filled(key, chosen): _filled(each, chosen) for key, each in value.items()}
        case _:
            return value


def _shared(value: Any, shared: Mapping[str, Any]) -> Any:
    """A list may hold `{use = NAME}` for the list of this name in the file's table `shared`."""
    match value:
        case list():
            out: list[Any] = []
            for each in value:
                if isinstance(each, dict) and set(each) == {"use"}:
                    out += _shared(shared[each["use"]], shared)
                else:
                    out.append(_shared(each, shared))
            return out
        case dict():
            return {key: _shared(each, shared) for key, each in value.items()}
        case _:
            return value
