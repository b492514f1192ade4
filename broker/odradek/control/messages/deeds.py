"""Bodies and answers about actions on a cluster."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from odradek.control.messages.common import Body, BrokerId, Unclean, View

__all__ = [
    "AdvertiseBody",
    "AlterConfigs",
    "CoordinatorLoad",
    "EpochBody",
    "LevelBody",
    "MoveCoordinator",
    "MoveLeader",
    "Moved",
    "ReleaseBody",
    "Released",
    "StopBody",
    "TimeBody",
    "TimeView",
    "Verdict",
]


class AdvertiseBody(Body):
    """The advertised address of a broker; the address on which it listens stays."""

    port: Annotated[int, Meta(ge=1, le=65535)]
    host: Annotated[str, Meta(min_length=1, description="The host; else it stays.")] | None = None
    listener: Annotated[str, Meta(description="Of this listener; else of the first.")] | None = None


class StopBody(Body):
    """How a broker goes."""

    cleanly: Annotated[
        bool,
        Meta(
            description="In a controlled shutdown: it stays eligible as a leader (KIP-966). Else as if its machine were"
            " gone, and it is not believed to have what it had when it comes back."
        ),
    ] = False
    fence_after_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=2147483647,
            description="So many milliseconds later the controller notices the crash. Until then Metadata and"
            " FindCoordinator name the broker, which refuses connections. Not with `cleanly`.",
        ),
    ] = 0


class MoveLeader(Body):
    """Another leader for a partition, or the same one in a new leader epoch; the next in sync if none is named."""

    to: BrokerId | None = None
    unclean: Unclean = False


class MoveCoordinator(Body):
    """Another coordinator; the next broker in sync if none is named."""

    to: BrokerId | None = None
    unclean: Unclean = False


class Moved(View):
    """The broker that it is now."""

    broker: int


class EpochBody(Body):
    """The producer epoch that an idle transactional id gets."""

    epoch: Annotated[int, Meta(ge=0, le=32767)]


class LevelBody(Body):
    """The finalized level of a feature."""

    level: Annotated[int, Meta(ge=0)]


class AlterConfigs(Body):
    """Configs of a topic, a group or a broker, or of all brokers if none is named; null takes one back."""

    configs: dict[str, str | int | float | bool | None]
    topic: str | None = None
    group: str | None = None
    broker: BrokerId | None = None


class CoordinatorLoad(Body):
    """How long coordinators take to load from now on."""

    load_ms: Annotated[int, Meta(ge=0, le=2147483647)]


class TimeBody(Body):
    """One or several, done in this order: freeze, advance, resume."""

    freeze: bool = False
    advance_ms: Annotated[int, Meta(ge=0, le=1 << 62)] = 0
    resume: bool = False


class TimeView(View):
    """The brokers' clock."""

    now_ms: int
    ahead_ms: int
    """Difference to the machine's clock in ms; below 0 after the clock was stopped."""
    frozen: bool


class ReleaseBody(Body):
    """How many of the requests that a rule holds are served, the longest held first; all if it is not said."""

    count: Annotated[int, Meta(ge=1)] | None = None


class Released(View):
    """How many were released."""

    released: int


class Verdict(View):
    """The state of the rules' expectations."""

    unmet: list[str]
    """A sentence for each expectation that is not met."""
