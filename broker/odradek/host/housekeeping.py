"""Periodic work of a node, each chore at its own interval.

Retention, the cleaner and the expiration of producers have an interval each, as in Kafka; the cleaner also deletes from
logs that are compacted and deleted from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.config.keys import LONG_MAX

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.host.exchange import Serving
    from odradek.log.partition import Partition
    from odradek.metadata.controller_role import ControllerRole

__all__ = ["Housekeeping"]


IDLE_SWEEP_MS = 1000
"""Interval of the check for idle connections (ms), or `connections.max.idle.ms` if that is less."""
LOOKED_AT_ONCE = 200
"""Number of partitions that are checked between two turns."""
COMPACT_ON_MS = 5
"""Time between the steps of a large compaction (ms), in which clients are served."""


class Chore(Struct, frozen=True):
    """Periodic work."""

    interval_ms: Callable[[Config], int | None]
    """The interval (ms); None: never."""
    act: Callable[[Housekeeping], None]


class Housekeeping:
    """The chores of one node."""

    def __init__(self, node: Serving, controller: ControllerRole) -> None:
        self._node = node
        self._controller = controller
        self._intervals: dict[str, int | None] = {}
        self._compacting: list[Partition] = []

    def adopt(self) -> None:
        """Plan every chore with a new interval; the others keep their time."""
        for name, chore in CHORES.items():
            interval_ms = chore.interval_ms(self._node.settings.config)
            if name not in self._intervals or self._intervals[name] != interval_ms:
                self._intervals[name] = interval_ms
                self._plan(name)

    def _plan(self, name: str) -> None:
        interval_ms = self._intervals[name]
        at = None if interval_ms is None else self._node.clock.now + max(1, interval_ms)
        self._node.timers.set(name, at, partial(self._do, name))

    def _do(self, name: str) -> None:
        self._plan(name)
        CHORES[name].act(self)

    def hang_up_on_the_idle(self) -> None:
        """Close connections of clients that sent nothing for `connections.max.idle.ms`; so do spare pages go."""
        node = self._node
        node.store.spare.give_back(node.clock.now)
        for connection in list(node.connections.values()):
            silent_ms = node.clock.now - connection.last_active
            if not connection.broker and connection.idle and silent_ms > node.settings.config.connections_max_idle_ms:
                connection.close("idle")

    def retain(self) -> None:
        """Apply retention to logs that are only deleted from."""
        self._node.store.spare.give_back(self._node.clock.now)
        self._look_through(self._retain)

    def _retain(self, partition: Partition) -> None:
        if not partition.config.compacts:
            partition.retain(self._node.clock.now)

    def _look_through(self, look: Callable[[Partition], None]) -> None:
        """Visit all partitions, a few at a time."""
        self._node.kernel.spawn(self._looking(look, list(self._node.partitions.values())))

    async def _looking(self, look: Callable[[Partition], None], every: Sequence[Partition]) -> None:
        node = self._node
        for count, partition in enumerate(every):
            if count and not count % LOOKED_AT_ONCE:
                await node.turns.breathe_behind()
            if node.partitions.get(partition.key) is partition:
                look(partition)

    def flush(self) -> None:
        """Flush logs whose `flush.ms` has passed; the interval of this check is not Kafka's default."""
        self._look_through(lambda partition: partition.log.flush_if_old(self._node.clock.now))

    def clean(self) -> None:
        """Apply retention to compacted logs, and compact those that need it."""
        if self._compacting:
            return  # the pass before is not over
        for partition in self._node.partitions.values():
            if partition.config.compacts:
                partition.retain(self._node.clock.now)
                self._compacting.append(partition)
        self._compact_on()

    def _compact_on(self) -> None:
        """One step of each compaction; between steps clients are served."""
        node = self._node
        led = [each for each in self._compacting if node.partitions.get((each.topic, each.index)) is each]
        self._compacting = [partition for partition in led if partition.compact(node.clock.now)]
        if self._compacting:
            node.timers.set("compact on", node.clock.now + COMPACT_ON_MS, self._compact_on)

    def forget_tokens(self) -> None:
        """Remove expired delegation tokens, if this node is the controller."""
        if self._node.metadata.image.tokens:
            self._controller.forget_tokens()

    def elect_unclean(self) -> None:
        """Elect out-of-sync leaders for partitions without one whose topics allow it, if this node is the
        controller.
        """
        self._controller.elect_unclean()

    def forget_producers(self) -> None:
        """Forget producers that wrote nothing for `producer.id.expiration.ms`."""
        config = self._node.settings.config
        as_ids = self._node.release.producers.kept_as_long_as_ids
        after_ms = config.transactional_id_expiration_ms if as_ids else config.producer_id_expiration_ms
        self._look_through(lambda partition: partition.forget_producers(self._node.clock.now, after_ms=after_ms))


def _idle_sweep_ms(config: Config) -> int | None:
    idle_ms = config.connections_max_idle_ms
    return None if idle_ms < 0 else min(IDLE_SWEEP_MS, idle_ms)


def _flush_check_ms(config: Config) -> int | None:
    interval_ms = config.log_flush_scheduler_interval_ms
    return None if interval_ms == LONG_MAX else interval_ms


def _token_sweep_ms(config: Config) -> int | None:
    settings = config.security()
    secret, interval_ms = settings.delegation_token_secret_key, settings.delegation_token_expiry_check_interval_ms
    return None if secret is None else interval_ms


CHORES: dict[str, Chore] = {
    "idle connections": Chore(_idle_sweep_ms, Housekeeping.hang_up_on_the_idle),
    "retention": Chore(lambda config: config.log_retention_check_interval_ms, Housekeeping.retain),
    "cleaner": Chore(lambda config: config.log_cleaner_backoff_ms, Housekeeping.clean),
    "flush": Chore(_flush_check_ms, Housekeeping.flush),
    "tokens": Chore(_token_sweep_ms, Housekeeping.forget_tokens),
    "unclean elections": Chore(lambda config: config.unclean_leader_election_interval_ms, Housekeeping.elect_unclean),
    "producers": Chore(lambda config: config.producer_id_expiration_check_interval_ms, Housekeeping.forget_producers),
}
