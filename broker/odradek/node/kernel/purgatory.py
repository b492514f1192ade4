"""Where requests wait for something to happen: by key, with a deadline.

Keys say what is waited for: a partition that becomes readable, a transactional id that is verified.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.node.kernel.flow import Kernel, Wait

__all__ = ["Purgatory"]


class Purgatory:
    """Waits by key; a wait under several keys leaves all of them when the first one wakes it."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.waits: dict[Hashable, dict[int, Wait[Any]]] = {}
        """Who waits, by key; empty where nobody has to be woken."""

    def __len__(self) -> int:
        return sum(len(waits) for waits in self.waits.values())

    def park(self, keys: Iterable[Hashable], *, deadline: int | None) -> Parking:
        """A wait that `wake` of any of the keys settles with its value, and the deadline (ms) with None."""
        return Parking(self, tuple(keys), self._kernel.wait(deadline=deadline))

    def wake(self, key: Hashable, value: object = True) -> None:
        """Settle every wait under this key."""
        waits = self.waits.pop(key, None)
        if waits is not None:
            for wait in waits.values():
                wait.settle(value)

    def keys_of(self, wait: object) -> list[Hashable]:
        """What this wait waits for; looks at every wait that there is."""
        return [key for key, waits in self.waits.items() if id(wait) in waits]

    def _enter(self, keys: tuple[Hashable, ...], wait: Wait[Any]) -> None:
        for key in keys:
            self.waits.setdefault(key, {})[id(wait)] = wait

    def _leave(self, keys: tuple[Hashable, ...], wait: Wait[Any]) -> None:
        for key in keys:
            waits = self.waits.get(key)
            if waits is not None and waits.pop(id(wait), None) is not None and not waits:
                del self.waits[key]


class Parking:
    """One stay in the purgatory: `async with`-free, so that a flow reads `await parking` and leaves every key."""

    __slots__ = ("_keys", "_purgatory", "_wait")

    def __init__(self, purgatory: Purgatory, keys: tuple[Hashable, ...], wait: Wait[Any]) -> None:
        self._purgatory = purgatory
        self._keys = keys
        self._wait = wait
        purgatory._enter(keys, wait)

    def __await__(self) -> Any:
        try:
            yield from self._wait.__await__()
        finally:
            self._purgatory._leave(self._keys, self._wait)
        return self._wait.value
