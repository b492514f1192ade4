"""The rules of a cluster: armed, released, removed, verified; every broker consults the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from weakref import WeakSet

from odradek.core.wording import counted
from odradek.faults.armed import Armed, HeldRequest, RuleReport, SeenRequest, arm
from odradek.faults.interception import Faults
from odradek.faults.model import Rule, RuleError, Step
from odradek.host.exchange import Serving
from odradek.host.router import Router

__all__ = ["RuleSet"]


Act = Callable[[int, Callable[[], None]], None]
"""Runs something in a step of the broker with this id, if it runs, so that what follows from it is carried out."""


CarryOut = Callable[[Sequence[Step], SeenRequest], None]
"""Takes the steps that follow from a request that was hit, and does them when the brokers are out of their steps."""


def _check_served(rule: Rule, router: Router) -> None:
    """A request of the rule can come: an older release serves fewer APIs, in fewer versions."""
    apis, versions = rule.match.apis, rule.match.version_range
    if apis is None or any(router.serves(api_key, versions) for api_key in apis):
        return
    names = " or ".join(api_key.name for api_key in apis)
    if any(router.serves(api_key, None) for api_key in apis):
        raise RuleError("match.versions", f"This release of Kafka serves {names} in other versions only.")
    raise RuleError("match.api", f"This release of Kafka does not serve {names}, so that no request would match.")


class RuleSet:
    """The rules of one cluster. Brokers without any have no `faults`, and pay nothing."""

    def __init__(
        self,
        *,
        nodes: Callable[[], Iterable[Serving]],
        act: Act,
        seed: int,
        remembers: bool = True,
        changed: Callable[[], None] | None = None,
    ) -> None:
        """`changed` is called when a rule is removed, which no step of a broker shows."""
        self._nodes = nodes
        self._act = act
        self._seed = seed
        self._changed = changed
        self._remembers = remembers
        """Whether rules keep the last requests that they have seen, for reports and for what they expect."""
        self._armed: list[Armed] = []
        self._count = 0
        self._made: WeakSet[Armed] = WeakSet()
        """Rules of this cluster, active or removed, that are still referenced."""
        self._over: list[Armed] = []
        self.carry_out: CarryOut | None = None
        """Does to the cluster what follows from a hit; whoever can do that sets it."""
        self.failures: list[Exception] = []
        """Exceptions of rules' functions, for the test to raise."""

    def __iter__(self) -> Iterator[Armed]:
        return iter(tuple(self._armed))

    def __len__(self) -> int:
        return len(self._armed)

    def get(self, name: str) -> Armed:
        """The rule of this name. Raises LookupError where there is none."""
        for armed in self._armed:
            if armed.name == name:
                return armed
        names = ", ".join(each.name for each in self._armed) or "none"
        raise LookupError(f"There is no rule {name}: there is {names}.")

    def add(self, rules: Iterable[Rule]) -> list[Armed]:
        """Apply rules to the requests that are read from now on: all of them or, with a `RuleError`, none.

        They are consulted in the order in which they were added, and the first that does something ends that.
        """
        nodes = list(self._nodes())
        brokers = [node.node_id for node in nodes]
        rules = list(rules)
        for rule in rules:
            if nodes:
                _check_served(rule, nodes[0].router)
        made = arm(
            rules,
            present=self._armed,
            brokers=brokers,
            seed=self._seed,
            failed=self.failures.append,
            number=self._count,
            remembers=self._remembers,
        )
        for armed in made:
            if armed.rule.then:
                armed.on_hit = self._follows(armed.rule)
        self._count += sum(armed.rule.name is None for armed in made)
        self._armed += made
        self._made.update(made)
        self.attach()
        return made

    def _check_own(self, armed: Armed) -> None:
        if armed not in self._made:
            raise LookupError(f"the rule {armed.name} is of another cluster")

    def _follows(self, rule: Rule) -> Callable[[SeenRequest], None]:
        carry_out = self.carry_out
        if carry_out is None:
            raise RuleError("then", "Nobody here can do to the cluster what is to follow: this is for real clusters.")
        return partial(carry_out, rule.then)

    def remove(self, armed: Armed) -> None:
        """Apply a rule no longer, and serve what it holds. Raises LookupError for a rule of another cluster."""
        self._check_own(armed)
        if armed in self._armed:
            self._armed.remove(armed)
            if armed.rule.expect is not None:
                self._over.append(armed)
        self.release(armed)
        self.attach()
        if self._changed is not None:
            self._changed()

    def clear(self) -> None:
        """Remove every rule, and forget what those that were removed expect."""
        for armed in tuple(self._armed):
            self.remove(armed)
        self._over.clear()

    def release(self, armed: Armed, count: int | None = None) -> int:
        """Serve the requests that a rule holds, or the `count` that it has held for longest; how many those were.

        Raises LookupError for a rule of another cluster, whose brokers run in a loop of their own.
        """
        self._check_own(armed)
        if count is not None and count < 0:
            raise ValueError(f"a rule cannot release {counted(count, 'request')}: give 0 or more, or None for all")
        released = armed.holding[:count]
        for node_id in dict.fromkeys(held.node_id for held in released):
            self._act(node_id, partial(_settle, [held for held in released if held.node_id == node_id]))
        return len(released)

    def attach(self) -> None:
        """Have each broker consult the rules, if there are any."""
        for node in self._nodes():
            if not self._armed:
                node.faults = None
            elif node.faults is None:
                node.faults = Faults(node, self._armed, self.failures.append)

    def verify(self) -> list[str]:
        """A sentence for each rule whose expectation is not met, those that were removed included."""
        over = [f"{unmet} The rule was removed." for armed in self._over if (unmet := armed.unmet) is not None]
        return over + [unmet for armed in self._armed if (unmet := armed.unmet) is not None]

    def complaints(self) -> list[str]:
        """The same, and a sentence for each thing that could not be done."""
        return [*(f"A rule has failed: {error}." for error in self.failures), *self.verify()]

    def reports(self) -> list[RuleReport]:
        """A report for every rule."""
        return [armed.report() for armed in self._armed]


def _settle(released: list[HeldRequest]) -> None:
    for held in released:
        held.wait.settle(True)
