"""The permitted configs of a topic (Kafka's `LogConfig.validate`, rules and texts)."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.config.keys import BadValue
from odradek.config.table import TOPIC_KEYS, Config
from odradek.metadata.change import Failure
from odradek.wire.errors import ErrorCode

__all__ = ["invalid_topic_configs"]

_LOOKED_AT = (
    "segment.bytes",
    "segment.ms",
    "segment.jitter.ms",
    "segment.index.bytes",
    "flush.messages",
    "flush.ms",
    "retention.bytes",
    "retention.ms",
    "max.message.bytes",
    "max.decompressed.message.bytes",
    "index.interval.bytes",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "file.delete.delay.ms",
    "min.cleanable.dirty.ratio",
    "cleanup.policy",
    "unclean.leader.election.enable",
    "min.insync.replicas",
    "compression.type",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "preallocate",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
    "remote.storage.enable",
    "local.retention.ms",
    "local.retention.bytes",
    "remote.log.copy.disable",
    "remote.copy.lag.ms",
    "remote.copy.lag.bytes",
    "remote.log.delete.on.disable",
    "errors.deadletterqueue.group.enable",
)
"""The order in which Kafka checks keys, and so which of several errors it answers; other keys come last."""
_PLACES = {name: place for place, name in enumerate(_LOOKED_AT)}


def invalid_topic_configs(overrides: Mapping[str, str | None], config: Config) -> Failure | None:
    """The reason why a topic cannot have these overrides, or None (`LogConfig.validate`)."""
    nulls = [name for name, value in overrides.items() if value is None]
    if nulls:
        message = f"Null value not supported for topic configs: {','.join(nulls)}"
        return Failure(ErrorCode.INVALID_CONFIG, message)
    parsed = {}
    for name in overrides:
        if name not in TOPIC_KEYS or name in config.release.lacks:
            return Failure(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    for name in sorted(overrides, key=lambda name: _PLACES.get(name, len(_PLACES))):
        try:
            parsed[name] = TOPIC_KEYS[name].parse(overrides[name] or "")
        except BadValue as error:
            return Failure(ErrorCode.INVALID_CONFIG, str(error))
    return _contradiction(parsed, config)


def _contradiction(parsed: Mapping[str, object], config: Config) -> Failure | None:
    low = parsed.get("min.compaction.lag.ms", config.log_cleaner_min_compaction_lag_ms)
    high = parsed.get("max.compaction.lag.ms", config.log_cleaner_max_compaction_lag_ms)
    assert isinstance(low, int), "a lag is a number"
    assert isinstance(high, int), "a lag is a number"
    if low > high:
        return Failure(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})",
        )
    if parsed.get("remote.storage.enable"):
        return Failure(
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )
    return None
