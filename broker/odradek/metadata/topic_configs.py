"""What a topic may be configured with (Kafka's `LogConfig.validate`, rules and texts)."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.config.keys import BadValue
from odradek.config.table import TOPIC_KEYS, Config
from odradek.metadata.change import Failure
from odradek.wire.errors import ErrorCode

__all__ = ["invalid_topic_configs"]


def invalid_topic_configs(overrides: Mapping[str, str | None], config: Config) -> Failure | None:
    """Why a topic cannot have these overrides, or None (`LogConfig.validate`)."""
    nulls = [name for name, value in overrides.items() if value is None]
    if nulls:
        message = f"Null value not supported for topic configs: {','.join(nulls)}"
        return Failure(ErrorCode.INVALID_CONFIG, message)
    parsed = {}
    for name in overrides:
        if name not in TOPIC_KEYS or name in config.release.lacks:
            return Failure(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    for name, value in overrides.items():
        try:
            parsed[name] = TOPIC_KEYS[name].parse(value or "")
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
