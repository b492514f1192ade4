"""`odradek codec-check FILE...`: does the codec agree with vectors that Kafka's own classes made?

A vector file holds one JSON object a line, possibly gzipped; `-` is standard input.
A message is decoded and compared field by field, what was decoded is encoded again,
and it is encoded from its fields and compared byte by byte; record batches are compared by what is in them.
The format of the files is in protocol_schemas/README.md.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from odradek.records import state
from odradek.tools.codec_check_compare import NotAVector, compare_bytes, difference, hexadecimal
from odradek.wire import registry
from odradek.wire.jsonform import from_json, to_json
from odradek.wire.messages import METADATA_RECORDS

__all__ = ["main"]

_GZIP = b"\x1f\x8b"


def main(paths: list[str]) -> int:
    """Check all files, print a line for each failure and the totals; return the exit code."""
    passed = failed = 0
    for path in paths:
        for failure in _check_file(path):
            if failure is None:
                passed += 1
            else:
                failed += 1
                print(failure)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _check_file(path: str) -> Iterator[str | None]:
    """For each vector None, or one sentence about the first mistake."""
    name = "standard input" if path == "-" else path
    number = 0
    try:
        for number, line in enumerate(_lines(path), 1):
            if not line.strip():
                continue
            fault = _check_line(line)
            yield None if fault is None else f"{name}:{number}: {fault}"
    except (OSError, EOFError, zlib.error) as error:
        # OSError's own text repeats the path.
        reason = getattr(error, "strerror", None) or error
        yield f"{name} cannot be read{f' behind line {number}' if number else ''}: {reason}"
    else:
        if number == 0:
            yield f"{name} is empty"


def _lines(path: str) -> Iterator[bytes]:
    if path == "-":
        data = sys.stdin.buffer.read()
        yield from (gzip.decompress(data) if data.startswith(_GZIP) else data).splitlines()
        return
    with Path(path).open("rb") as file:
        zipped = file.read(2) == _GZIP
        file.seek(0)
        yield from gzip.GzipFile(fileobj=file) if zipped else file


def _check_line(line: bytes) -> str | None:
    try:
        vector = json.loads(line)
    except (ValueError, RecursionError):
        return "not a vector: the line is not JSON"
    if not isinstance(vector, dict):
        return "not a vector: the line is not a JSON object"
    title = " ".join(str(vector[key]) for key in ("name", "version", "shape", "case") if key in vector)
    try:
        fault = _checker(vector)(vector)
    except NotAVector as error:
        return f"not a vector: {error}"
    except Exception as error:  # any exception of the codec is a failure to report; the check goes on
        fault = f"{type(error).__name__}: {error}"
    return None if fault is None else f"{title}: {fault}"


def _checker(vector: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], str | None]:
    if vector.get("type") == "records":
        from odradek.tools.codec_check_batches import check_batches  # and with it the compression libraries

        return check_batches
    return check_message


def check_message(vector: Mapping[str, Any]) -> str | None:
    """The first mistake in reading or writing this message; None if there is none."""
    for key in ("name", "version", "json", "hex"):
        if key not in vector:
            raise NotAVector(f"it has no {key!r}")
    name, version, data = vector["name"], vector["version"], hexadecimal(vector, "hex")
    try:
        cls = registry.message_type(name)
    except (KeyError, TypeError):
        return "there is no message of this name"
    lowest, highest = registry.valid_versions(cls)
    if not isinstance(version, int) or not lowest <= version <= highest:
        return f"there is no such version, but {lowest} to {highest}"
    unknown = [(tag["tag"], bytes.fromhex(tag["hex"])) for tag in vector.get("unknownTaggedFields", ())]
    return (
        _check_head(vector, cls, version)
        or _check_decode(cls, version, data, vector["json"], unknown)
        or _check_encode(cls, version, data, vector["json"], unknown)
        or _check_framed(vector, cls, version, data)
    )


def _check_head(vector: Mapping[str, Any], cls: type[msgspec.Struct], version: int) -> str | None:
    spec = registry.spec(cls)
    ours = {"type": spec.type, "apiKey": spec.api_key, "flexible": registry.is_flexible(cls, version)}
    for key, value in ours.items():
        if vector.get(key, value) != value:
            return f"{key} is {value!r} here, {vector[key]!r} in the vector"
    return None


def _check_decode(
    cls: type[msgspec.Struct], version: int, data: bytes, fields: Any, unknown: list[tuple[int, bytes]]
) -> str | None:
    message = registry.decode(cls, data, version)
    decoded = to_json(message, version)
    if decoded != fields:
        return f"decoded, {difference(decoded, fields)}"
    kept = getattr(message, "unknown_tagged_fields", [])
    if kept != unknown:
        return f"decoded, its unknown tagged fields are {kept}, not {unknown}"
    return compare_bytes("encoded again", registry.encode(message, version), data)


def _check_encode(
    cls: type[msgspec.Struct], version: int, data: bytes, fields: Any, unknown: list[tuple[int, bytes]]
) -> str | None:
    message = from_json(cls, fields, version)
    if unknown:
        message.unknown_tagged_fields = unknown  # type: ignore[attr-defined]
    return compare_bytes("encoded from its fields", registry.encode(message, version), data)


_FRAME_VERSION = 1


def _check_framed(vector: Mapping[str, Any], cls: type[msgspec.Struct], version: int, data: bytes) -> str | None:
    """The key or value of a record in a log: its kind and version, then the message."""
    if "framedHex" not in vector:
        return None
    framed = hexadecimal(vector, "framedHex")
    message = registry.decode(cls, data, version)
    match vector.get("type"):
        case "coordinator-key":
            ours = state.encode_key(message)
        case "metadata" if cls.__module__.rpartition(".")[2] in METADATA_RECORDS.values():
            ours = state.encode_metadata(message, version)
        case "metadata":
            # Records of the remote log metadata topic, which Odradek never writes; their types are all below 128.
            ours = bytes([_FRAME_VERSION, vector["apiKey"], version]) + data
        case _:
            ours = state.encode_value(message, version)
    return compare_bytes("framed", ours, framed) or _check_unframed(vector, message, framed)


def _check_unframed(vector: Mapping[str, Any], message: msgspec.Struct, framed: bytes) -> str | None:
    cls = type(message)
    match vector.get("type"):
        case "coordinator-key":
            read: msgspec.Struct | None = state.decode_key(framed, cls)
        case "metadata" if cls.__module__.rpartition(".")[2] in METADATA_RECORDS.values():
            read = state.decode_metadata(framed)
        case "metadata":
            return None
        case _:
            read = state.decode_value(framed, cls)
    return None if read == message else f"read from its frame, it is {read!r}, not {message!r}"
