"""DescribeConfigs: each value, its source, and the synonyms that could give another one (KIP-133, KIP-226).

The rules are those of Kafka's `ConfigHelper`. One is surprising: keys in the list of synonyms in front of the key
itself are left out, so `log.retention.hours` is not shown as a synonym of `retention.ms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cached_property

from msgspec import Struct

from odradek.config.inert_defaults import INERT_DEFAULTS
from odradek.config.keys import Key, Kind, Scope, name_of, text_of
from odradek.config.security import LISTENER_PREFIX, key_of
from odradek.config.table import BROKER_KEYS, TOPIC_KEYS, Config, ConfigSource, inherited
from odradek.config.without_effect import INERT_DYNAMIC_KEYS, INERT_KEYS, INERT_PER_BROKER_KEYS, INERT_PER_LISTENER_KEYS
from odradek.metadata.client_metrics import CLIENT_METRICS_KEYS
from odradek.metadata.group_configs import GROUP_KEYS, HIDDEN_GROUP_KEYS, default_text
from odradek.metadata.secrets import SECRET

__all__ = [
    "Entry",
    "Synonym",
    "TopicEntries",
    "broker_default_entries",
    "broker_entries",
    "client_metrics_entries",
    "group_entries",
]

UNKNOWN_KIND = 0

_INTERNAL_TOPIC_KEYS = frozenset({"internal.segment.bytes"})
"""Keys that are shown only if they are set."""

_INTERNAL_BROKER_KEYS = frozenset(
    {
        "group.consumer.regex.refresh.interval.ms",
        "group.streams.acceptable.recovery.lag",
        "group.streams.min.task.offset.interval.ms",
        "group.streams.task.offset.interval.ms",
        "producer.id.expiration.check.interval.ms",
        "unclean.leader.election.interval.ms",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
    }
)
"""Such keys of a broker with `odradek.as.kafka`; one without shows all that it has."""

_OURS = frozenset(name for name in BROKER_KEYS if name.startswith("odradek."))
"""Keys that a release shows only if an operator has changed them while the broker runs."""

_INERT_CHANGEABLE = INERT_DYNAMIC_KEYS | INERT_PER_BROKER_KEYS | INERT_PER_LISTENER_KEYS
"""Keys without effect that Kafka lets an operator change while brokers run."""

_BROKER_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    name: names
    for names in (
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    for name in names
}


class Synonym(Struct, frozen=True):
    """A key that gives the value, or would give it without a more specific one."""

    name: str
    value: str | None
    source: int


class Entry(Struct, frozen=True):
    """One key of a resource."""

    name: str
    value: str | None
    source: int = ConfigSource.DEFAULT
    kind: int = UNKNOWN_KIND
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[Synonym, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether the value is the default: all that version 0 of DescribeConfigs has about the source."""
        return self.source == ConfigSource.DEFAULT


class TopicEntries:
    """The keys of topics on a broker with this configuration; the part that most topics share is computed once."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def of(self, overrides: Mapping[str, str]) -> list[Entry]:
        """All keys of a topic with these overrides, by name."""
        lacks = self._config.release.lacks
        own = [self._overridden(name, text) for name, text in overrides.items() if self._has(name, lacks)]
        if not own:
            return list(self._inherited)
        entries = {entry.name: entry for entry in (*self._inherited, *own)}
        return [entries[name] for name in sorted(entries)]

    @staticmethod
    def _has(name: str, lacks: Set[str]) -> bool:
        return name in TOPIC_KEYS and name not in lacks

    @cached_property
    def _inherited(self) -> tuple[Entry, ...]:
        config = self._config
        keys = [TOPIC_KEYS[name] for name in sorted(TOPIC_KEYS.keys() - config.release.lacks - _INTERNAL_TOPIC_KEYS)]
        return tuple(
            _entry(key.name, text_of(inherited(key, config)), key.rule.kind, self._of_broker(key)) for key in keys
        )

    def _overridden(self, name: str, text: str) -> Entry:
        key = TOPIC_KEYS[name]
        value = text_of(key.parse(text))
        own = Synonym(name, value, ConfigSource.TOPIC)
        return _entry(name, value, key.rule.kind, (own, *self._of_broker(key)))

    def _of_broker(self, key: Key) -> tuple[Synonym, ...]:
        return _of_broker(tuple(map(name_of, key.rule.synonyms)), self._config)


def broker_entries(config: Config, facts: Mapping[str, str]) -> list[Entry]:
    """All keys of a broker; `facts` are those of its start outside of the configuration."""
    lacks, left_out = config.release.lacks, _left_out(config)
    entries = [
        _entry(
            key.name,
            text_of(key.of(config)),
            key.rule.kind,
            _of_broker(_BROKER_SYNONYMS.get(key.name, (key.name,)), config, itself=key.name),
            read_only=key.rule.scope is Scope.READ_ONLY,
        )
        for key in BROKER_KEYS.values()
        if key.name not in left_out
    ]
    entries += [
        _entry(
            name,
            value,
            Kind.INT if value.isdigit() else Kind.LIST,
            (Synonym(name, value, ConfigSource.STATIC_BROKER), *_of_inert_default(name)),
            read_only=name not in _INERT_CHANGEABLE,
        )
        for name, value in facts.items()
    ]
    entries += _others(config, (BROKER_KEYS.keys() - lacks) | facts.keys())
    entries += _inert_defaults(BROKER_KEYS.keys() | {entry.name for entry in entries} | lacks)
    return sorted(entries, key=lambda entry: entry.name)


def _left_out(config: Config) -> Set[str]:
    """The keys in the table that are not shown."""
    lacks = config.release.lacks
    if config.odradek_as_kafka is None:
        return lacks
    given = {name for _, texts in config.layers for name in texts}
    changed = {name for source, texts in config.layers if source is not ConfigSource.STATIC_BROKER for name in texts}
    return lacks | (_INTERNAL_BROKER_KEYS - given) | (_OURS - changed)


def broker_default_entries(defaults: Mapping[str, str]) -> list[Entry]:
    """The dynamic defaults of all brokers."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    return [
        _entry(name, value, BROKER_KEYS[name].rule.kind, (Synonym(name, value, source),))
        if name in BROKER_KEYS
        else _hidden(name, source)
        for name, value in sorted(defaults.items())
    ]


def group_entries(overrides: Mapping[str, str], config: Config) -> list[Entry]:
    """All keys of a group with these overrides."""
    entries = []
    for name, group_key in sorted({**GROUP_KEYS, **HIDDEN_GROUP_KEYS}.items()):
        if name in config.release.lacks or (name in HIDDEN_GROUP_KEYS and name not in overrides):
            continue
        key, behind = group_key.key, group_key.broker_key
        value = overrides.get(name, default_text(group_key, config))
        own = (Synonym(name, value, ConfigSource.GROUP),) if name in overrides else ()
        of_broker: tuple[Synonym, ...] = ()
        if behind is not None and behind in BROKER_KEYS:
            of_broker = _of_broker((behind,), config)
        elif behind is not None:
            of_broker = _of_inert(behind, config) or (Synonym(behind, text_of(key.default), ConfigSource.DEFAULT),)
        elif value is not None:
            of_broker = (Synonym(name, text_of(key.default), ConfigSource.DEFAULT),)
        entries.append(_entry(name, value, key.rule.kind, own + of_broker))
    return entries


def client_metrics_entries(overrides: Mapping[str, str]) -> list[Entry]:
    """All keys of a subscription to the metrics of clients, whether the subscription exists or not."""
    source = ConfigSource.CLIENT_METRICS
    entries = []
    for name, key in CLIENT_METRICS_KEYS.items():
        own = (Synonym(name, overrides[name], source),) if name in overrides else ()
        entries.append(_entry(name, overrides.get(name, text_of(key.default)), key.rule.kind, own))
    return entries


def _entry(name: str, value: str | None, kind: int, synonyms: tuple[Synonym, ...], *, read_only: bool = False) -> Entry:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return Entry(name, value, source, kind, read_only, False, synonyms)


def _others(config: Config, known: Iterable[str]) -> Iterator[Entry]:
    """Keys that are set and unknown: they are kept, and their values may be secrets."""
    seen, inert = set(known), INERT_KEYS - config.release.lacks
    for source, texts in config.layers:
        for name in texts:
            if name not in seen:
                seen.add(name)
                plain = name in inert and not SECRET.search(name)
                of_listener = key_of(name) if name.startswith(LISTENER_PREFIX) else None
                if of_listener is not None:
                    yield _of_listener(name, of_listener, source, config)
                else:
                    yield _inert(name, source, config) if plain else _hidden(name, source)


def _of_listener(name: str, key: Key, source: int, config: Config) -> Entry:
    """A key of one listener, whether the listener exists or not, with the key for all listeners as its synonym."""
    is_secret = key.rule.kind is Kind.PASSWORD
    told = [(name, texts[name], each) for each, texts in config.layers if name in texts]
    told += [(key.name, texts[key.name], each) for each, texts in config.layers if key.name in texts]
    default = text_of(key.default)
    told += [] if default is None else [(key.name, default, ConfigSource.DEFAULT)]
    synonyms = tuple(Synonym(each, None if is_secret else value, of) for each, value, of in told)
    return Entry(name, synonyms[0].value, source, key.rule.kind, True, is_secret, synonyms)


def _of_inert(name: str, config: Config) -> tuple[Synonym, ...]:
    synonyms = tuple(Synonym(name, texts[name], source) for source, texts in config.layers if name in texts)
    return synonyms + _of_inert_default(name)


def _of_inert_default(name: str) -> tuple[Synonym, ...]:
    known = INERT_DEFAULTS.get(name)
    if known is None or known.default is None:
        return ()
    return (Synonym(name, known.default, ConfigSource.DEFAULT),)


def _inert(name: str, source: int, config: Config) -> Entry:
    synonyms, known = _of_inert(name, config), INERT_DEFAULTS.get(name)
    kind = Kind.STRING if known is None else known.kind
    return Entry(name, synonyms[0].value, source, kind, name not in _INERT_CHANGEABLE, False, synonyms)


def _inert_defaults(shown: Set[str]) -> Iterator[Entry]:
    """Keys that are not set and have no effect here, as Kafka shows them."""
    for name, known in INERT_DEFAULTS.items():
        if name not in shown:
            secret, read_only = known.kind is Kind.PASSWORD, name not in _INERT_CHANGEABLE
            synonyms = _of_inert_default(name)
            yield Entry(name, known.default, ConfigSource.DEFAULT, known.kind, read_only, secret, synonyms)


def _hidden(name: str, source: int) -> Entry:
    """A value that is never shown: a password, or that of an unknown key."""
    known = INERT_DEFAULTS.get(name)
    kind = known.kind if known is not None and known.kind is Kind.PASSWORD else UNKNOWN_KIND
    return Entry(name, None, source, kind, name not in _INERT_CHANGEABLE, True, (Synonym(name, None, source),))


def _of_broker(names: tuple[str, ...], config: Config, itself: str | None = None) -> tuple[Synonym, ...]:
    found = [
        Synonym(name, text_of(BROKER_KEYS[name].parse(texts[name])), source)
        for source, texts in config.layers
        for name in names
        if name in texts
    ]
    defaults = ((name, text_of(BROKER_KEYS[name].default)) for name in names)
    found += [Synonym(name, text, ConfigSource.DEFAULT) for name, text in defaults if text is not None]
    first = (
        next((i for i, synonym in enumerate(found) if synonym.name == (itself or names[0])), None) if names else None
    )
    return () if first is None else tuple(found[first:])
