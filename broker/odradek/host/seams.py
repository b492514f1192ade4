"""What the parts of a node may touch of it, one piece at a time.

Each module that takes the node says at its head which pieces it takes, and calls their sum `Node`:

    class Node(HasClock, HasMetadata, Protocol):
        \"\"\"What these routes touch of their broker.\"\"\"

The pieces here are what every part may take; a part that is made of others has its piece beside it (`HasPeers` in
`host/peers.py`), so that nobody imports what is above him. `broker.py` puts all of them together, and imports them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.core.flow import Kernel, Purgatory
    from odradek.core.timers import Pumps, Timers
    from odradek.core.turns import Turns
    from odradek.data.fetch_sessions import FetchSessions
    from odradek.host.cluster_spec import ClusterSpec
    from odradek.host.counters import Counters
    from odradek.host.facts import Certificates, Facts, Logger
    from odradek.log.log_store import LogStore
    from odradek.log.partition import Partition
    from odradek.metadata.image import MetadataImage
    from odradek.releases import Release
    from odradek.share.sessions import ShareSessions
    from odradek.txn.rules import Rules

__all__ = [
    "Appends",
    "HasAppends",
    "HasClock",
    "HasConfig",
    "HasCertificates",
    "HasCounters",
    "HasFacts",
    "HasFetchSessions",
    "HasIdentity",
    "HasKernel",
    "HasLedShares",
    "HasLog",
    "HasMetadata",
    "HasPartitions",
    "HasPumps",
    "HasPurgatory",
    "HasRules",
    "HasStaticConfig",
    "HasStore",
    "HasTimers",
    "HasTurns",
    "LedShares",
]


class HasClock(Protocol):
    """The time of the step, in milliseconds."""

    @property
    def now(self) -> int: ...


class HasIdentity(Protocol):
    """Who the broker is, and in which cluster."""

    @property
    def node_id(self) -> int: ...
    @property
    def cluster(self) -> ClusterSpec: ...


class HasConfig(Protocol):
    """The configuration as it is now, and the release that the broker is served as."""

    @property
    def config(self) -> Config: ...
    @property
    def release(self) -> Release: ...


class HasCertificates(Protocol):
    """What its listeners show; None where nobody has given it any."""

    @property
    def certificates(self) -> Certificates | None: ...


class HasStaticConfig(Protocol):
    """The configuration that the broker was started with."""

    @property
    def static_config(self) -> Config: ...


class HasMetadata(Protocol):
    """The metadata that this broker has published to itself."""

    @property
    def image(self) -> MetadataImage: ...


class HasRules(Protocol):
    """The tables of transactions."""

    @property
    def rules(self) -> Rules: ...


class HasPartitions(Protocol):
    """The partitions that the broker leads, or believes to lead still, by topic and index."""

    @property
    def partitions(self) -> dict[tuple[str, int], Partition]: ...


class HasStore(Protocol):
    """The logs of the cluster."""

    @property
    def store(self) -> LogStore: ...


class HasKernel(Protocol):
    """Flows: to start them, to wait in them."""

    @property
    def kernel(self) -> Kernel: ...


class HasTimers(Protocol):
    """Calls at a time."""

    @property
    def timers(self) -> Timers: ...


class HasTurns(Protocol):
    """Giving way to others."""

    @property
    def turns(self) -> Turns: ...


class HasPurgatory(Protocol):
    """Waiting for something to happen."""

    @property
    def purgatory(self) -> Purgatory: ...


class HasPumps(Protocol):
    """Having something looked at again before the step ends."""

    @property
    def pumps(self) -> Pumps: ...


class HasFacts(Protocol):
    """Telling the event log."""

    @property
    def facts(self) -> Facts: ...


class HasLog(Protocol):
    """Telling the operator."""

    @property
    def log(self) -> Logger: ...


class HasFetchSessions(Protocol):
    """What consumers read, and were told last."""

    @property
    def fetch_sessions(self) -> FetchSessions: ...


class HasCounters(Protocol):
    """Counting."""

    @property
    def metrics(self) -> Counters: ...


class LedShares(Protocol):
    """The share partitions of what the broker leads, as those need to know them who give leadership up."""

    def resign(self, partition: Partition) -> None:
        """Leadership is gone."""


class HasLedShares(Protocol):
    """What share groups read here, if any does."""

    @property
    def has_shares(self) -> bool: ...
    @property
    def shares(self) -> LedShares: ...


class SessionsOfShares(Protocol):
    """The share partitions of a broker, as those need to know them who look at sessions of members."""

    @property
    def sessions(self) -> ShareSessions: ...


class HasShareSessions(Protocol):
    """What members of share groups read here, if any does."""

    @property
    def has_shares(self) -> bool: ...
    @property
    def shares(self) -> SessionsOfShares: ...


class Appends(Protocol):
    """The hosted replicas, as those need to know them who append to one."""

    def appended(self, partition: Partition) -> None:
        """Something was appended: wake who waits for it, fold where a machine does what is committed."""


class HasAppends(Protocol):
    """Saying that something was appended."""

    @property
    def replicas(self) -> Appends: ...
