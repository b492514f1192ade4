"""The limits of clients at one node; a node of a cluster that never had any has none of this."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from odradek.config.addresses import address_of
from odradek.host.meter import Meter
from odradek.limits.usage import Kept, Tokens, Usage
from odradek.limits.windows import Rate, Windows, as_int
from odradek.metadata.image import IP
from odradek.wire.messages.apis import PRODUCE
from odradek.wire.primitives import Splices
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.host.host import Host
    from odradek.host.router import Router
    from odradek.metadata.image import QuotaEntity

__all__ = ["MutationQuota", "Quotas"]


R = TypeVar("R", bound="Struct | None")
PERCENT_PER_NS = 100 / 1e9
"""A second of one thread in a second is 100 percent."""
STRICT_SINCE = {ApiKey.CREATE_TOPICS: 6, ApiKey.CREATE_PARTITIONS: 3, ApiKey.DELETE_TOPICS: 5}
"""The first versions that know the refusal; clients of older ones are served, and throttled (KIP-599)."""
FETCH_HEAD_BYTES = 4
"""Kafka counts the length before an answer to Fetch."""


class MutationQuota:
    """How much one request may change of topics; the time that its client has to wait comes out of it."""

    def __init__(self, quotas: Quotas, call: Call) -> None:
        self._quotas = quotas
        self._user, self._client_id = _who(call)
        self._strict = call.version >= STRICT_SINCE[call.api_key]
        self._throttle_ms = 0
        self._since = 0
        self._noted = False

    def spend(self, partitions: int) -> bool:
        """Charge the quota of the client for this many partitions; False if a strict one is used up (KIP-599)."""
        tokens, now = self._quotas.mutations, self._quotas.now
        owed_ms = tokens.owed_ms(self._user, self._client_id, now)
        if self._strict:
            if owed_ms:
                self._owe(owed_ms, now)
                return False
            tokens.spend(self._user, self._client_id, partitions, now)
            return True
        tokens.spend(self._user, self._client_id, partitions, now)
        owed_ms = tokens.owed_ms(self._user, self._client_id, now)
        if owed_ms:
            self._owe(owed_ms, now)
        return True

    def _owe(self, owed_ms: int, now: int) -> None:
        """The client has to wait; a request is counted once, however many topics of it are refused."""
        # Kafka casts the time to an int, so a client far above its limit may get a shorter time, or none.
        self._throttle_ms, self._since = max(0, as_int(owed_ms)), now
        if not self._noted:
            self._noted = True
            self._quotas.mutations.throttled(self._user, self._client_id, self._throttle_ms)

    @property
    def throttle_ms(self) -> int:
        """How long the client has to wait, from now."""
        return max(0, self._throttle_ms - (self._quotas.now - self._since))


class Quotas:
    """The usage at this broker, by client."""

    def __init__(self, node: Host, router: Router) -> None:
        config = node.settings.at_start
        windows = Windows(config.quota_window_num, config.quota_window_size_seconds * 1000)
        mutations = Windows(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000)
        self._clock = node.clock
        self._router = router
        self._node = node
        self._windows = windows
        self._produce = Usage("producer_byte_rate", windows)
        self._fetch = Usage("consumer_byte_rate", windows)
        self._request = Usage("request_percentage", windows)
        self.mutations = Tokens("controller_mutation_rate", mutations)
        self._usages = (self._produce, self._fetch, self._request, self.mutations)
        self._connections: Kept[str, Rate] = Kept(Rate)
        self._connection_limits: dict[str | None, float] = {}

    @property
    def now(self) -> int:
        """The time of the node (ms)."""
        return self._clock.now

    def adopt(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Apply new limits; earlier usage still counts."""
        for usage in self._usages:
            usage.adopt(quotas)
        self._connection_limits = {
            None if name is None else address_of(name): values["connection_creation_rate"]
            for ((kind, name), *_), values in quotas.items()
            if kind == IP and "connection_creation_rate" in values
        }

    def connected(self, host: str) -> int:
        """A client has connected; for how long it is left standing before it is hung up on (ms), 0: it is let in."""
        limits = self._connection_limits
        address = address_of(host)
        limit = limits.get(address, limits.get(None))
        if limit is None:
            return 0
        rate = self._connections.at(address, self.now)
        rate.record(self._windows, 1, self.now)
        throttle_ms = rate.throttle_ms(self._windows, limit, self.now)
        if throttle_ms:
            rate.record(self._windows, -1, self.now)  # a connection that is refused does not count
        return min(throttle_ms, self._windows.length_ms)

    def meter(self, size: int) -> Meter:
        """Begin to measure a request."""
        return Meter(size, self._node.thread_clock)

    def served(self, call: Call, response: R) -> tuple[R, int]:
        """A client's request was served: its answer with the throttle time, and how long (ms) the client is muted."""
        of_bytes = of_time = 0
        if call.api_key is ApiKey.PRODUCE:
            assert call.meter is not None
            of_bytes = self._produce.record(*_who(call), call.meter.size, self.now)
        if call.api_key is not ApiKey.PRODUCE or call.request_of(PRODUCE).acks != 0:
            of_time = self._of_request(call)
        throttle_ms = self._longer(call, self._produce, of_bytes, of_time)
        if response is None or throttle_ms <= (told := getattr(response, "throttle_time_ms", throttle_ms)):
            return response, throttle_ms if response is None else max(throttle_ms, told)
        return replace(response, throttle_time_ms=throttle_ms), throttle_ms

    def written(self, call: Call) -> None:
        """The answer has been written; that time counts for the next request."""
        meter = call.meter
        if meter is not None and meter.told_ns is not None and self._request.limits:
            spent_ns = meter.spent_ns - meter.told_ns
            self._request.note(*_who(call), spent_ns * PERCENT_PER_NS, self.now)

    def _of_request(self, call: Call) -> int:
        meter = call.meter
        if meter is None or meter.told_ns is not None or not self._request.limits:
            return 0
        meter.told_ns = meter.spent_ns
        throttle_ms = self._request.record(*_who(call), meter.told_ns * PERCENT_PER_NS, self.now)
        return min(throttle_ms, self._windows.length_ms)

    def fetch_bytes_max(self, call: Call) -> int | None:
        """The most bytes that a client can fetch at once without being throttled, if it has fetched nothing before."""
        return self._fetch.most(*_who(call))

    def fetched(self, call: Call, response: Struct) -> int:
        """How long the client has to wait (ms) for having asked for this answer; it is then given an empty one."""
        of_time, of_bytes, size = self._of_request(call), 0, 0
        if self._fetch.limits:
            size = FETCH_HEAD_BYTES + self._size(call, response)
            of_bytes = self._fetch.record(*_who(call), size, self.now)
        throttle_ms = self._longer(call, self._fetch, of_bytes, of_time)
        if throttle_ms and size:
            self._fetch.note(*_who(call), -size, self.now)
        return throttle_ms

    def _longer(self, call: Call, usage: Usage, of_bytes: int, of_time: int) -> int:
        """The longer of two throttle times (ms); only that one is counted."""
        if of_bytes > of_time:
            usage.throttled(*_who(call), of_bytes)
        elif of_time:
            self._request.throttled(*_who(call), of_time)
        return max(of_bytes, of_time)

    def throttles(self) -> Iterator[tuple[str, str, str, int, int]]:
        """The clients that had to wait: limit, user, client id, how often, and how long in all (ms)."""
        for usage in self._usages:
            for (user, client_id), (count, total_ms) in usage.throttles.items():
                yield usage.key, user, client_id, count, total_ms

    def of(self, key: str) -> Usage | Tokens | None:
        """The usage of one limit, such as producer_byte_rate."""
        return next((usage for usage in self._usages if usage.key == key), None)

    def _size(self, call: Call, response: Struct) -> int:
        handler = self._router.handler(call.api_key, call.version, broker=False)
        assert handler is not None, "it is being served"
        out, splices = bytearray(), Splices()
        handler.write(response, out, splices)
        return len(out) + sum(len(view) for _, view in splices)

    def of_mutations(self, call: Call) -> MutationQuota | None:
        """The quota for the partitions that the request changes; None is unlimited."""
        return MutationQuota(self, call) if self.mutations.limits else None


def _who(call: Call) -> tuple[str, str]:
    return call.peer.principal.name, call.client_id or ""
