"""Rules at work: what each has seen and hit, what it holds, and what is still missing of what it expects."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import translate
from hashlib import blake2b
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.core.wording import counted
from odradek.faults.carried import Test, carried
from odradek.faults.model import Rule, RuleError, Scripted

if TYPE_CHECKING:
    from odradek.core.flow import Wait
    from odradek.host.call import Call
    from odradek.host.host import Host

__all__ = ["Armed", "HeldRequest", "NearMiss", "PostponedRequest", "RuleReport", "SeenRequest"]


Failed = Callable[[Exception], None]
"""Takes what a function of a rule has raised."""

LAST = 10
"""So many requests, and so many near misses, are remembered of each rule."""


class SeenRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that a rule has looked at."""

    api: str
    version: int
    client_id: str | None
    correlation_id: int
    sender: str
    """`client` or `broker`."""
    broker: int
    """The broker that was asked."""
    at_ms: int
    """When, by the brokers' clock: milliseconds since 1970."""
    ids: dict[str, list[str | int]] = {}
    """Which ids it carries, ten of each kind at most."""
    passed: str | None = None
    """Why it was not hit although it matches; None for one that was."""

    def __str__(self) -> str:
        ids = "".join(f" {kind}={','.join(map(str, values))}" for kind, values in self.ids.items())
        return f"{self.api} v{self.version} of {self.client_id or self.sender} at broker {self.broker}{ids}"


class NearMiss(Struct, frozen=True, kw_only=True):
    """A request of the rule's API that does not match, and each condition that it fails."""

    request: SeenRequest
    failed: list[str]

    def __str__(self) -> str:
        return f"{self.request}: {'; '.join(self.failed)}"


class RuleReport(Struct, frozen=True, kw_only=True):
    """The hits of a rule so far."""

    name: str
    rule: Rule
    matched: int
    hits: int
    held: int
    first_ms: int | None
    last_ms: int | None
    requests: list[SeenRequest]
    near_misses: list[NearMiss]
    unmet: str | None
    """The sentence that says what is missing of what it expects, if anything is."""


class HeldRequest(Struct, frozen=True, eq=False):
    """A request that waits for its release."""

    node_id: int
    wait: Wait[bool]
    request: SeenRequest


class PostponedRequest(Struct, frozen=True, eq=False):
    """A request that waits because of a rule, for its time to come or, where it was dropped, for ever."""

    node_id: int
    wait: object
    """The wait of its flow."""
    call: Call
    since_ms: int


class Armed:
    """One rule at work in a cluster; its counts are those of all brokers together."""

    def __init__(
        self, rule: Rule, name: str, *, seed: int, after: Armed | None, failed: Failed, remembers: bool = True
    ) -> None:
        self.rule = rule
        self.name = name
        self.added_at: str | None = None
        """Where a test has added it, as `test_it.py:14`, if it has no name of its own."""
        self.matched = 0
        """How many requests fit `match`."""
        self.hits = 0
        """How many of them something has happened to."""
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self.requests: deque[SeenRequest] = deque(maxlen=LAST)
        self.near_misses: deque[NearMiss] = deque(maxlen=LAST)
        self.holding: list[HeldRequest] = []
        self.postponing: list[PostponedRequest] = []
        """Requests that it delays, whose answer it delays, or that it has dropped, while their connections stand."""
        self.on_hit: Callable[[SeenRequest], None] | None = None
        """Does what follows from a hit, later."""
        self._after = after
        self._failed = failed
        self._remembers = remembers
        self._seed = f"{seed}:{name}:".encode()
        self._candidates = 0
        self._conditions = _Conditions(rule)
        self.apis = self._conditions.apis
        """The APIs whose requests may match; None: all."""
        self._times = rule.times

    @property
    def title(self) -> str:
        """Its name, and where it was added, as sentences about it begin."""
        return self.name if self.added_at is None else f"{self.name} ({self.added_at})"

    @property
    def held(self) -> int:
        """How many requests it holds now."""
        return len(self.holding)

    def takes(self, node: Host, call: Call) -> bool:
        """Whether something happens to this request; counts it."""
        conditions = self._conditions
        if self.apis is not None and call.api_key not in self.apis:
            return False
        if not self._remembers and self._is_used_up:
            return False
        if not conditions.fits(node, call):
            if self._remembers:
                self._note_miss(node, call)
            return False
        if isinstance(self.rule, Scripted) and self.rule.matches is not None:
            try:
                if not self.rule.matches(call):
                    if self._remembers:
                        self._miss(node, call, ["matches(call) is false"])
                    return False
            except Exception as error:
                self._failed(error)
                return False
        self.matched += 1
        passed = self._passes()
        request = seen(node, call, passed=passed) if self._remembers or self.on_hit is not None else None
        if request is not None:
            self.requests.append(request)
        if passed is not None:
            return False
        self.hits += 1
        self.last_ms = node.clock.now
        if self.first_ms is None:
            self.first_ms = node.clock.now
        if self.on_hit is not None and request is not None:
            self.on_hit(request)
        return self.rule.acts

    @property
    def _is_used_up(self) -> bool:
        return self._times is not None and self.hits >= self._times

    @property
    def unmet(self) -> str | None:
        """A sentence that says what is missing of what the rule expects, and what came nearest; None if nothing is."""
        expected = self.rule.expectation
        if expected is None or expected.is_met(self.hits):
            return None
        saw = f"{counted(self.matched, 'request')} matched" if self.matched else "no request matched"
        last = self.requests[-1].passed if self.requests else None
        why = f", the last one passed because of {last}" if last is not None else ""
        misses = [str(miss) for miss in list(self.near_misses)[-3:]]
        nearest = f" Nearest: {' | '.join(misses)}." if misses and self.hits == 0 else ""
        return f"Rule {self.title} expects {expected} and had {counted(self.hits, 'hit')}; {saw}{why}.{nearest}"

    def report(self) -> RuleReport:
        """All that it knows, as data."""
        return RuleReport(
            name=self.name,
            rule=self.rule,
            matched=self.matched,
            hits=self.hits,
            held=self.held,
            first_ms=self.first_ms,
            last_ms=self.last_ms,
            requests=list(self.requests),
            near_misses=list(self.near_misses),
            unmet=self.unmet,
        )

    def _passes(self) -> str | None:
        """Why a request that matches is not hit; None if it is."""
        when = self.rule.when
        if self._after is not None and self._after.hits == 0:
            return f"after: {self._after.name} has not been hit yet"
        self._candidates += 1
        number = self._candidates - when.skip
        if number <= 0:
            return f"skip: it is number {self._candidates}, and {when.skip} pass"
        if self._is_used_up:
            return f"times: {self.rule.times} were hit before"
        if number % when.every:
            return f"every: it is number {number}, and each {when.every}th is hit"
        if when.probability < 1 and self._draw(number) >= when.probability:
            return f"probability: it is {when.probability:g}"
        return None

    def _draw(self, number: int) -> float:
        """From 0 to 1, the same for the same seed, rule and number, whatever else goes on."""
        digest = blake2b(self._seed + str(number).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64

    def _note_miss(self, node: Host, call: Call) -> None:
        self._miss(node, call, self._conditions.failed(node, call))

    def _miss(self, node: Host, call: Call, failed: list[str]) -> None:
        """Keep those that fail the fewest conditions."""
        misses = self.near_misses
        fewest = len(misses[0].failed) if misses else len(failed)
        if len(failed) > fewest:
            return
        if len(failed) < fewest:
            misses.clear()
        misses.append(NearMiss(request=seen(node, call), failed=failed))


class _Conditions:
    """The conditions of a rule, prepared for fast checks."""

    def __init__(self, rule: Rule) -> None:
        match = rule.match
        apis = match.apis
        self.apis = None if apis is None else frozenset(apis)
        self._versions = match.version_range
        self._client_id = match.client_id
        self._fits_client_id = None if match.client_id is None else _test(match.client_id)
        self._is_broker = {"client": False, "broker": True}.get(match.sender)
        self._broker = match.broker
        self._ids: Mapping[str, str | int] = match.ids
        self._tests = {kind: _test(value) for kind, value in match.ids.items()}

    def fits(self, node: Host, call: Call) -> bool:
        return (
            (self._versions is None or call.version in self._versions)
            and (self._fits_client_id is None or self._fits_client_id(call.client_id))
            and (self._is_broker is None or call.is_broker is self._is_broker)
            and (self._broker is None or node.node_id == self._broker)
            and (not self._tests or self._carries(node, call))
        )

    def _carries(self, node: Host, call: Call) -> bool:
        """Whether the ids stand together in the request, or in what its session holds."""
        of_api, topic_of = carried(call.api_key, call.version), topic_names(node)
        if of_api.holds(call.request, self._tests, topic_of):
            return True
        whole = node.in_full(call)
        return whole is not call.request and of_api.holds(whole, self._tests, topic_of)

    def failed(self, node: Host, call: Call) -> list[str]:
        """Each condition that a request fails, and what it has instead."""
        failed = []
        if self._versions is not None and call.version not in self._versions:
            failed.append(f"versions: it is {call.version}, not of {_shown(self._versions)}")
        if self._fits_client_id is not None and not self._fits_client_id(call.client_id):
            failed.append(f"client_id: it is {call.client_id}, not {self._client_id}")
        if self._is_broker is not None and call.is_broker is not self._is_broker:
            failed.append(f"from: it is from a {'broker' if call.is_broker else 'client'}")
        if self._broker is not None and node.node_id != self._broker:
            failed.append(f"broker: it is for {node.node_id}, not {self._broker}")
        if self._tests:
            failed += self._failed_ids(node, call)
        return failed

    def _failed_ids(self, node: Host, call: Call) -> list[str]:
        of_api, topic_of, request = carried(call.api_key, call.version), topic_names(node), node.in_full(call)
        if of_api.holds(request, self._tests, topic_of):
            return []
        there = of_api.ids(request, topic_of)
        failed = []
        for kind, test in self._tests.items():
            if not of_api.holds(request, {kind: test}, topic_of):
                found = ", ".join(map(str, there.get(kind, [])))
                failed.append(f"{kind}: {f'it has {found}' if found else 'it has none'}, not {self._ids[kind]}")
        return failed or [f"{', '.join(self._ids)}: they do not stand together"]


def seen(node: Host, call: Call, *, passed: str | None = None) -> SeenRequest:
    """A request as it is remembered."""
    return SeenRequest(
        api=call.api_key.name,
        version=call.version,
        client_id=call.client_id,
        correlation_id=call.correlation_id,
        sender="broker" if call.is_broker else "client",
        broker=node.node_id,
        at_ms=node.clock.now,
        ids=carried(call.api_key, call.version).ids(node.in_full(call), topic_names(node)),
        passed=passed,
    )


def topic_names(node: Host) -> Callable[[bytes], str | None]:
    """The names of topics by their ids, as this broker knows them."""

    def topic_of(topic_id: bytes) -> str | None:
        topic = node.metadata.image.topic_by_id(topic_id)
        return None if topic is None else topic.name

    return topic_of


def _test(wanted: str | int) -> Test:
    if isinstance(wanted, int):
        return lambda value: bool(value == wanted)
    # A bracket stands for itself: it may be part of an id.
    pattern = re.compile(translate(wanted.replace("[", "[[]")))
    return lambda value: isinstance(value, str) and pattern.match(value) is not None


def _shown(versions: range) -> str:
    return f"{versions[0]}+" if versions[-1] >= 9999 else f"{versions[0]} to {versions[-1]}"


def arm(
    rules: Iterable[Rule],
    *,
    present: Sequence[Armed],
    brokers: Sequence[int],
    seed: int,
    failed: Failed,
    number: int,
    remembers: bool = True,
) -> list[Armed]:
    """Make rules ready for work beside those that are; all of them or, with a RuleError, none.

    What `remembers` nothing of the requests that it has seen is quicker, and has no report.
    A rule may begin after one that is there, or after one of its own plan that stands before it.
    """
    rules = list(rules)
    by_name = {each.name: each for each in present}
    named = {rule.name for rule in rules if rule.name is not None}.union(by_name)
    made: list[Armed] = []
    for rule in rules:
        if rule.name is None:
            number += 1
            while f"rule-{number}" in by_name:
                number += 1
        name = rule.name or f"rule-{number}"
        if name in by_name:
            raise RuleError("name", f"There is a rule {name} already.")
        after = rule.when.after
        if after is not None and after not in by_name:
            known = ", ".join(by_name) or "none yet"
            raise RuleError("when.after", f"There is no rule {after} before {name}: there is {known}.")
        for index, step in enumerate(rule.then):
            if step.rule_name is not None and step.rule_name not in named:
                known = ", ".join(sorted(named)) or "none with a name"
                raise RuleError(
                    f"then.{index}.{step.given[0]}", f"There is no rule {step.rule_name}: there is {known}."
                )
            _check_broker(f"then.{index}.{step.given[0]}", step.broker, brokers)
        _check_broker("match.broker", rule.match.broker, brokers)
        each = Armed(
            rule,
            name,
            seed=seed,
            after=None if after is None else by_name[after],
            failed=failed,
            remembers=remembers,
        )
        by_name[name] = each
        made.append(each)
    return made


def _check_broker(field: str, broker: int | None, brokers: Sequence[int]) -> None:
    if broker is not None and broker not in brokers:
        listed = ", ".join(map(str, brokers))
        raise RuleError(field, f"There is no broker {broker}: there is {listed}.")
