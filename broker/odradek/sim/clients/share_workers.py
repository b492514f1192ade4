"""Consume, transform, produce over a share group (KIP-1289): a record is acknowledged in the transaction of its copy.

A worker is a member of the group and a producer. It copies what it acquires to another topic, acknowledges it in the
same transaction, and commits, aborts, leaves or dies. `odradek.sim.checks.share_work` checks that each record has one
copy in the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from itertools import count
from typing import TypeVar

from msgspec import Struct

from odradek.releases.dialects.kip_1289.producer import SharingProducer
from odradek.releases.dialects.producer import Ask as Wanted
from odradek.releases.dialects.producer import Pause, Refusal, Steps, run_by
from odradek.releases.dialects.share_consumer import ShareConsumer, SharedRecord
from odradek.sim.clients.dialect_producers import place_of
from odradek.sim.clients.directories import Images
from odradek.sim.world.actors import Ask, AskAll, Script, Sleep
from odradek.sim.world.dice import Dice
from odradek.sim.world.world import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

__all__ = ["COPIES", "SHARE_WORK_CONFIG", "ShareWorker", "Worked", "share_work_settings"]

T = TypeVar("T")
TOPIC, COPIES = "t", "copies"
GROUP = "share-workers"
DELIVERIES_MAX = 25
"""As many as Kafka allows: an abort uses one up, and a lock that ends at the limit archives the record."""
HEARTBEAT_MS = 300
WAIT_MS = 100
IDLE_MS = 6_000
GROUP_RESOURCE = 32
DEAD = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})
"""Errors after which a member joins anew."""
SHARE_WORK_CONFIG: dict[str, object] = {"group.share.max.delivery.count.limit": DELIVERIES_MAX}
"""Settings of the brokers, besides those of any share group of a run."""


def share_work_settings() -> IncrementalAlterConfigsRequest:
    """Make the group read committed records from the earliest offset on, and deliver them often."""
    configs = {
        "share.isolation.level": "read_committed",
        "share.auto.offset.reset": "earliest",
        "share.delivery.count.limit": str(DELIVERIES_MAX),
    }
    altered = [AlterableConfig(name=name, value=value) for name, value in configs.items()]
    group = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=altered)
    return IncrementalAlterConfigsRequest(resources=[group])


class Worked(Struct):
    """A record that a worker acquired; times are virtual milliseconds."""

    record: SharedRecord
    asked_at: int
    committed_at: int | None = None
    """When the commit of its transaction was confirmed."""


class _Dies(Exception):
    """The worker vanishes without a request."""


class ShareWorker:
    """Plays one worker after the other, all with one transactional id."""

    def __init__(
        self, world: World, name: str, *, seed: str, level: int, timeout_ms: int, goes_on: Callable[[], bool]
    ) -> None:
        self.world = world
        self.name = name
        self.worked: list[Worked] = []
        self.lost: Counter[int] = Counter()
        """Number of polls that may have acquired records without an answer, by partition."""
        self.stopping = False
        self._goes_on = goes_on
        self._random = Dice(seed)
        self._directory = Images(world, lambda: self._random)
        self._level = level
        self._timeout_ms = timeout_ms
        self._last_news = 0

    def script(self) -> Script:
        """The script of the client, until there are no records left."""
        for number in count():
            try:
                if (yield from self._live(ShareConsumer(GROUP, [TOPIC], f"{self.name}-{number}", records_max=5))):
                    return
            except (_Dies, Refusal):
                yield Sleep(self._random.randint(10, 300))

    def _live(self, member: ShareConsumer) -> Script:
        """Be one worker; True if there are no records left."""
        self._last_news = self.world.now
        producer = yield from self._started()
        beats_at = self.world.now
        while True:
            if self.world.now >= beats_at:
                yield from self._run(member.heartbeat())
                beats_at = self.world.now + HEARTBEAT_MS
            asked_at = self.world.now
            records = yield from self._run(member.poll(WAIT_MS))
            self.lost.update(index for _, index in member.missed)
            worked = [Worked(record, asked_at) for record in records]
            self.worked += worked
            if worked:
                self._last_news = self.world.now
                producer = yield from self._work(producer, member, worked)
            elif self.stopping and self.world.now - self._last_news > IDLE_MS:
                yield from self._run(member.leave())
                return True
            yield Sleep(self._random.choice((0, 5, 30)))

    def _started(self) -> Script:
        release = self.world.config.release
        producer = SharingProducer(
            release,
            f"share-{self.name}",
            timeout_ms=self._timeout_ms,
            level=self._level,
            now=lambda: self.world.now,
        )
        yield from self._run(producer.init())
        return producer

    def _work(self, producer: SharingProducer, member: ShareConsumer, worked: list[Worked]) -> Script:
        """Copy the records in a transaction, and acknowledge them in it; the producer to go on with."""
        mood = self._random.random() if self._goes_on() else 1.0
        try:
            for each in worked:
                record = each.record
                yield from self._run(producer.send(COPIES, record.partition[1], record.value or b""))
                member.acknowledge(record)
            if mood < 0.05:
                raise _Dies
            yield from self._run(producer.acknowledge(member.for_transaction(), member.metadata))
            if mood < 0.15:
                yield Sleep(self._random.randint(10, 2_000))
            if mood < 0.2:
                raise _Dies
            if mood < 0.25:
                yield from self._run(member.leave())
            commits = mood >= 0.35
            yield from self._run(producer.end(commit=commits))
        except Refusal as refusal:
            member.for_transaction()
            if refusal.error in DEAD:
                raise
            return (yield from self._recovered(producer, refusal))
        if commits:
            for each in worked:
                each.committed_at = self.world.now
        if mood < 0.25:
            raise _Dies
        return producer

    def _recovered(self, producer: SharingProducer, refusal: Refusal) -> Script:
        """Abort what was refused; after a fatal error begin with a new epoch, which aborts it as well."""
        if not refusal.is_fatal:
            try:
                yield from self._run(producer.end(commit=False))
                return producer
            except Refusal:
                pass
        return (yield from self._started())

    def _run(self, steps: Steps[T]) -> Generator[Sleep | Ask | AskAll, object, T]:
        return run_by(self._serve, steps)

    def _serve(self, step: Wanted | Pause) -> Generator[Sleep | Ask | AskAll, object, object]:
        if isinstance(step, Pause):
            yield Sleep(self._random.randint(5, 100))
            return None
        node_id = yield from place_of(step, self._directory)
        return None if node_id < 0 else (yield Ask(node_id, step.request, step.version))
