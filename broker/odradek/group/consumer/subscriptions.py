"""The topics of a group: subscriptions by name, matches of patterns, and changes of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from odradek.core.machine import LogRecord, Refused
from odradek.group.consumer.member import ResolvedPattern
from odradek.group.consumer.topics import metadata_hash
from odradek.wire.errors import ErrorCode
from odradek.wire.patterns import InvalidPattern, matcher

if TYPE_CHECKING:
    from odradek.group.consumer.group import ConsumerGroup
    from odradek.group.consumer.member import ConsumerMember
    from odradek.group.consumer.topics import Topics

__all__ = ["NO_CHANGE", "PatternChange", "pattern_change", "refresh_is_due", "resolved", "resolved_records"]

REFRESH_MIN_INTERVAL_MS = 10_000
"""The shortest time between two resolutions of a group's patterns."""


class PatternChange(Struct, frozen=True):
    """The effect of a member's request on the patterns of its group."""

    records: tuple[LogRecord, ...] = ()
    changed: bool = False
    known: bool = False
    """Whether the topics of the member are known at once, so that the group moves to its next epoch."""
    wants_refresh: bool = False


NO_CHANGE = PatternChange()


def pattern_change(group: ConsumerGroup, before: str, after: str) -> PatternChange | Refused:
    """A member changes its pattern, or subscribes to its first one; refused for an invalid regular expression."""
    records: tuple[LogRecord, ...] = ()
    if before and group.pattern_counts[before] == 1:
        records = (group.pattern_record(before, None),)
    if not after:
        return PatternChange(records, changed=True, known=True)
    if group.pattern_counts[after]:
        return PatternChange(records, changed=True, known=after in group.patterns)
    # The first who subscribes to it: it has to be a pattern, and is resolved after the answer.
    compiled = matcher(after)
    if isinstance(compiled, InvalidPattern):
        return Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{after}` is not a valid regular expression: {compiled.reason}.",
        )
    return PatternChange(records, changed=True, wants_refresh=True)


def refresh_is_due(
    group: ConsumerGroup, patterns: set[str], change: PatternChange, topics: Topics, *, interval_ms: int, now: int
) -> bool:
    """Whether patterns have to be resolved: a new one is not, or topics may have been created."""
    if not patterns:
        return False
    last = group.last_refresh()
    if last is None:
        return True
    version, timestamp = last
    if now <= timestamp + REFRESH_MIN_INTERVAL_MS:
        return False
    unresolved = len(patterns) != len(group.patterns)
    return change.wants_refresh or unresolved or version < topics.offset or now > timestamp + interval_ms


Sees: TypeAlias = "Callable[[str], bool]"
"""Whether the client may describe a topic."""


def resolved(patterns: Iterable[str], topics: Topics, now: int, sees: Sees | None = None) -> dict[str, ResolvedPattern]:
    """The topics that each pattern matches as a whole, among those that the client may describe."""
    seen = topics.topics if sees is None else list(filter(sees, topics.topics))
    found: dict[str, ResolvedPattern] = {}
    for pattern in patterns:
        matches = matcher(pattern)
        # It was a pattern when its member came; a later library may see that in another way.
        names = () if isinstance(matches, InvalidPattern) else filter(matches, seen)
        found[pattern] = ResolvedPattern(frozenset(names), topics.offset, now)
    return found


def resolved_records(group: ConsumerGroup, found: Mapping[str, ResolvedPattern], topics: Topics) -> list[LogRecord]:
    """The records of resolved patterns; other matches than before move the group to its next epoch."""
    records: list[LogRecord] = []
    patterns = dict(group.patterns)
    moves_on = False
    for pattern, new in found.items():
        if group.pattern_counts[pattern]:
            old = patterns.get(pattern)
            moves_on = moves_on or (old.topics if old is not None else frozenset()) != new.topics
            patterns[pattern] = new
            records.append(group.pattern_record(pattern, new))
    names = {name for member in group.members.values() for name in _names_of(member, patterns)}
    new_hash = metadata_hash(names, topics)
    if moves_on or new_hash != group.metadata_hash:
        records.append(group.records.epoch_record(group.group_id, group.epoch + 1, new_hash))
    return records


def _names_of(member: ConsumerMember, patterns: Mapping[str, ResolvedPattern]) -> frozenset[str]:
    known = patterns.get(member.pattern)
    return member.topic_names if known is None else member.topic_names | known.topics
