"""The coordinators on this broker: one for each partition of an internal topic that it leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.core.machine import Refused
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.core.flow import Kernel
    from odradek.group.shard import GroupShard
    from odradek.host.metadata import Metadata
    from odradek.log.partition import Partition
    from odradek.share.shard import ShareShard
    from odradek.txn.shard import TransactionShard

__all__ = ["Coordinators", "HasCoordinators"]


class HasCoordinators(Protocol):
    """The coordinators on this broker."""

    @property
    def coordinators(self) -> Coordinators: ...


_GROUPS, _TRANSACTIONS = CoordinatorKind.GROUP.topic, CoordinatorKind.TRANSACTION.topic
_SHARES = CoordinatorKind.SHARE.topic
_LOADING = Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
_NOT_HERE = Refused(ErrorCode.NOT_COORDINATOR)


class Coordinators:
    """Found by the group or the transactional id that they coordinate, or by their partition."""

    def __init__(
        self,
        partitions: Mapping[tuple[str, int], Partition],
        *,
        metadata: Metadata,
        kernel: Kernel,
        groups: Callable[[Partition], GroupShard],
        transactions: Callable[[Partition], TransactionShard],
        shares: Callable[[Partition], ShareShard],
    ) -> None:
        """The last three make a coordinator over a partition; the first of each kind imports its machine."""
        self._partitions = partitions
        self._metadata = metadata
        self._kernel = kernel
        self._make_groups = groups
        self._make_transactions = transactions
        self._make_shares = shares
        self.load_ms = 0
        """How long a coordinator takes to load; tests make it longer."""
        self._groups: dict[int, GroupShard] = {}
        self._transactions: dict[int, TransactionShard] = {}
        self._shares: dict[int, ShareShard] = {}

    # ------------------------------------------------------------------ by key

    def group(self, group_id: str) -> GroupShard | Refused:
        """The coordinator of a group, if it is here and loaded."""
        partition = self._partition(_GROUPS, group_id)
        if partition is None:
            return _NOT_HERE
        shard = self._groups.get(partition.index) or self._begin_groups(partition)
        return _LOADING if shard.loading else shard

    def transactional(self, transactional_id: str) -> TransactionShard | Refused:
        """The coordinator of a transactional id, if it is here and loaded."""
        partition = self._partition(_TRANSACTIONS, transactional_id)
        if partition is None:
            return _NOT_HERE
        shard = self._transactions.get(partition.index) or self._begin_transactions(partition)
        return _LOADING if shard.loading else shard

    def share(self, key: str) -> ShareShard | Refused:
        """The coordinator of a share partition, if it is here and loaded."""
        partition = self._partition(_SHARES, key)
        if partition is None:
            return _NOT_HERE
        shard = self._shares.get(partition.index) or self._begin_shares(partition)
        return _LOADING if shard.loading else shard

    def _partition(self, topic_name: str, key: str) -> Partition | None:
        """The partition that coordinates a key, if this broker leads it.

        Only FindCoordinator says that there is no such topic yet, and has it made. A deposed leader that has not read
        the new metadata must refuse, because its state may be behind.
        """
        topic = self._metadata.image.topics.get(topic_name)
        if topic is None:
            return None
        partition = self._partitions.get((topic_name, partition_for(key, len(topic.partitions))))
        return partition if partition is not None and partition.is_leader else None

    # ------------------------------------------------------------------ all of them

    def of_groups(self) -> list[GroupShard]:
        """Every group coordinator of this broker."""
        return [shard for shard in self._groups.values() if shard.partition.is_leader]

    def of_transactions(self) -> list[TransactionShard]:
        """Every transaction coordinator of this broker."""
        return [shard for shard in self._transactions.values() if shard.partition.is_leader]

    def of_shares(self) -> list[ShareShard]:
        """Every share coordinator of this broker."""
        return [shard for shard in self._shares.values() if shard.partition.is_leader]

    def loading(self) -> int:
        """How many replay their logs."""
        return sum(shard.loading for shard in self._all())

    def _all(self) -> list[GroupShard | TransactionShard | ShareShard]:
        return [*self._groups.values(), *self._transactions.values(), *self._shares.values()]

    # ------------------------------------------------------------------ by partition

    def at(self, topic: str, index: int) -> GroupShard | TransactionShard | ShareShard | None:
        """The coordinator over this partition, if there is one."""
        if topic == _TRANSACTIONS:
            return self._transactions.get(index)
        if topic == _SHARES:
            return self._shares.get(index)
        return self._groups.get(index) if topic == _GROUPS else None

    def begin(self, partition: Partition) -> None:
        """Make the coordinator over a partition of an internal topic, and have it replay its log.

        Until it has, it answers COORDINATOR_LOAD_IN_PROGRESS.
        """
        if partition.topic == _GROUPS:
            self._begin_groups(partition)
        elif partition.topic == _SHARES:
            self._begin_shares(partition)
        else:
            self._begin_transactions(partition)

    def end(self, topic: str, index: int) -> None:
        """Leadership of this partition is gone, and the coordinator over it with it."""
        shard = self.at(topic, index)
        if shard is not None:
            for shards in (self._groups, self._transactions, self._shares):
                if shards.get(index) is shard:
                    del shards[index]
            shard.resign()

    def end_all(self) -> None:
        """The node stops."""
        for shard in self._all():
            shard.resign()

    def _begin_groups(self, partition: Partition) -> GroupShard:
        shard = self._groups[partition.index] = self._make_groups(partition)
        self._load(shard)
        return shard

    def _begin_transactions(self, partition: Partition) -> TransactionShard:
        shard = self._transactions[partition.index] = self._make_transactions(partition)
        self._load(shard)
        return shard

    def _begin_shares(self, partition: Partition) -> ShareShard:
        shard = self._shares[partition.index] = self._make_shares(partition)
        self._load(shard)
        return shard

    def _load(self, shard: GroupShard | TransactionShard | ShareShard) -> None:
        if self.load_ms:
            self._kernel.spawn(self._load_later(shard))
        else:
            shard.load()

    async def _load_later(self, shard: GroupShard | TransactionShard | ShareShard) -> None:
        await self._kernel.sleep(self.load_ms)
        if not shard.resigned:
            shard.load()
