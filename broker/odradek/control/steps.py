"""The steps in a rule's `then`, taken on the cluster after a hit, between the steps of its brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from odradek.control.controls import Controls
from odradek.core.internal_topics import CoordinatorKind
from odradek.metadata.features import TRANSACTION_VERSION
from odradek.net.outside import deed

if TYPE_CHECKING:
    from odradek.faults.armed import Armed, SeenRequest
    from odradek.faults.model import Rule, Step
    from odradek.net.cluster import RunningCluster

__all__ = ["add_rules"]


@deed
def add_rules(cluster: RunningCluster, rules: list[Rule]) -> list[Armed]:
    """Apply rules to a real cluster, where their steps can be taken. Raises `RuleError` and applies none."""
    if cluster.rules.carry_out is None:
        cluster.rules.carry_out = _Following(cluster).later
    return cluster.rules.add(rules)


class _Following:
    """Takes the steps of rules on one cluster."""

    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster = cluster
        self._controls = Controls(cluster)
        self._does: Mapping[str, Callable[[Step, SeenRequest], object]] = {
            "release": lambda step, _: self._release(step),
            "remove": lambda step, _: self._remove(step),
            "move_leader": self._move_leader,
            "move_transaction_coordinator": self._move_transaction_coordinator,
            "move_group_coordinator": self._move_group_coordinator,
            "restart_broker": self._restart_broker,
            "stop_broker": self._stop_broker,
            "start_broker": lambda step, _: self._controls.start_broker(step.start_broker or 0),
            "set_producer_epoch": self._set_producer_epoch,
            "set_transaction_version": lambda step, _: self._set_transaction_version(step),
            "set_coordinator_load_ms": lambda step, _: self._set_load_ms(step),
            "advance_ms": lambda step, _: self._cluster.advance(step.advance_ms or 0),
        }

    def later(self, steps: Sequence[Step], request: SeenRequest) -> None:
        """Take them in the next turn of the loop: a broker is in the middle of the request now."""
        self._cluster.outside.calls.call_soon(self._follow, steps, request)

    def _follow(self, steps: Sequence[Step], request: SeenRequest) -> None:
        for step in steps:
            try:
                self._does[step.given[0]](step, request)
            except (LookupError, RuntimeError, ValueError) as error:
                self._cluster.rules.failures.append(error)
                self._cluster.log.error("rule_failed", step=step.given[0], error=str(error))

    def _release(self, step: Step) -> None:
        for armed in self._named(step.release):
            self._cluster.rules.release(armed)

    def _remove(self, step: Step) -> None:
        for armed in self._named(step.remove):
            self._cluster.rules.remove(armed)

    def _named(self, name: str | None) -> list[Armed]:
        """The rule of this name. It existed when the step was made; if it was removed since, it holds nothing."""
        return [armed for armed in self._cluster.rules if armed.name == name]

    def _move_leader(self, step: Step, request: SeenRequest) -> None:
        topic, partition = str(_first(request, "topic")), int(_first(request, "partition"))
        self._controls.move_leader(topic, partition, to=_named(step.move_leader))

    def _move_transaction_coordinator(self, step: Step, request: SeenRequest) -> None:
        key = str(_first(request, "transactional_id"))
        self._controls.move_coordinator(CoordinatorKind.TRANSACTION, key, to=_named(step.move_transaction_coordinator))

    def _move_group_coordinator(self, step: Step, request: SeenRequest) -> None:
        to = _named(step.move_group_coordinator)
        self._controls.move_coordinator(CoordinatorKind.GROUP, str(_first(request, "group")), to=to)

    def _restart_broker(self, step: Step, request: SeenRequest) -> None:
        broker = _broker(step.restart_broker, request)
        self._controls.stop_broker(broker)
        self._controls.start_broker(broker)

    def _stop_broker(self, step: Step, request: SeenRequest) -> None:
        self._controls.stop_broker(_broker(step.stop_broker, request), fence_after_ms=step.fence_after_ms or 0)

    def _set_producer_epoch(self, step: Step, request: SeenRequest) -> None:
        self._controls.set_producer_epoch(str(_first(request, "transactional_id")), step.set_producer_epoch or 0)

    def _set_transaction_version(self, step: Step) -> None:
        self._controls.set_feature(TRANSACTION_VERSION, step.set_transaction_version or 0)

    def _set_load_ms(self, step: Step) -> None:
        self._controls.set_coordinator_load_ms(step.set_coordinator_load_ms or 0)


def _broker(named: int | Literal["asked"] | None, request: SeenRequest) -> int:
    return request.broker if named == "asked" else int(named or 0)


def _named(to: int | Literal["next"] | None) -> int | None:
    return to if isinstance(to, int) else None


def _first(request: SeenRequest, kind: str) -> str | int:
    """The first id of this kind in the request."""
    found = request.ids.get(kind)
    if not found:
        raise LookupError(f"{request} carries no {kind}")
    return found[0]
