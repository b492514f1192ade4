"""What requests and responses say, for events: kept as it came, and made readable when somebody looks.

A small message is kept as its bytes, and decoded later. A large one is not kept: of one that is large because of its
records the rest is, with a summary of the records, and of any other the size alone. So nothing that is kept holds on to
a frame, and keeping costs a copy of a few hundred bytes.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from odradek.records.summary import summary_of
from odradek.wire import registry
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.wire.schema import Field, StructSpec

__all__ = ["BODY_BYTES_MAX", "PACKED", "Api", "Kept", "kept_frame", "kept_message", "kept_response", "rendered"]

BODY_BYTES_MAX = 4096
"""A longer message, its records left out, is told without a body."""
HIDDEN = "[hidden]"
"""What Kafka writes for a secret (its `Password.HIDDEN`)."""
SECRETS = frozenset({"authBytes", "hmac", "salt", "saltedPassword"})
"""Fields that let somebody in: of SASL, delegation tokens and SCRAM."""
NAMED_VALUES = frozenset({"name", "value"})
"""A struct with both fields is a configuration: a key and its value."""
IN_PATHS: Mapping[ApiKey, tuple[str, str]] = {
    ApiKey.PRODUCE: ("topic_data", "partition_data"),
    ApiKey.FETCH: ("responses", "partitions"),
    ApiKey.SHARE_FETCH: ("responses", "partitions"),
}
"""Where the entries with records are, in the request of Produce and in the response of the others."""
ANSWERS_RECORDS = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})

_pack = msgspec.msgpack.Encoder().encode


class Api(Protocol):
    """One version of one API, as a node serves it."""

    @property
    def api_key(self) -> ApiKey: ...
    @property
    def version(self) -> int: ...
    @property
    def request_type(self) -> type[Struct]: ...
    @property
    def response_type(self) -> type[Struct]: ...


Kept: TypeAlias = bytes | bytearray | Struct | int | None
"""The bytes of a message, the message with its records summarised, or its size; None: nothing is known."""
PACKED = -1
"""In place of where a message begins in its bytes: they are the copy of one that was handed over."""


# ---------------------------------------------------------------------- to keep


def kept_frame(api: Api, frame: memoryview, start: int, request: Struct) -> Kept:
    """Of a request that was decoded from these bytes, where it begins behind its header."""
    size = len(frame) - start
    if size <= BODY_BYTES_MAX:
        return bytes(frame)
    return _in_short(request, IN_PATHS.get(api.api_key) if api.api_key is ApiKey.PRODUCE else None, size)


def kept_response(
    api: Api, out: bytearray, start: int, splices: Sequence[tuple[int, memoryview]], response: Struct
) -> Kept:
    """Of a response that was written as these bytes, with records spliced in; before it are its length and header."""
    size = len(out) - start
    if size <= BODY_BYTES_MAX and not splices:
        return out
    size += sum(len(view) for _, view in splices)
    return _in_short(response, IN_PATHS.get(api.api_key) if api.api_key in ANSWERS_RECORDS else None, size)


def kept_message(message: Struct) -> Kept:
    """Of a message that is handed over within the process: a copy, because those who have it may change it."""
    try:
        data = _pack(message)
    except (TypeError, ValueError, OverflowError):
        return None  # such as a text that UTF-8 has no form for: no bytes are written that would refuse it
    return data if len(data) <= BODY_BYTES_MAX else None


def _in_short(message: Any, path: tuple[str, str] | None, size: int) -> Kept:
    """The message with its records summarised, if it is short without them; else its size."""
    if path is None:
        return size
    topics, partitions = path
    records = sum(
        len(entry.records or b"") for topic in getattr(message, topics) for entry in getattr(topic, partitions)
    )
    if size - records > BODY_BYTES_MAX:
        return size
    short: Struct = replace(
        message,
        **{
            topics: [
                replace(topic, **{partitions: [_without_records(entry) for entry in getattr(topic, partitions)]})
                for topic in getattr(message, topics)
            ]
        },
    )
    return short


def _without_records(entry: Any) -> Any:
    return entry if entry.records is None else replace(entry, records=summary_of(entry.records))


# ---------------------------------------------------------------------- to show


def rendered(kept: Kept, start: int, cls: type[Struct], version: int) -> dict[str, object]:
    """The field `body` of an event, or `body_bytes` where the size alone is known; neither where nothing is.

    Names and values are those of Kafka's own JSON form of a message; records and other bytes are summarised, and
    secrets are not shown. `start` is where the message begins in its bytes, or `PACKED`.
    """
    if kept is None:
        return {}
    if isinstance(kept, int):
        return {"body_bytes": kept}
    if not isinstance(kept, bytes | bytearray):
        content = _plain(kept)
    elif start == PACKED:
        content = msgspec.msgpack.decode(kept)
    else:
        content = _plain(registry.reader(cls, version)(memoryview(kept), start)[0])
    return {"body": _shower(cls, version)(content)}


def _plain(message: Struct) -> Any:
    return msgspec.to_builtins(message, builtin_types=(bytes, bytearray, memoryview))


Show = Callable[[Any], object]


@cache
def _shower(cls: type[Struct], version: int) -> Show:
    return _of_struct(registry.spec(cls).root, version)


def _of_struct(struct: StructSpec, version: int) -> Show:
    """Shows the fields that the version has, by their names in JSON; a tagged field with its default is left out."""
    parts = [
        (field.python_name, field.json_name, _of_field(field, version), field if version in field.tagged else None)
        for field in struct.fields
        if version in field.versions
    ]
    is_configuration = {field.json_name for field in struct.fields} >= NAMED_VALUES

    def show(content: Mapping[str, Any]) -> dict[str, object]:
        shown: dict[str, object] = {}
        for name, json_name, show_field, tagged in parts:
            value = content.get(name)
            if tagged is None or not _is_default(tagged, value):
                shown[json_name] = None if value is None else show_field(value)
        if is_configuration and shown.get("value") is not None and not _may_be_shown(content["name"]):
            shown["value"] = HIDDEN
        return shown

    return show


def _of_field(field: Field, version: int) -> Show:
    if field.json_name in SECRETS:
        return lambda _: HIDDEN
    show = _of_struct(field.struct, version) if field.struct is not None else _BY_KIND.get(field.kind, _same)
    return (lambda values: [show(each) for each in values]) if field.is_array else show


def _same(value: object) -> object:
    return value


def _records(value: Any) -> object:
    return value if isinstance(value, dict) else _plain(summary_of(value))


def _bytes(value: Any) -> object:
    return {"bytes": len(value)}


def _uuid(value: bytes) -> object:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _float(value: float) -> object:
    """Numbers of JSON are finite; Kafka writes a text for the others."""
    return value if math.isfinite(value) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]


_BY_KIND: Mapping[str, Show] = {"records": _records, "bytes": _bytes, "uuid": _uuid, "float64": _float}


def _may_be_shown(name: str) -> bool:
    from odradek.metadata.describe import may_be_shown  # few messages have configurations
    from odradek.node.loggers import LOGGERS, ROOT
    from odradek.node.silent_loggers import SILENT_LOGGERS

    return name == ROOT or name in LOGGERS or name in SILENT_LOGGERS or may_be_shown(name)


def _is_default(field: Field, value: Any) -> bool:
    if field.struct is not None and not field.is_array and value is not None:
        return all(_is_default(each, value[each.python_name]) for each in field.struct.fields)
    if field.default is ...:
        return value is not None and bool(value == type(value)())
    return bool(value == [] if field.default == () else value == field.default)
