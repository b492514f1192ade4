"""The order in which Kafka's hash maps and heaps list equals.

Kafka's assignors decide ties by the order in which Java lists the entries of its maps, and by how its heap moves
equals about; and of several wrong things in a request it tells the one that its map lists first. What is assigned and
told here is to be the same as there, so that the ties are decided alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

__all__ = ["Heap", "hash_order"]

T = TypeVar("T")

_MASK = 0xFFFF_FFFF
DEFAULT_CAPACITY = 16


def hash_order(keys: Iterable[str], capacity: int = DEFAULT_CAPACITY) -> list[str]:
    """The keys as a `HashMap` that began with this capacity lists them, if they were put in as they come here."""
    listed = list(dict.fromkeys(keys))
    size = 1
    while size < capacity:
        size *= 2
    while len(listed) > size * 3 / 4:
        size *= 2
    return sorted(listed, key=lambda key: _spread(key) & (size - 1))


def _spread(key: str) -> int:
    code = 0
    data = key.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        code = (31 * code + (data[at] << 8) + data[at + 1]) & _MASK
    return code ^ (code >> 16)


class Heap(Generic[T]):
    """A binary heap that decides between equals as `java.util.PriorityQueue` does."""

    def __init__(self, weight: Callable[[T], float], items: Iterable[T] = ()) -> None:
        self._weight = weight
        self._items: list[T] = []
        for item in items:
            self.add(item)

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, item: T) -> None:
        """Put an item in; its weight must not change while it is."""
        items, weight = self._items, self._weight(item)
        items.append(item)
        at = len(items) - 1
        while at and weight < self._weight(items[(at - 1) // 2]):
            items[at] = items[(at - 1) // 2]
            at = (at - 1) // 2
        items[at] = item

    def poll(self) -> T:
        """Take out the lightest."""
        items = self._items
        first, last = items[0], items.pop()
        if not items:
            return first
        weight, at = self._weight(last), 0
        while (child := 2 * at + 1) < len(items):
            if child + 1 < len(items) and self._weight(items[child + 1]) < self._weight(items[child]):
                child += 1
            if weight <= self._weight(items[child]):
                break
            items[at] = items[child]
            at = child
        items[at] = last
        return first
