"""Bodies of requests and responses for events: stored as they came, formatted when an event is read.

A small message is stored as its bytes, and decoded later. Of a message that is large because of its records everything
else
is stored, with a summary of the records; of any other large message only the size. So nothing stored holds on to a
frame,
and storing costs a copy of a few hundred bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from odradek.records.summary import summary_of
from odradek.wire import registry
from odradek.wire.primitives import uuid_text
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.wire.messages.fetch_response import FetchResponse
    from odradek.wire.messages.produce_request import ProduceRequest
    from odradek.wire.messages.share_fetch_response import ShareFetchResponse
    from odradek.wire.schema import Field, StructSpec

__all__ = ["BODY_BYTES_MAX", "PACKED", "Api", "Kept", "kept_frame", "kept_message", "kept_response", "rendered"]

BODY_BYTES_MAX = 4096
"""A longer message, without its records, is stored without a body."""
HIDDEN = "[hidden]"
"""Kafka's text in place of a secret (`Password.HIDDEN`)."""
SECRETS = frozenset({"authBytes", "hmac", "salt", "saltedPassword"})
"""Fields with secrets: of SASL, delegation tokens and SCRAM."""
NAMED_VALUES = frozenset({"name", "value"})
"""A struct with both fields is a config: a key and its value."""
ANSWERED_WITH_RECORDS = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})

E = TypeVar("E", bound=Struct)
Records: TypeAlias = bytes | memoryview | None
_pack = msgspec.msgpack.Encoder().encode


class Api(Struct, frozen=True):
    """One version of one API, and its messages.

    Events hold it, and the cycle collector does not track events: nothing in it may refer to a broker.
    """

    api_key: ApiKey
    version: int
    request_type: type[Struct]
    response_type: type[Struct]


Kept: TypeAlias = bytes | bytearray | Struct | int | None
"""The bytes of a message, the message with its records summarised, or its size; None: nothing is known."""
PACKED = -1
"""In place of a position: the bytes are the copy of a message that was handed over."""


def kept_frame(api: Api, frame: memoryview, start: int, request: Struct) -> Kept:
    """The body of a request that was decoded from these bytes; it begins at `start`, after the header."""
    size = len(frame) - start
    if size <= BODY_BYTES_MAX:
        return bytes(frame)
    return _short_produce(cast("ProduceRequest", request), size) if api.api_key is ApiKey.PRODUCE else size


def kept_response(
    api: Api, out: bytearray, start: int, splices: Sequence[tuple[int, memoryview]], response: Struct
) -> Kept:
    """The body of a response that was written as these bytes, with spliced records, after length and header."""
    size = len(out) - start
    if size <= BODY_BYTES_MAX and not splices:
        return out
    size += sum(len(view) for _, view in splices)
    if api.api_key in ANSWERED_WITH_RECORDS:
        return _short_fetch(cast("FetchResponse | ShareFetchResponse", response), size)
    return size


def kept_message(message: Struct) -> Kept:
    """The body of a message that is handed over within the process: a copy, because its receiver may change it."""
    try:
        data = _pack(message)
    except (TypeError, ValueError, OverflowError):
        return None  # such as a text that UTF-8 has no form for: no bytes are written that would refuse it
    return data if len(data) <= BODY_BYTES_MAX else None


def _short_produce(request: ProduceRequest, size: int) -> Kept:
    if not _is_short(size, (entry.records for topic in request.topic_data for entry in topic.partition_data)):
        return size
    topics = [
        replace(topic, partition_data=[_summarised(entry, entry.records) for entry in topic.partition_data])
        for topic in request.topic_data
    ]
    return replace(request, topic_data=topics)


def _short_fetch(response: FetchResponse | ShareFetchResponse, size: int) -> Kept:
    if not _is_short(size, (entry.records for topic in response.responses for entry in topic.partitions)):
        return size
    topics = [
        replace(topic, partitions=[_summarised(entry, entry.records) for entry in topic.partitions])
        for topic in response.responses
    ]
    return replace(response, responses=topics)


def _is_short(size: int, records: Iterable[Records]) -> bool:
    """Whether a message of this size is short without its records."""
    return size - sum(len(each or b"") for each in records) <= BODY_BYTES_MAX


def _summarised(entry: E, records: Records) -> E:
    return entry if records is None else replace(entry, records=summary_of(records))


def rendered(kept: Kept, start: int, cls: type[Struct], version: int) -> dict[str, object]:
    """The field `body` of an event, or `body_bytes` if only the size is known; neither if nothing is.

    Names and values are those of Kafka's own JSON form of a message; records and other bytes are summarised, and
    secrets are
    hidden. The message begins at `start` in its bytes; `PACKED`: the bytes are a copy.
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


def _plain(message: Struct) -> object:
    return msgspec.to_builtins(message, builtin_types=(bytes, bytearray, memoryview))


Show = Callable[[object], object]


@cache
def _shower(cls: type[Struct], version: int) -> Show:
    return _of_struct(registry.spec(cls).root, version)


def _of_struct(struct: StructSpec, version: int) -> Show:
    """Shows the fields of this version, by their names in JSON; tagged fields with defaults are left out."""
    parts = [
        (field.python_name, field.json_name, _of_field(field, version), field if version in field.tagged else None)
        for field in struct.fields
        if version in field.versions
    ]
    is_configuration = {field.json_name for field in struct.fields} >= NAMED_VALUES

    def show(content: object) -> dict[str, object]:
        assert isinstance(content, dict), "a struct is a mapping here"
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
        return _hidden
    show = _of_struct(field.struct, version) if field.struct is not None else _BY_KIND.get(field.kind, _same)
    if not field.is_array:
        return show

    def show_all(values: object) -> list[object]:
        assert isinstance(values, list), "an array is a list"
        return [show(each) for each in values]

    return show_all


def _hidden(_: object) -> object:
    return HIDDEN


def _same(value: object) -> object:
    return value


def _records(value: object) -> object:
    if isinstance(value, dict):
        return value  # summarised already
    assert isinstance(value, bytes | memoryview), "records are bytes"
    return _plain(summary_of(value))


def _bytes(value: object) -> object:
    assert isinstance(value, bytes | bytearray | memoryview), "bytes are bytes"
    return {"bytes": len(value)}


def _uuid(value: object) -> object:
    assert isinstance(value, bytes), "a uuid is of 16 bytes"
    return uuid_text(value)


def _float(value: object) -> object:
    """A number for JSON, which has finite numbers only; Kafka writes a text for the others."""
    return _NOT_FINITE.get(str(value), value)


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_BY_KIND: Mapping[str, Show] = {"records": _records, "bytes": _bytes, "uuid": _uuid, "float64": _float}


def _may_be_shown(name: str) -> bool:
    from odradek.host.loggers import LOGGERS, ROOT
    from odradek.host.silent_loggers import SILENT_LOGGERS
    from odradek.metadata.secrets import may_be_shown  # few messages have configurations

    return name == ROOT or name in LOGGERS or name in SILENT_LOGGERS or may_be_shown(name)


def _is_default(field: Field, value: object) -> bool:
    if field.struct is not None and isinstance(value, dict):
        return all(_is_default(each, value[each.python_name]) for each in field.struct.fields)
    if field.default is ...:
        return value is not None and value == type(value)()
    return bool(value == [] if field.default == () else value == field.default)
