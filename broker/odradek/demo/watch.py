"""Checks of a consumer that do not need to know which transactions were committed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from msgspec import Struct

from odradek.demo.lines import Seen
from odradek.demo.transfers import NEVER_COMMITTED

__all__ = ["Watch"]

TRANSFERS_MAX = 100_000


class _Transfer(Struct):
    missing: set[int]
    sum: int = 0


class Watch:
    """Checks every record of a consumer; keeps the last `TRANSFERS_MAX` transfers."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self._transfers: OrderedDict[str, _Transfer] = OrderedDict()

    @property
    def incomplete(self) -> int:
        """Transfers of which a part was not read yet."""
        return sum(1 for transfer in self._transfers.values() if transfer.missing)

    def see(self, seen: Seen) -> Iterator[str]:
        """Sentences about faults of a record."""
        posting = seen.posting
        name = f"part {posting.part} of transfer {posting.transfer} ({seen.partition}@{seen.offset})"
        if seen.offset < self._next.get(seen.partition, 0):
            yield f"{name} was read after offset {self._next[seen.partition] - 1}"
        self._next[seen.partition] = seen.offset + 1
        if posting.fate in NEVER_COMMITTED:
            yield f"{name} was never committed: {posting.fate}"
        transfer = self._remember(posting.transfer, posting.parts)
        if posting.part not in transfer.missing:
            yield f"{name} was read twice"
            return
        transfer.missing.remove(posting.part)
        transfer.sum += posting.amount
        if not transfer.missing and transfer.sum != 0:
            yield f"the amounts of transfer {posting.transfer} add up to {transfer.sum}"

    def _remember(self, name: str, parts: int) -> _Transfer:
        transfer = self._transfers.get(name)
        if transfer is None:
            transfer = self._transfers[name] = _Transfer(set(range(parts)))
            if len(self._transfers) > TRANSFERS_MAX:
                self._transfers.popitem(last=False)
        return transfer
