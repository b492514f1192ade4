"""A dialect declares its step around an endpoint at the function that performs it.

    @overlay(END_TXN, since=6)
    async def end_txn(
        node: Node, call: Call[EndTxnRequest], serve: Serve[EndTxnRequest, EndTxnResponse]
    ) -> EndTxnResponse: ...

`serve` is the endpoint, or the step of the dialect below. The step may call it once, never, or more often.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from msgspec import Struct

from odradek.host.call import Call, Serve
from odradek.wire.api import Api
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.releases.release import Release

__all__ = ["Overlay", "Overlays", "overlay", "overlays_of"]

N = TypeVar("N")
Q = TypeVar("Q", bound=Struct)
R = TypeVar("R", bound="Struct | None")
Step: TypeAlias = Callable[[N, Call[Q], Serve[Q, R]], Coroutine[object, None, R]]


class Overlay(Struct, frozen=True):
    """A step around the versions of an API from `since` on."""

    api_key: ApiKey
    step: Callable[..., Coroutine[object, None, Struct | None]]
    """Takes the node, the call, and the function below it."""
    since: int

    def over(self, node: object, serve: Serve) -> Serve:
        """A function that serves a call by this step, with `serve` below it."""
        return lambda call: self.step(node, call, serve)


class Overlays(Struct, frozen=True):
    """The steps of a dialect and of the dialects below it, lowest first."""

    steps: Mapping[ApiKey, Sequence[Overlay]] = {}

    def laid_over(self, own: Sequence[Overlay]) -> Overlays:
        """These steps with those of another dialect above them."""
        steps = dict(self.steps)
        for each in own:
            steps[each.api_key] = (*steps.get(each.api_key, ()), each)
        return Overlays(steps)


NONE = Overlays()


def overlay(api: Api[Q, R], *, since: int = 0) -> Callable[[Step[N, Q, R]], Step[N, Q, R]]:
    """Declare that a function is a step around this API, from version `since` on."""

    def declare(step: Step[N, Q, R]) -> Step[N, Q, R]:
        vars(step)["overlay"] = Overlay(api.key, step, since)
        return step

    return declare


def overlays_of(release: Release) -> Overlays:
    """The steps of a dialect; none for a release of Kafka."""
    return release.part(Overlays) or NONE
