"""Checks of the arguments of `Cluster` and its methods, before anything else happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import wraps
from inspect import signature
from types import MappingProxyType
from typing import Annotated, ParamSpec, TypeVar

import msgspec
from msgspec import Meta, Struct

from odradek.faults.armed import Armed
from odradek.metadata.controller_role import StartTopic

__all__ = ["checked", "checked_topics", "checked_types"]

__tracebackhide__ = True
__unittest = True
"""The check wraps every method, and its error is one sentence: pytest and unittest leave these frames out."""
P = ParamSpec("P")
R = TypeVar("R")

_KINDS: Mapping[str, tuple[Callable[[object], bool], str]] = MappingProxyType(
    {
        "int": (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
        "float": (lambda value: isinstance(value, int | float) and not isinstance(value, bool), "a number"),
        "str": (lambda value: isinstance(value, str), "a text"),
        "bool": (lambda value: isinstance(value, bool), "True or False"),
        "None": (lambda value: value is None, "None"),
        "timedelta": (lambda value: isinstance(value, timedelta), "a timedelta"),
        "Armed": (lambda value: isinstance(value, Armed), "what add_rule gave back"),
        "Mapping[str, object]": (lambda value: isinstance(value, Mapping), "a mapping"),
        "Callable[[], object]": (callable, "a function without arguments"),
    }
)
"""By annotation: the types that an argument may have, and their name in a sentence."""


def checked(method: Callable[P, R]) -> Callable[P, R]:
    """Wrap a method: it raises TypeError, with one sentence, for an argument that does not fit its annotation.

    Annotations that are not in the table are left to the method.
    """
    names = list(signature(method).parameters)
    annotated = {name: str(each.annotation).split(" | ") for name, each in signature(method).parameters.items()}
    kinds = {name: parts for name, parts in annotated.items() if _KINDS.keys() >= set(parts)}

    @wraps(method)
    def run(*args: P.args, **others: P.kwargs) -> R:
        for name, value in (*zip(names, args, strict=False), *others.items()):
            parts = kinds.get(name)
            if parts is not None and not any(_KINDS[part][0](value) for part in parts):
                wanted = " or ".join(_KINDS[part][1] for part in parts)
                raise TypeError(f"Wrong argument {name} of {method.__name__}: it is {wanted}, not {value!r}.")
        return method(*args, **others)

    return run


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
    """Check the type of each argument.

    Raises:
        TypeError: one has the wrong type; the text is one sentence that names it.
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
        TypeError: an element has another type; the text is one sentence.
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
