"""The parts of a broker that any subject may use: time, flows, configuration, metadata, logs, and reports.

`odradek.broker.Node` is a host with all subjects. Families of APIs, coordinators and connections get the host, and each
other part that they use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.core.clock import Clock
from odradek.core.flow import Kernel, Purgatory
from odradek.core.timers import Alarm, Pumps, Timers
from odradek.core.turns import Turns
from odradek.host.aside import Aside
from odradek.host.counters import Counters
from odradek.host.facts import Facts
from odradek.host.loggers import Loggers
from odradek.host.metadata import Metadata
from odradek.host.outbox import Outbox
from odradek.host.settings import Settings
from odradek.metadata.image import EMPTY
from odradek.wire.codecs import PLAIN

if TYPE_CHECKING:
    from msgspec import Struct

    from odradek.access.authority import Authority
    from odradek.config.table import Config
    from odradek.core.clock import Rng
    from odradek.host.call import Call
    from odradek.host.cluster_spec import ClusterSpec
    from odradek.host.facts import Certificates, EventSink
    from odradek.host.loggers import Logger
    from odradek.log.log_store import LogStore
    from odradek.log.partition import Partition
    from odradek.metadata.image import MetadataImage

__all__ = ["Host"]


class Host(ABC):
    """A broker without its subjects."""

    def __init__(
        self,
        *,
        node_id: int,
        config: Config,
        store: LogStore,
        cluster: ClusterSpec,
        random: Rng,
        log: Logger,
        now: int,
        events: EventSink | None = None,
        calls_itself: bool = False,
        encodes: bool = False,
        secrets: Rng | None = None,
    ) -> None:
        self.node_id = node_id
        self.cluster = cluster
        self.store = store
        """The logs of the cluster."""
        self.random = random
        self.secrets = secrets or random
        """Random numbers that must be unpredictable."""
        self.calls_itself = calls_itself
        """Whether requests of the broker to itself are served in the same step, without bytes."""
        self.encodes = encodes
        """Whether brokers send each other bytes, as over a socket, rather than messages."""
        self.thread_clock: Callable[[], int] = no_time
        """Work time of the broker's thread (ns); the driver may set a clock."""
        self.certificates: Certificates | None = None
        """The listeners' certificates; set by the driver."""
        self.clock = Clock(now)
        self.settings = Settings(config)
        self.release = config.release
        self.codecs = self.release.codecs or PLAIN
        self.metadata = Metadata(EMPTY)
        self.log = Loggers(log)
        self.facts = Facts(node_id, self.log, events)
        self.counters = Counters()
        self.outbox = Outbox()
        self.alarm = Alarm()
        self.kernel = Kernel(self.alarm)
        self.timers = Timers(self.alarm)
        self.turns = Turns(self.kernel)
        self.aside = Aside(self.kernel)
        self.pumps = Pumps(self.timers)
        self.purgatory = Purgatory(self.kernel)
        self.partitions: dict[tuple[str, int], Partition] = {}
        """The partitions that the broker leads, or believes to lead, by topic and index."""
        self.authority = _authority(config, self.metadata, self.settings)
        """The authorizer; None if everybody may do everything."""

    @abstractmethod
    def family(self, name: str) -> object:
        """The family of APIs of this name (`odradek.host.served`), made with its first request."""

    @abstractmethod
    def in_full(self, call: Call) -> Struct:
        """The request with all partitions of its session (KIP-227, KIP-932)."""

    @property
    def config(self) -> Config:
        """The current configuration."""
        return self.settings.config

    @property
    def image(self) -> MetadataImage:
        """The metadata image that the broker has published."""
        return self.metadata.image


def no_time() -> int:
    """The clock of a broker whose thread is not measured."""
    return 0


def _authority(config: Config, metadata: Metadata, settings: Settings) -> Authority | None:
    security = config.security()
    if not security.authorizer_class_name:
        return None
    from odradek.access.authority import Authority  # most clusters have none

    return Authority(security, metadata=metadata, settings=settings)
