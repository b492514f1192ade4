"""The configs of groups (KIP-848, KIP-932, KIP-1071): permitted values, and defaults.

Most keys have a broker key that gives the default, and others that bound the value. A broker key without effect gives
its value too. Kafka's `GroupConfig` is the reference for the order of the checks, and for the sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from odradek.config.inert_defaults import INERT_DEFAULTS
from odradek.config.keys import BadValue, Key, Kind, Rule, boolean, choices, integer, listing, long, string, text_of
from odradek.config.share import offset_reset
from odradek.config.table import BROKER_KEYS, Config

__all__ = ["GROUP_KEYS", "HIDDEN_GROUP_KEYS", "GroupKey", "default_text", "invalid_group_configs"]


class GroupKey(Struct, frozen=True):
    """One key of a group."""

    key: Key
    broker_key: str | None = None
    """The broker key that gives the default."""
    low: str | None = None
    high: str | None = None
    """The keys of the broker that bound it."""


def _bounded(name: str, least: int) -> GroupKey:
    """A number with two bounds: `share.session.timeout.ms` has `group.share.min.session.timeout.ms`."""
    kind, _, rest = name.partition(".")
    return GroupKey(_key(name, integer(least)), f"group.{name}", f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}")


def _key(name: str, rule: Rule, default: str | None = None) -> Key:
    return Key(name, "", default, rule)


_TAGS = "streams.rack.aware.assignment.tags"
_ASSIGNOR = "streams.assignor.name"
_ASSIGNORS = "group.streams.assignors"
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"

_SHOWN: tuple[GroupKey, ...] = (
    _bounded("consumer.heartbeat.interval.ms", 1),
    _bounded("consumer.session.timeout.ms", 1),
    _bounded("consumer.assignment.interval.ms", 0),
    _bounded("share.heartbeat.interval.ms", 1),
    _bounded("share.session.timeout.ms", 1),
    _bounded("share.record.lock.duration.ms", 1000),
    _bounded("share.delivery.count.limit", 2),
    _bounded("share.partition.max.record.locks", 100),
    _bounded("share.assignment.interval.ms", 0),
    GroupKey(_key("share.auto.offset.reset", offset_reset(), "latest")),
    GroupKey(
        _key("share.isolation.level", choices("read_committed", "read_uncommitted"), "read_uncommitted"),
    ),
    GroupKey(_key("share.renew.acknowledge.enable", boolean(), "true")),
    _bounded("streams.heartbeat.interval.ms", 1),
    _bounded("streams.session.timeout.ms", 1),
    GroupKey(
        _key("streams.num.standby.replicas", integer(0)),
        "group.streams.num.standby.replicas",
        high="group.streams.max.standby.replicas",
    ),
    _bounded("streams.assignment.interval.ms", 0),
    GroupKey(_key("streams.initial.rebalance.delay.ms", integer(0)), "group.streams.initial.rebalance.delay.ms"),
    GroupKey(_key(_TAGS, listing()), "group.streams.rack.aware.assignment.tags"),
    GroupKey(_key(_ASSIGNOR, string()), _ASSIGNORS),
    GroupKey(_key(_DEAD_LETTERS, string(), "")),
    GroupKey(_key("errors.deadletterqueue.copy.record.enable", boolean(), "false")),
)
_HIDDEN: tuple[GroupKey, ...] = (
    GroupKey(_key("consumer.assignor.offload.enable", boolean(), "true"), "group.consumer.assignor.offload.enable"),
    GroupKey(_key("share.assignor.offload.enable", boolean(), "true"), "group.share.assignor.offload.enable"),
    GroupKey(_key("streams.assignor.offload.enable", boolean(), "true"), "group.streams.assignor.offload.enable"),
    GroupKey(
        _key("streams.task.offset.interval.ms", integer(1)),
        "group.streams.task.offset.interval.ms",
        low="group.streams.min.task.offset.interval.ms",
    ),
    GroupKey(
        _key("streams.num.warmup.replicas", integer(0)),
        "group.streams.num.warmup.replicas",
        high="group.streams.max.warmup.replicas",
    ),
    GroupKey(_key("streams.acceptable.recovery.lag", long(0)), "group.streams.acceptable.recovery.lag"),
)

GROUP_KEYS: Mapping[str, GroupKey] = {each.key.name: each for each in _SHOWN}
"""The keys that DescribeConfigs shows, in the order in which they are checked."""
HIDDEN_GROUP_KEYS: Mapping[str, GroupKey] = {each.key.name: each for each in _HIDDEN}
"""Kafka's internal keys: accepted, and shown only if a group has set them."""

_BEFORE_RANGES = {**GROUP_KEYS, **HIDDEN_GROUP_KEYS}
_INERT_BOUNDS: Mapping[str, int] = {"group.streams.max.warmup.replicas": 20}
"""Defaults of bounds that brokers do not show."""
_SILENT_FOR = tuple(
    (f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms") for kind in ("consumer", "share", "streams")
)


def default_text(key: GroupKey, config: Config) -> str | None:
    """The value for a group that does not set it; of several assignors the first."""
    if key.broker_key is None:
        return text_of(key.key.default)
    text = _broker_text(key.broker_key, config)
    if text is None:
        return text_of(key.key.default)
    return text.partition(",")[0] if text and key.broker_key == _ASSIGNORS else text


def _broker_text(name: str, config: Config) -> str | None:
    known = BROKER_KEYS.get(name)
    if known is not None:
        return text_of(known.of(config))
    for _, texts in config.layers:
        if name in texts:
            return texts[name]
    inert = INERT_DEFAULTS.get(name)
    return None if inert is None else inert.default


def _bound(name: str | None, config: Config) -> int | None:
    if name is None:
        return None
    text = _broker_text(name, config)
    return _INERT_BOUNDS.get(name) if text is None else int(text)


def invalid_group_configs(values: Mapping[str, str], config: Config) -> str | None:
    """The reason why a group cannot have all these values, or None."""
    return next(_complaints(values, config), None)


def _complaints(values: Mapping[str, str], config: Config) -> Iterator[str]:
    for name in values:
        if name not in _BEFORE_RANGES or name in config.release.lacks:
            yield f"Unknown group config name: {name}"
    tags = [tag.strip() for tag in values.get(_TAGS, "").split(",")]
    if len(set(tags)) < len(tags):
        yield f"{_TAGS} must not contain duplicate tag keys."
    numbers: dict[str, int] = {}
    for name, text in values.items():
        try:
            value = _BEFORE_RANGES[name].key.parse(text)
        except BadValue as error:
            yield str(error)
        else:
            if _BEFORE_RANGES[name].key.rule.kind is Kind.INT:
                assert isinstance(value, int), "it was read as a number"
                numbers[name] = value
    out_of_range = _beyond_a_key if config.release.names_bounds else _out_of_range
    for name, known in _BEFORE_RANGES.items():
        if name in numbers:
            yield from out_of_range(name, numbers[name], known, config)
    assignors = (_broker_text(_ASSIGNORS, config) or "").split(",")
    if _ASSIGNOR in values and values[_ASSIGNOR] not in assignors:
        yield (
            f"{_ASSIGNOR} '{values[_ASSIGNOR]}' is not a registered task assignor. Registered assignors are: "
            f"[{', '.join(assignors)}]."
        )
    for session, heartbeat in _SILENT_FOR:
        if session not in numbers and heartbeat not in numbers:
            continue
        longest, beats = (
            numbers.get(name, int(default_text(GROUP_KEYS[name], config) or 0)) for name in (session, heartbeat)
        )
        if longest <= beats:
            yield f"{session} must be greater than {heartbeat}"
    if values.get(_DEAD_LETTERS, "").startswith("__"):
        yield f"{_DEAD_LETTERS}: DLQ topic name must not start with '__'"


def _out_of_range(name: str, value: int, key: GroupKey, config: Config) -> Iterator[str]:
    low, high = _bound(key.low, config), _bound(key.high, config)
    if low is not None and high is not None:
        if not low <= value <= high:
            yield f"{name} must be in the range {low} to {high} inclusive."
    elif high is not None and value > high:
        yield f"{name} must be less than or equal to {high}"
    elif low is not None and value < low:
        yield f"{name} must be greater than or equal to {low}"


def _beyond_a_key(name: str, value: int, key: GroupKey, config: Config) -> Iterator[str]:
    """The sentence of Kafka 4.3."""
    low, high = _bound(key.low, config), _bound(key.high, config)
    if low is not None and value < low:
        yield f"{name} must be greater than or equal to {key.low}"
    if high is not None and value > high:
        yield f"{name} must be less than or equal to {key.high}"
