"""A rule as data: which requests, when, what happens to them, and how often that is expected.

The same Structs are read from Python, from a YAML plan and from JSON. What is wrong with a rule is said where it is
made: `RuleError` in Python, and with the place of it where a text was read (`odradek.control.plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from odradek.core.wording import counted
from odradek.faults import checks
from odradek.faults.checks import RuleError
from odradek.host.call import Call
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

__all__ = ["Act", "Expect", "Match", "Rule", "RuleError", "Scripted", "Step", "When"]

ANY = "any"
DOTS = (".", "..")


@cache
def _hints(kind: type[Struct]) -> Sequence[object]:
    """The types of the fields, in their order."""
    hints = get_type_hints(kind)
    return [hints[name] for name in kind.__struct_fields__]


def _outside(kind: type[Struct], name: str) -> str:
    """The name of a field outside Python."""
    return dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))[name]


class _Checked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Data whose fields have the types that they say, wherever it was made."""

    def _check_types(self) -> None:
        for (name, value), kind in zip(asdict(self).items(), _hints(type(self)), strict=True):
            try:
                msgspec.convert(value, kind)
            except msgspec.ValidationError as error:
                words = checks.words_of(kind)
                may_be = f": it is one of {', '.join(words)}" if words else ""
                said = str(error).replace("`", "")
                raise RuleError(_outside(type(self), name), f"{name}: {said}{may_be}.") from None


class Match(_Checked, frozen=True, kw_only=True, rename={"sender": "from"}):
    """Which requests: those for which everything that is given here is so.

    Ids are compared wherever the request carries them (`carried`); several have to be together, as a topic and its
    partition are. `client_id`, `transactional_id`, `group` and `topic` may hold `*` and `?`.
    """

    api: str | list[str] = ANY
    """An API by Kafka's name (`END_TXN`, or `EndTxn`), a list of them, or `any`."""
    versions: int | str | None = None
    """One version, `3-5`, or `4+`."""
    client_id: str | None = None
    sender: Literal["client", "broker", "any"] = "any"
    """The sender: a client, or a broker over the inter-broker channel."""
    broker: int | None = None
    """The id of the broker that is asked."""
    transactional_id: str | None = None
    producer_id: int | None = None
    group: str | None = None
    topic: str | None = None
    partition: int | None = None

    def __post_init__(self) -> None:
        self._check_types()
        checks.check_match(self.apis, self.version_range, self.ids)
        checks.check_least("producer_id", self.producer_id, 0, most=2**63 - 1)
        checks.check_least("partition", self.partition, 0)
        checks.check_least("broker", self.broker, 0)

    @property
    def apis(self) -> tuple[ApiKey, ...] | None:
        """The APIs, or None for any."""
        return None if self.api == ANY else checks.read_apis(self.api)

    @property
    def version_range(self) -> range | None:
        """The versions, or None for all."""
        return None if self.versions is None else checks.read_versions(self.versions)

    @property
    def ids(self) -> dict[str, str | int]:
        """The conditions on ids, by the name of the kind of id."""
        found = {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "group": self.group,
            "topic": self.topic,
            "partition": self.partition,
        }
        return {name: value for name, value in found.items() if value is not None}


class When(_Checked, frozen=True, kw_only=True):
    """Which of the requests that match are hit."""

    skip: int = 0
    """So many pass first."""
    times: int | Literal["all"] | None = None
    """So many are hit, or all; 1 if it is not said, and all where nothing is done to them."""
    every: int = 1
    """Only every n-th request behind `skip` is hit: 3 means the third, the sixth, …"""
    probability: float = 1.0
    """The chance of each, drawn from the cluster's seed."""
    after: str | None = None
    """The name of another rule: this one begins when that one has been hit."""

    def __post_init__(self) -> None:
        self._check_types()
        checks.check_least("skip", self.skip, 0)
        checks.check_least("every", self.every, 1)
        if isinstance(self.times, int):
            checks.check_least("times", self.times, 1)
        if not 0 < self.probability <= 1:
            raise RuleError("probability", f"A probability is above 0 and at most 1, not {self.probability:g}.")


class Act(_Checked, frozen=True, kw_only=True):
    """The action on a request that is hit."""

    delay_ms: int = 0
    """It is served so much later."""
    hold: bool = False
    """It is served when it is released."""
    drop: bool = False
    """It is never served and never answered."""
    disconnect: Literal["before", "after"] | None = None
    """The connection is closed: before it is served, or after, in place of the answer."""
    error: str | None = None
    """The name of an error: it is not served, and everything that it asked for is answered with this."""
    message: str | None = None
    """A text that goes with the error, in versions that have a place for one."""
    throttle_ms: int = 0
    """The `throttle_time_ms` of its answer."""
    duplicate: bool = False
    """It is served twice, as if the network had repeated it; the second answer goes nowhere."""
    answer_delay_ms: int = 0
    """It is served at once, and answered so much later."""
    reply: dict[str, object] | None = None
    """It is not served; the answer, in Kafka's JSON form; what is left out has its default."""

    def __post_init__(self) -> None:
        self._check_types()
        checks.check_least("delay_ms", self.delay_ms, 0)
        checks.check_least("throttle_ms", self.throttle_ms, 0)
        checks.check_least("answer_delay_ms", self.answer_delay_ms, 0)
        if self.error is not None:
            checks.read_error(self.error)
        elif self.message is not None:
            raise RuleError(
                "message", "A message goes with an error: name one, as in error: COORDINATOR_NOT_AVAILABLE."
            )
        checks.check_together(self.given)
        if self.disconnect == "before" and self.answer_delay_ms:
            raise RuleError("answer_delay_ms", "A connection that is closed before has no answer to delay.")

    @property
    def given(self) -> frozenset[str]:
        """The names of what happens."""
        given = (name for name, value in asdict(self).items() if value not in (0, False, None))
        return frozenset(name for name in given if name != "message")

    @property
    def error_code(self) -> ErrorCode | None:
        """The rule answers the request with this error code; None if the rule names no error."""
        return None if self.error is None else checks.read_error(self.error)

    @property
    def postpones(self) -> bool:
        """Whether the request is served later."""
        return self.hold or self.delay_ms > 0


class Expect(_Checked, frozen=True, kw_only=True):
    """How often the rule has to be hit by the end: exactly so often, or at least."""

    hits: int | None = None
    at_least: int | None = None

    def __post_init__(self) -> None:
        self._check_types()
        checks.check_least("hits", self.hits, 0)
        checks.check_least("at_least", self.at_least, 0)
        if (self.hits is None) == (self.at_least is None):
            raise RuleError("", "An expectation is one of hits: N and at_least: N, or the word none.")

    def is_met(self, hits: int) -> bool:
        """Whether so many hits are what is expected."""
        return hits == self.hits if self.hits is not None else hits >= (self.at_least or 0)

    def __str__(self) -> str:
        if self.hits is None:
            return f"at least {counted(self.at_least or 0, 'hit')}"
        return "no hit" if self.hits == 0 else counted(self.hits, "hit")


class Step(_Checked, frozen=True, kw_only=True):
    """One thing that is done to the cluster after a request was hit; it takes the ids from that request."""

    release: str | None = None
    """Serve what the rule of this name holds."""
    remove: str | None = None
    """The same, and apply that rule no longer."""
    move_leader: int | Literal["next"] | None = None
    """Give the partition of the request to this broker, or to another one than now."""
    move_transaction_coordinator: int | Literal["next"] | None = None
    """The same with the coordinator of its transactional id."""
    move_group_coordinator: int | Literal["next"] | None = None
    """The same with the coordinator of its group."""
    restart_broker: int | Literal["asked"] | None = None
    """Stop this broker, or the one that was asked, as if its machine were gone, and start it again."""
    stop_broker: int | Literal["asked"] | None = None
    """Stop this broker, or the one that was asked, as if its machine were gone."""
    fence_after_ms: int | None = None
    """With `stop_broker`: so much later the controller notices it; else at once."""
    start_broker: int | None = None
    """Start this broker again; it may run."""
    set_producer_epoch: int | None = None
    """Give its transactional id this epoch, if no transaction is open."""
    set_transaction_version: int | None = None
    """Finalize this level of the feature transaction.version."""
    set_coordinator_load_ms: int | None = None
    """Let coordinators take so long to load from now on."""
    advance_ms: int | None = None
    """Let so much time pass for the brokers."""

    def __post_init__(self) -> None:
        self._check_types()
        if len(self.given) != 1:
            names = ", ".join(self._deeds)
            raise RuleError("", f"A step is one thing of {names}, not {' and '.join(self.given) or 'nothing'}.")
        if self.fence_after_ms is not None and self.stop_broker is None:
            raise RuleError("fence_after_ms", "It goes with stop_broker.")
        checks.check_least("set_coordinator_load_ms", self.set_coordinator_load_ms, 0)
        checks.check_least("advance_ms", self.advance_ms, 0)
        checks.check_least("set_transaction_version", self.set_transaction_version, 0)
        checks.check_least("fence_after_ms", self.fence_after_ms, 0)
        checks.check_least("set_producer_epoch", self.set_producer_epoch, 0, most=2**15 - 1)

    @property
    def given(self) -> list[str]:
        """The name of what is done."""
        values = asdict(self)
        return [name for name in self._deeds if values[name] is not None]

    @property
    def _deeds(self) -> list[str]:
        return [name for name in self.__struct_fields__ if name != "fence_after_ms"]

    @property
    def rule_name(self) -> str | None:
        """The rule that it is about, if it is about one."""
        return self.release or self.remove

    @property
    def broker(self) -> int | None:
        """The broker that it names, if it names one."""
        moved = (self.move_leader, self.move_transaction_coordinator, self.move_group_coordinator)
        named = (*moved, self.restart_broker, self.stop_broker, self.start_broker)
        return next((each for each in named if isinstance(each, int)), None)

    @property
    def needs(self) -> tuple[str, ...]:
        """The ids that it takes from the request."""
        return _NEEDED.get(self.given[0], ())


_NEEDED = {
    "move_leader": ("topic", "partition"),
    "move_transaction_coordinator": ("transactional_id",),
    "move_group_coordinator": ("group",),
    "set_producer_epoch": ("transactional_id",),
}


class Rule(_Checked, frozen=True, kw_only=True):
    """The requests to hit, the action on them, and the expected number of hits.

    One without an `act` lets its requests pass, and counts them for its `expect`.
    """

    name: str | None = None
    """By which others name it; `rule-1`, `rule-2`, … if it is not said."""
    match: Match = Match()
    when: When = When()
    act: Act = Act()
    then: list[Step] = []
    """Steps on the cluster after each request that is hit, in this order."""
    expect: Expect | Literal["none"] | None = None

    def __post_init__(self) -> None:
        self._check_types()
        if self.name is not None and not self.name.strip():
            raise RuleError("name", "A name is not empty.")
        if self.name in DOTS:
            raise RuleError("name", "A name is neither . nor .., which HTTP clients take out of the path of a call.")
        if self.name is not None and self.when.after == self.name:
            raise RuleError("when.after", f"{self.name} cannot begin after itself.")
        if not self._does_something:
            raise RuleError("act", "This rule does nothing: give it an act, a then, or an expect to count only.")
        checks.check_act(self.match.apis, self.match.version_range, self.act.error_code, self.act.reply)
        if self.act.throttle_ms:
            checks.check_throttle(self.match.apis, self.match.version_range)
        for index, step in enumerate(self.then):
            checks.check_needed(f"then.{index}.{step.given[0]}", self.match.apis, self.match.version_range, step.needs)
        self._check_expectation()

    @property
    def _does_something(self) -> bool:
        return self.acts or bool(self.then) or self.expect is not None

    @property
    def acts(self) -> bool:
        """Whether it does something to a request, and not only counts it."""
        return bool(self.act.given)

    @property
    def times(self) -> int | None:
        """How many are hit at most; None for all."""
        times = self.when.times
        if times is None:
            return 1 if self.acts or self.then else None
        return None if times == "all" else int(times)

    @property
    def expectation(self) -> Expect | None:
        """How often it has to be hit, if that is expected."""
        return Expect(hits=0) if self.expect == "none" else self.expect

    def _check_expectation(self) -> None:
        expected, times = self.expectation, self.times
        if expected is None or times is None:
            return
        wanted = expected.at_least if expected.hits is None else expected.hits
        if wanted is not None and wanted > times:
            raise RuleError("expect", f"It expects {expected}, and times allows {counted(times, 'hit')} only.")


class Scripted(Rule, frozen=True, kw_only=True):
    """A rule with Python in it, for a test in the brokers' process."""

    matches: Callable[[Call], bool] | None = None
    """A further condition."""
    answer: Callable[[Call], object] | None = None
    """It is not served; the answer: a response of `odradek.wire.messages`, or None for no answer."""

    def _check_types(self) -> None:
        for name, called in (("matches", self.matches), ("reply", self.answer)):
            if called is not None and not callable(called):
                raise RuleError(name, f"{name} is a function of the call, not {called!r}.")
        if self.answer is not None:
            checks.check_together(self.act.given | {"reply"})

    @property
    def _does_something(self) -> bool:
        return super()._does_something or self.matches is not None

    @property
    def acts(self) -> bool:
        return self.answer is not None or bool(self.act.given)
