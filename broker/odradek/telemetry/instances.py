"""The clients that ask a broker for subscriptions: the subscription of each, and when it may push again (KIP-714).

A broker keeps the 16384 clients with the latest requests, each until its connection ends or it was silent for three of
its intervals, but at least a minute. The rules against early requests are Kafka's (`ClientMetricsInstance`), with one
surprise: a client that asks again after an error gets an answer, which does not allow a push at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

import crc32c
from msgspec import Struct

from odradek.metadata.client_metrics import ALL_METRICS, INTERVAL_MS_DEFAULT, Subscription
from odradek.wire.errors import ErrorCode

__all__ = ["INSTANCES_MAX", "Client", "Instance", "Instances", "Wanted", "subscription_id", "wanted_of"]

INSTANCES_MAX = 16_384
SILENCE_MS_MIN = 60_000
SILENT_INTERVALS = 3
_NEVER = -(2**62)
_MASK = 0xFFFFFFFF
_SIGN = 1 << 31
_ASKS_AGAIN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""Errors after which a client asks for its subscription at once."""


class Client(Struct, frozen=True):
    """The properties of a client."""

    instance_id: bytes
    facts: Mapping[str, str]
    """By selector."""


class Wanted(Struct, frozen=True):
    """The metrics that a client is to push, by prefixes of their names, and the interval (ms)."""

    metrics: tuple[str, ...]
    interval_ms: int


def wanted_of(client: Client, subscriptions: Iterable[Subscription]) -> Wanted:
    """All subscriptions that are for a client, in one: every metric, at the shortest interval."""
    ours = [each for each in subscriptions if each.is_for(client.facts)]
    metrics = sorted({metric for each in ours for metric in each.metrics})
    if ALL_METRICS in metrics:
        metrics = [ALL_METRICS]
    return Wanted(tuple(metrics), min((each.interval_ms for each in ours), default=INTERVAL_MS_DEFAULT))


def subscription_id(wanted: Wanted, instance_id: bytes) -> int:
    """A number (int32) that is another when something else is wanted; Kafka's, where at most one metric is named."""
    checksum = crc32c.crc32c(f"[{', '.join(wanted.metrics)}]{wanted.interval_ms}".encode())
    words = [int.from_bytes(instance_id[start : start + 4], "big") for start in range(0, len(instance_id), 4)]
    for word in words:
        checksum ^= word
    return ((checksum & _MASK) ^ _SIGN) - _SIGN


class Instance:
    """One client, and the subscription that it got."""

    def __init__(self, client: Client, wanted: Wanted, generation: int, conn: int) -> None:
        self.client = client
        self.wanted = wanted
        self.generation = generation
        """The version of the subscriptions from which this was made."""
        self.conn = conn
        """The connection over which it was first heard."""
        self.subscription_id = subscription_id(wanted, client.instance_id)
        self.terminating = False
        self.last_error = ErrorCode.NONE
        self._asked_at = _NEVER
        self._pushed_at = _NEVER

    @property
    def silence_ms_max(self) -> int:
        """How long it may say nothing before it is forgotten."""
        return max(SILENCE_MS_MIN, SILENT_INTERVALS * self.wanted.interval_ms)

    def may_ask(self, now: int) -> bool:
        """Whether it may ask for its subscription at this time (ms)."""
        if now - max(self._asked_at, self._pushed_at) >= self.wanted.interval_ms:
            self._asked_at = now
            return True
        return self.last_error in _ASKS_AGAIN

    def may_push(self, now: int) -> bool:
        """Whether it may push at this time (ms): at its interval, or once after it has asked."""
        if self._asked_at > self._pushed_at or now - self._pushed_at >= self.wanted.interval_ms:
            self._pushed_at = now
            return True
        return False


class Instances:
    """The clients of one broker, the one that was heard last at the end."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, Instance] = OrderedDict()
        self._by_conn: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, instance_id: bytes) -> bool:
        return instance_id in self._kept

    def get(self, instance_id: bytes) -> Instance | None:
        """A client by id; it counts as the latest now."""
        instance = self._kept.get(instance_id)
        if instance is not None:
            self._kept.move_to_end(instance_id)
        return instance

    def put(self, instance: Instance) -> list[bytes]:
        """Keep a client, and replace an earlier one with its id; returns the ids that were dropped for lack of room."""
        instance_id = instance.client.instance_id
        self._kept[instance_id] = instance
        self._kept.move_to_end(instance_id)
        self._by_conn[instance.conn] = instance_id
        gone = []
        while len(self._kept) > INSTANCES_MAX:
            oldest = next(iter(self._kept))
            self.forget(oldest)
            gone.append(oldest)
        return gone

    def forget(self, instance_id: bytes) -> None:
        """Know nothing of a client any more."""
        instance = self._kept.pop(instance_id, None)
        if instance is not None and self._by_conn.get(instance.conn) == instance_id:
            del self._by_conn[instance.conn]

    def disconnected(self, conn: int) -> bytes | None:
        """A connection has ended: forget its client and return the client's id."""
        instance_id = self._by_conn.pop(conn, None)
        if instance_id is not None:
            self._kept.pop(instance_id, None)
        return instance_id
