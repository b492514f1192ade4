"""What `Cluster` may be given, checked before anything is started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from odradek.node.hosting.controller import StartTopic

__all__ = ["checked_topics", "checked_types"]


class _Arguments(Struct, forbid_unknown_fields=True):
    brokers: int | None
    node_ids: list[int] | None
    config: dict[str, object]
    host: str
    port: Annotated[int, Meta(ge=0, le=65535)]
    seed: int | None
    transaction_version: int | None
    as_kafka: str | None
    story: str | None


def checked_types(
    *, node_ids: Sequence[int] | None, config: Mapping[str, object] | None, **others: int | str | None
) -> None:
    """See that each argument is what it should be.

    Raises:
        TypeError: one is not; the text is one sentence that names it.
    """
    if config is not None and not isinstance(config, Mapping):
        raise TypeError(f"The argument config of a cluster takes a mapping of broker keys to values, not {config!r}.")
    listed = list(node_ids) if isinstance(node_ids, Sequence) and not isinstance(node_ids, str) else node_ids
    try:
        msgspec.convert({**others, "node_ids": listed, "config": dict(config or {})}, _Arguments)
    except msgspec.ValidationError as error:
        expected, _, at = str(error).partition(" - at ")
        place = at.replace("`", "").replace("$.", "")
        raise TypeError(f"Wrong argument {place} of a cluster: {expected}.") from None


def checked_topics(topics: object) -> list[StartTopic]:
    """The topics of a new cluster, from one text or several texts and `StartTopic`s.

    Raises:
        TypeError: it is something else; the text is one sentence.
        ValueError: a text is not `NAME[:PARTITIONS[:REPLICAS]]`.
    """
    listed = [topics] if isinstance(topics, str | StartTopic) else topics
    if not isinstance(listed, Iterable):
        raise TypeError(f"The topics of a cluster are texts like 't:3' or StartTopics, not {topics!r}.")
    found = []
    for topic in listed:
        if not isinstance(topic, str | StartTopic):
            raise TypeError(f"A topic of a cluster is a text like 't:3' or a StartTopic, not {topic!r}.")
        found.append(topic if isinstance(topic, StartTopic) else StartTopic.parse(topic))
    return found
