"""The usage of one limit by all clients, and the throttle times of those above it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from odradek.limits.precedence import Limits, Sharers
from odradek.limits.windows import Rate, TokenBucket, Windows

if TYPE_CHECKING:
    from odradek.metadata.image import QuotaEntity

__all__ = ["Kept", "Throttles", "Tokens", "Usage"]

FORGOTTEN_AFTER_MS = 3_600_000
"""The usage of a client is forgotten after this time without any."""
THROTTLED_MAX = 1000
THROTTLE_MS_MAX = 2**31 - 1
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Counted usage by client; it is forgotten when it was not read for an hour."""

    def __init__(self, make: type[V]) -> None:
        self._make = make
        self._kept: dict[K, V] = {}
        """In the order in which they were read last."""
        self._asked_at: dict[K, int] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def at(self, key: K, now: int) -> V:
        """The counter of this client; a new one if there was none."""
        asked = self._asked_at
        asked.pop(key, None)
        asked[key] = now
        while now - asked[first := next(iter(asked))] >= FORGOTTEN_AFTER_MS:
            del asked[first], self._kept[first]
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = self._make()
        return kept


class Throttles:
    """Number and sum of throttle times of the clients that share a limit; both only grow."""

    def __init__(self) -> None:
        self.by_sharers: dict[Sharers, tuple[int, int]] = {}
        """Number and sum (ms); beyond a thousand the further ones stand together under empty names."""

    def note(self, sharers: Sharers, throttle_ms: int) -> None:
        """Somebody has to wait."""
        if sharers not in self.by_sharers and len(self.by_sharers) >= THROTTLED_MAX:
            sharers = ("", "")
        count, total_ms = self.by_sharers.get(sharers, (0, 0))
        self.by_sharers[sharers] = count + 1, total_ms + throttle_ms


class Limited(Generic[V]):
    """A measure for each group of clients that share a limit."""

    def __init__(self, key: str, windows: Windows, make: type[V]) -> None:
        self.key = key
        self._windows = windows
        self._throttles = Throttles()
        self.limits = Limits({}, key)
        self._kept: Kept[Sharers, V] = Kept(make)

    def adopt(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Apply new limits; what was used or spent before still counts."""
        self.limits = Limits(quotas, self.key)

    def throttled(self, user: str, client_id: str, throttle_ms: int) -> None:
        """The client is throttled, or was refused, for its use of this limit."""
        self._throttles.note(self.limits.sharers(user, client_id), throttle_ms)

    def knows(self, sharers: Sharers) -> bool:
        """Whether these clients have used something lately."""
        return sharers in self._kept

    @property
    def throttles(self) -> Mapping[Sharers, tuple[int, int]]:
        """How often and for how long (ms) each had to wait."""
        return self._throttles.by_sharers


class Usage(Limited[Rate]):
    """A rate for each group of clients that share a limit."""

    def __init__(self, key: str, windows: Windows) -> None:
        super().__init__(key, windows, Rate)

    def record(self, user: str, client_id: str, value: float, now: int) -> int:
        """Record usage; returns the throttle time (ms)."""
        if not self.limits:
            return 0
        sharers = self.limits.sharers(user, client_id)
        rate = self._kept.at(sharers, now)
        rate.record(self._windows, value, now)
        limit = self.limits.of(sharers)
        return 0 if limit is None else min(rate.throttle_ms(self._windows, limit, now), THROTTLE_MS_MAX)

    def note(self, user: str, client_id: str, value: float, now: int) -> None:
        """Count usage, or take it back, without a wait."""
        if self.limits:
            self._kept.at(self.limits.sharers(user, client_id), now).record(self._windows, value, now)

    def most(self, user: str, client_id: str) -> int | None:
        """The most usage that fits into the windows if there was none before; None is unlimited."""
        limit = self.limits.of(self.limits.sharers(user, client_id)) if self.limits else None
        return None if limit is None else int(limit * (self._windows.number - 1) * (self._windows.length_ms // 1000))


class Tokens(Limited[TokenBucket]):
    """A token bucket for each group of clients that share a limit."""

    def __init__(self, key: str, windows: Windows) -> None:
        super().__init__(key, windows, TokenBucket)

    def owed_ms(self, user: str, client_id: str, now: int) -> int:
        """For how long nothing more can be spent (ms); 0: something can be."""
        sharers = self.limits.sharers(user, client_id)
        limit = self.limits.of(sharers)
        return 0 if limit is None else self._kept.at(sharers, now).throttle_ms(self._windows, limit, now)

    def spend(self, user: str, client_id: str, value: float, now: int) -> None:
        """Spend, whatever there is."""
        sharers = self.limits.sharers(user, client_id)
        limit = self.limits.of(sharers)
        if limit is not None:
            self._kept.at(sharers, now).record(self._windows, limit, value, now)
