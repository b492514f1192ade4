"""Versions, readers and writers of an API key or a message class.

The module of a message is imported at its first use, and those of its readers and writers at theirs.
Callers on the hot path keep the results of `reader` and `writer`; others use `decode` and `encode`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

import msgspec

from odradek.wire.errors import DecodeError
from odradek.wire.messages import APIS, METADATA_RECORDS, MODULES, ApiKey, ApiSpec
from odradek.wire.primitives import Splices

if TYPE_CHECKING:
    from odradek.wire.schema import MessageSpec

__all__ = [
    "APIS",
    "NAMES",
    "ApiKey",
    "ApiSpec",
    "Reader",
    "Writer",
    "api_of",
    "codec_module",
    "decode",
    "encode",
    "is_flexible",
    "join",
    "message_type",
    "metadata_record_type",
    "newest_version",
    "reader",
    "request_header_version",
    "request_type",
    "response_header_version",
    "response_type",
    "spec",
    "struct_types",
    "valid_versions",
    "writer",
]

M = TypeVar("M", bound=msgspec.Struct)
T = TypeVar("T", bound=msgspec.Struct)

Reader: TypeAlias = Callable[[memoryview, int], tuple[M, int]]
"""Reads a message at a position; gives it with the position behind it; raises `DecodeError`."""

Writer: TypeAlias = Callable[[T, bytearray, Splices], None]
"""Appends a message; large records are noted as splices instead.

Raises `EncodeError`, and then the output ends anywhere.
"""

NAMES: dict[int, str] = {int(api_key): api_key.name for api_key in ApiKey}
"""The names of the APIs, for events about every request."""


def _module(cls: type) -> ModuleType:
    module = sys.modules[cls.__module__]
    if getattr(module, "MESSAGE", None) is not cls:
        raise TypeError(f"{cls.__name__} is not a message")
    return module


def _imported(name: str) -> ModuleType:
    return import_module(name)


def codec_module(cls: type[msgspec.Struct], codec: str) -> ModuleType:
    """The module of a message's readers (`reader`) or writers (`writer`), which may be that of its classes."""
    module = _module(cls)
    return module if hasattr(module, "READERS") else _imported(f"{module.__name__}_{codec}")


@cache
def _readers(cls: type[M]) -> Mapping[int, Reader[M]]:
    readers: Mapping[int, Reader[M]] = codec_module(cls, "reader").READERS
    return readers


@cache
def _writers(cls: type[T]) -> Mapping[int, Writer[T]]:
    writers: Mapping[int, Writer[T]] = codec_module(cls, "writer").WRITERS
    return writers


def reader(cls: type[M], version: int) -> Reader[M]:
    """The reader of one version. Raises ValueError for a version that the message does not have."""
    found = _readers(cls).get(version)
    if found is None:
        raise _no_such_version(cls, version)
    return found


def writer(cls: type[T], version: int) -> Writer[T]:
    """The writer of one version. Raises ValueError for a version that the message does not have."""
    found = _writers(cls).get(version)
    if found is None:
        raise _no_such_version(cls, version)
    return found


def _no_such_version(cls: type[msgspec.Struct], version: int) -> ValueError:
    low, high = valid_versions(cls)
    return ValueError(f"{cls.__name__} has versions {low} to {high}, not {version}")


def struct_types(cls: type[msgspec.Struct]) -> Mapping[str, type[msgspec.Struct]]:
    """The classes of a message's structs, by their names in the schema."""
    names = vars(_module(cls))
    return {struct.name: names[struct.name] for struct in spec(cls).structs()}


def decode(cls: type[M], data: bytes | bytearray | memoryview, version: int, *, exact: bool = True) -> M:
    """Read a whole message. `exact` refuses bytes behind its end. Records in it are views into `data`."""
    buf = memoryview(data)
    message, end = reader(cls, version)(buf, 0)
    if exact and end != len(buf):
        raise DecodeError(
            f"the message ends here, but {len(buf) - end} bytes follow",
            field="",
            offset=end,
            message=cls.__name__,
        )
    return message


def encode(message: msgspec.Struct, version: int) -> bytes:
    """A whole message as bytes."""
    out = bytearray()
    splices: Splices = []
    writer(type(message), version)(message, out, splices)
    return b"".join(join(out, splices)) if splices else bytes(out)


def join(out: bytearray, splices: Splices) -> list[bytes | memoryview]:
    """The output as chunks in order, the splices in their places. `out` may be changed afterwards."""
    chunks: list[bytes | memoryview] = []
    done = 0
    for position, view in splices:
        if position > done:
            chunks.append(bytes(out[done:position]))
        chunks.append(view)
        done = position
    if done < len(out):
        chunks.append(bytes(out[done:]))
    return chunks


def _message_in(module: str) -> type[msgspec.Struct]:
    # Importing all messages would take a third of a second, so that a process names those that it needs.
    message: type[msgspec.Struct] = _imported(f"odradek.wire.messages.{module}").MESSAGE
    return message


def message_type(name: str) -> type[msgspec.Struct]:
    """The class of the message with this schema name. Raises KeyError if there is none."""
    return _message_in(MODULES[name])


@cache
def request_type(api_key: int) -> type[msgspec.Struct]:
    """Raises KeyError for an unknown API."""
    return _message_in(f"{APIS[api_key].stem}_request")


@cache
def response_type(api_key: int) -> type[msgspec.Struct]:
    """Raises KeyError for an unknown API."""
    return _message_in(f"{APIS[api_key].stem}_response")


_REQUEST_MODULES = {f"odradek.wire.messages.{api.stem}_request": ApiKey(key) for key, api in APIS.items()}


def api_of(request: type[msgspec.Struct]) -> ApiKey:
    """The API of a class of requests. Raises KeyError for any other."""
    return _REQUEST_MODULES[request.__module__]


@cache
def metadata_record_type(record_type: int) -> type[msgspec.Struct]:
    """The class of a record of `__cluster_metadata`. Raises KeyError for an unknown type."""
    return _message_in(METADATA_RECORDS[record_type])


@cache
def valid_versions(cls: type[msgspec.Struct]) -> tuple[int, int]:
    """The lowest and the highest version that can be read and written."""
    return cast("tuple[int, int]", _module(cls).VERSIONS)


def is_flexible(cls: type[msgspec.Struct], version: int) -> bool:
    """Whether the version has tagged fields."""
    first = _module(cls).FLEXIBLE
    return first is not None and version >= first


def spec(cls: type[msgspec.Struct]) -> MessageSpec:
    """The schema of a message, for code that handles all messages."""
    from odradek.wire.diagnosis import spec_of  # parsing schemas is for tools and tests

    module = _module(cls)
    found = spec_of(module.SCHEMA)
    # The structs of a dialect's message are made below the ordinary ones, so their fields have no order to count on.
    return found.extending(module.EXTENDS) if hasattr(module, "EXTENDS") else found


def newest_version(api_key: ApiKey) -> int:
    """The highest version of a request: a message of it holds every field."""
    return _NEWEST[api_key]


class _Newest(dict[ApiKey, int]):
    def __missing__(self, api_key: ApiKey) -> int:
        self[api_key] = newest = valid_versions(request_type(api_key))[1]
        return newest


_NEWEST = _Newest()


def request_header_version(api_key: int, version: int) -> int:
    """The version of the header in front of a request. Raises KeyError for an unknown API."""
    flexible = APIS[api_key].flexible
    if flexible is not None and version >= flexible:
        return 2
    # The one request from before headers had a client id.
    return 0 if api_key == ApiKey.CONTROLLED_SHUTDOWN and version == 0 else 1


def response_header_version(api_key: int, version: int) -> int:
    """The version of the header in front of a response. Raises KeyError for an unknown API."""
    # KIP-511: a client that asked for a version that is too high must understand the response.
    if api_key == ApiKey.API_VERSIONS:
        return 0
    flexible = APIS[api_key].flexible
    return 1 if flexible is not None and version >= flexible else 0
