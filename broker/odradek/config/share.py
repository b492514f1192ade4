"""The broker keys of share groups (KIP-932): groups and locks of records, and the share coordinator's topic."""

import re

from msgspec import Struct

from odradek.config.keys import Annotated, Kind, Rule, Scope, Value, boolean, integer, short, string

__all__ = ["BY_DURATION", "ShareConfig", "duration_ms", "offset_reset"]

CLUSTER = Scope.CLUSTER_WIDE
BY_DURATION = "by_duration:"
_DURATION = (
    r"(?ai)P(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)(\.\d{1,9})?S)?)?"
)
_SECONDS = {"days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}
_LONG_MAX = 2**63 - 1
_LONG_DIGITS = 19


def duration_ms(text: str) -> int | None:
    """A duration in ISO 8601, such as `PT1H30M`, in ms; None for any other text or a longer one than Java has."""
    found = re.fullmatch(_DURATION, text)
    if found is None:
        return None
    told = {unit: value.lstrip("0") or "0" for unit, value in found.groupdict().items() if value}
    if not told or any(len(value) > _LONG_DIGITS for value in told.values()):
        return None
    seconds = sum(int(value) * _SECONDS[unit] for unit, value in told.items())
    return None if seconds > _LONG_MAX else seconds * 1000 + int(float(found[5] or 0) * 1000)


def offset_reset() -> Rule:
    """The offset at which a share group begins in a partition: an end of the log, or an age (KIP-1106)."""

    def check(value: Value) -> str | None:
        assert isinstance(value, str), "the key is a text"
        if value.lower() in ("earliest", "latest"):
            return None
        if value.lower().startswith(BY_DURATION) and duration_ms(value[len(BY_DURATION) :]) is not None:
            return None
        return (
            f"Invalid value `{value}` for configuration share.auto.offset.reset. The value must be either 'earliest', "
            "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )

    return Rule(Kind.STRING, check)


class ShareConfig(Struct, frozen=True, kw_only=True):
    """The share group keys in the configuration of a broker; times in ms."""

    group_share_max_size: Annotated[int, integer(1, 1000)] = 200
    group_share_heartbeat_interval_ms: Annotated[int, integer(1)] = 5000
    group_share_min_heartbeat_interval_ms: Annotated[int, integer(1)] = 5000
    group_share_max_heartbeat_interval_ms: Annotated[int, integer(1)] = 15_000
    group_share_session_timeout_ms: Annotated[int, integer(1)] = 45_000
    group_share_min_session_timeout_ms: Annotated[int, integer(1)] = 45_000
    group_share_max_session_timeout_ms: Annotated[int, integer(1)] = 60_000
    group_share_assignment_interval_ms: Annotated[int, integer(0, scope=CLUSTER)] = 1000
    group_share_min_assignment_interval_ms: Annotated[int, integer(0)] = 0
    group_share_max_assignment_interval_ms: Annotated[int, integer(0)] = 15_000
    group_share_record_lock_duration_ms: Annotated[int, integer(1000, 3_600_000)] = 30_000
    group_share_min_record_lock_duration_ms: Annotated[int, integer(1000, 30_000)] = 15_000
    group_share_max_record_lock_duration_ms: Annotated[int, integer(30_000, 3_600_000)] = 60_000
    group_share_delivery_count_limit: Annotated[int, integer(2)] = 5
    group_share_min_delivery_count_limit: Annotated[int, integer(2, 5)] = 2
    group_share_max_delivery_count_limit: Annotated[int, integer(5, 25)] = 10
    group_share_partition_max_record_locks: Annotated[int, integer(100)] = 2000
    group_share_min_partition_max_record_locks: Annotated[int, integer(100, 2000)] = 100
    group_share_max_partition_max_record_locks: Annotated[int, integer(2000, 20_000)] = 4000
    errors_deadletterqueue_auto_create_topics_enable: Annotated[bool, boolean(CLUSTER)] = False
    errors_deadletterqueue_topic_name_prefix: Annotated[str, string(CLUSTER)] = "dlq."
    group_share_max_share_sessions: Annotated[int, integer(1)] = 2000
    share_coordinator_state_topic_num_partitions: Annotated[int, integer(1)] = 50
    share_coordinator_state_topic_replication_factor: Annotated[int, short(1)] = 3
    share_coordinator_state_topic_min_isr: Annotated[int, short(1)] = 2
    share_coordinator_state_topic_compression_codec: Annotated[int, integer(0, 4)] = 0
    share_coordinator_state_topic_segment_bytes: Annotated[int, integer(1)] = 104_857_600
    share_coordinator_snapshot_update_records_per_snapshot: Annotated[int, integer(0)] = 500
    share_coordinator_write_timeout_ms: Annotated[int, integer(1)] = 5000
