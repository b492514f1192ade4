"""Measures of usage: a rate over sampled windows, and a token bucket; the arithmetic is Kafka's, to the millisecond.

Every call passes the time (ms); the state is a few numbers.
"""

from __future__ import annotations

import math

from msgspec import Struct

__all__ = ["Rate", "TokenBucket", "Windows", "as_int", "rounded"]

LONG_MAX = 2**63 - 1


class Windows(Struct, frozen=True):
    """The windows of a measurement: their number and length."""

    number: int = 11
    length_ms: int = 1000

    @property
    def burst_s(self) -> float:
        """For how many seconds a bucket of tokens is filled at most."""
        return self.number * (self.length_ms / 1000)


class _Sample(Struct):
    began_ms: int
    last_ms: int
    value: float = 0.0
    events: int = 0

    def begin(self, now: int) -> None:
        self.began_ms = self.last_ms = now
        self.value, self.events = 0.0, 0


class Rate:
    """Usage per second, over the full windows and the current one."""

    __slots__ = ("_current", "_samples")

    def __init__(self) -> None:
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, windows: Windows, value: float, now: int) -> None:
        """Add to the window of this time; a negative value takes back."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now, now))
        sample = samples[self._current]
        if now - sample.began_ms >= windows.length_ms:
            sample = self._next(windows, now)
        sample.value += value
        sample.events += 1
        sample.last_ms = now

    def _next(self, windows: Windows, now: int) -> _Sample:
        # One more than there are windows, so that the oldest is whole until it no longer counts.
        self._current = (self._current + 1) % (windows.number + 1)
        if self._current >= len(self._samples):
            self._samples.append(_Sample(now, now))
        else:
            self._samples[self._current].begin(now)
        return self._samples[self._current]

    def measure(self, windows: Windows, now: int) -> float:
        """The rate."""
        self._forget(windows, now)
        total = 0.0
        for sample in self._samples:
            total += sample.value
        return total / (self.size_ms(windows, now) / 1000)

    def size_ms(self, windows: Windows, now: int) -> int:
        """Over how long it is measured: since the oldest sample, or as if the windows before were full."""
        self._forget(windows, now)
        began = min((sample.began_ms for sample in self._samples), default=now)
        passed = now - began
        missing = windows.number - 1 - passed // windows.length_ms
        if missing > 0:
            passed += missing * windows.length_ms
        return max(passed, 1)

    def throttle_ms(self, windows: Windows, limit: float, now: int) -> int:
        """How long to wait until the rate is down at the limit; 0 where it is not above it."""
        rate = self.measure(windows, now)
        if rate <= limit:
            return 0
        return rounded((rate - limit) / limit * self.size_ms(windows, now) if limit else math.inf)

    def _forget(self, windows: Windows, now: int) -> None:
        oldest = windows.number * windows.length_ms
        for sample in self._samples:
            if now - sample.last_ms >= oldest:
                sample.begin(now)


class TokenBucket:
    """Tokens arrive at the limit's rate. A client without debt may spend any number, and so get into debt."""

    __slots__ = ("_at_ms", "_tokens")

    def __init__(self) -> None:
        self._tokens = 0.0
        self._at_ms = 0

    def record(self, windows: Windows, limit: float, value: float, now: int) -> None:
        """Spend."""
        self._fill(windows, limit, now)
        self._tokens = min(windows.burst_s * limit, self._tokens - value)

    def throttle_ms(self, windows: Windows, limit: float, now: int) -> int:
        """How long to wait until no token is owed; 0 where none is."""
        self._fill(windows, limit, now)
        return rounded(-self._tokens / limit * 1000) if self._tokens < 0 else 0

    def _fill(self, windows: Windows, limit: float, now: int) -> None:
        come = limit * ((now - self._at_ms) / 1000)
        self._tokens = min(windows.burst_s * limit, self._tokens + come)
        self._at_ms = now


def rounded(value: float) -> int:
    """To the nearest whole number, halves up, as Java rounds: no further than a long goes."""
    return math.floor(value + 0.5) if value < LONG_MAX else LONG_MAX


def as_int(value: int) -> int:
    """The lowest 32 bits of a long, as Java narrows it."""
    return (value + 2**31) % 2**32 - 2**31
