"""Subscriptions to the metrics of clients: the configs of CLIENT_METRICS resources (KIP-714, "Metrics subscription").

A subscription has prefixes of metric names, an interval, and patterns for properties of a client, all of which must
match.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from odradek.config.keys import BadValue, Key, integer, listing
from odradek.metadata.change import Failure
from odradek.metadata.image import MetadataImage, ResourceType
from odradek.wire.errors import ErrorCode
from odradek.wire.patterns import InvalidPattern, matcher

__all__ = [
    "ALL_METRICS",
    "CLIENT_METRICS_KEYS",
    "INTERVAL_MS_DEFAULT",
    "SELECTORS",
    "Subscription",
    "invalid_client_metrics",
    "subscriptions",
]

INTERVAL_MS, MATCH, METRICS = "interval.ms", "match", "metrics"
INTERVAL_MS_DEFAULT = 300_000
INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000
ALL_METRICS = "*"
SELECTORS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""The properties of a client for which there can be a pattern."""

CLIENT_METRICS_KEYS: Mapping[str, Key] = {
    key.name: key
    for key in (
        Key(INTERVAL_MS, "", INTERVAL_MS_DEFAULT, integer()),
        Key(MATCH, "", (), listing()),
        Key(METRICS, "", (), listing()),
    )
}
"""The keys of a subscription, by name."""

Matches = Callable[[str], bool]


class Subscription(Struct, frozen=True):
    """A subscription: metrics, interval, and the clients."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, Matches]

    def is_for(self, client: Mapping[str, str]) -> bool:
        """Whether a client with these properties, by selector, matches."""
        return all(matches(client[selector]) for selector, matches in self.patterns.items())


def subscriptions(image: MetadataImage) -> list[Subscription]:
    return [_subscription(values) for (kind, _), values in image.configs.items() if kind == ResourceType.CLIENT_METRICS]


def _subscription(values: Mapping[str, str]) -> Subscription:
    patterns = _patterns(_words(values, MATCH))
    # The controller has validated the values.
    assert isinstance(patterns, dict)
    interval_ms = int(values.get(INTERVAL_MS, str(INTERVAL_MS_DEFAULT)))
    return Subscription(_words(values, METRICS), interval_ms, patterns)


def _words(values: Mapping[str, str], name: str) -> tuple[str, ...]:
    words = CLIENT_METRICS_KEYS[name].parse(values.get(name, ""))
    assert isinstance(words, tuple)
    return words


def invalid_client_metrics(values: Mapping[str, str], name: str) -> Failure | None:
    """The reason why a subscription cannot have this name or these values, or None (Kafka's `ClientMetricsConfigs`)."""
    if not name:
        return _refused("Subscription name can't be empty")
    unknown = [key for key in values if key not in CLIENT_METRICS_KEYS]
    if unknown:
        return _refused(f"Unknown client metrics configuration: {unknown[0]}")
    if INTERVAL_MS in values:
        try:
            interval_ms = CLIENT_METRICS_KEYS[INTERVAL_MS].parse(values[INTERVAL_MS])
        except BadValue as error:
            return Failure(ErrorCode.INVALID_CONFIG, str(error))
        if not (isinstance(interval_ms, int) and INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX):
            bounds = f"interval must be between {INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)"
            return _refused(f"Invalid value {interval_ms} for {INTERVAL_MS}, {bounds}")
    illegal = _patterns(_words(values, MATCH))
    if isinstance(illegal, str):
        return Failure(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {illegal}")
    return None


def _patterns(words: Sequence[str]) -> dict[str, Matches] | str:
    """The patterns by selector, the last one of each; or the first word that is not a pattern."""
    patterns: dict[str, Matches] = {}
    for word in words:
        parts = [part.strip() for part in word.split("=")]
        if len(parts) != 2 or parts[0] not in SELECTORS or not parts[1]:
            return word
        matches = matcher(parts[1])
        if isinstance(matches, InvalidPattern):
            return word
        patterns[parts[0]] = matches
    return patterns


def _refused(message: str) -> Failure:
    return Failure(ErrorCode.INVALID_REQUEST, message)
