"""The configuration keys whose values are never shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.config.inert_defaults import INERT_DEFAULTS
from odradek.config.keys import Kind
from odradek.config.security import key_of
from odradek.config.table import BROKER_KEYS, TOPIC_KEYS
from odradek.config.without_effect import INERT_KEYS
from odradek.metadata.client_metrics import CLIENT_METRICS_KEYS
from odradek.metadata.group_configs import GROUP_KEYS, HIDDEN_GROUP_KEYS

if TYPE_CHECKING:
    from odradek.metadata.image import MetadataImage

__all__ = ["SECRET", "may_be_shown", "secret_in"]

SECRET = re.compile("password|passphrase|secret|jaas|certificate|keystore[.]key")
"""Parts of the names of Kafka's keys of type PASSWORD, whose values are never shown."""


def may_be_shown(name: str) -> bool:
    """Whether the value of a key may be shown: Kafka shows none of a key that it does not know (`maybeSensitive`)."""
    kinds = set(_kinds_of(name))
    if kinds:
        return Kind.PASSWORD not in kinds
    return name in INERT_KEYS and not SECRET.search(name)


def _kinds_of(name: str) -> Iterator[Kind]:
    """The type of a key of any resource, if the key is known."""
    if (of_listener := key_of(name)) is not None:
        yield of_listener.rule.kind
    for keys in (BROKER_KEYS, TOPIC_KEYS, CLIENT_METRICS_KEYS):
        if name in keys:
            yield keys[name].rule.kind
    for group_keys in (GROUP_KEYS, HIDDEN_GROUP_KEYS):
        if name in group_keys:
            yield group_keys[name].key.rule.kind
    if name in INERT_DEFAULTS:
        yield INERT_DEFAULTS[name].kind


def secret_in(image: MetadataImage | None) -> str | None:
    """The part of the metadata that lets somebody in; None if there is none."""
    if image is None:
        return None
    if image.scram:
        return "The metadata has SCRAM credentials"
    if image.tokens:
        return "The metadata has delegation tokens"
    for config in image.configs.values():
        for name in config:
            if not may_be_shown(name):
                return f"The metadata has {name}"
    return None
