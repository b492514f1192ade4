"""Readers and writers for long messages: generators that pause after each array entry, so that others get a turn.

They are generated from the schema, like the ordinary ones, when the first long message of their kind arrives; most
processes never see one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from odradek.wire import registry
from odradek.wire.primitives import Splices

if TYPE_CHECKING:
    import msgspec

__all__ = ["LongReader", "LongWriter", "long_reader", "long_writer"]

LongReader: TypeAlias = Callable[[memoryview, int], Generator[int, None, tuple[Any, int]]]
"""Reads a message at a position, and yields the number of entries that come next; raises `DecodeError`."""

LongWriter: TypeAlias = Callable[[Any, bytearray, Splices], Generator[int, None, None]]
"""Appends a message, and yields the number of entries that come next; raises `EncodeError`."""


@cache
def long_reader(cls: type[msgspec.Struct], version: int) -> LongReader:
    """The reader of one version."""
    from odradek.wire.emit_reader import reader_source  # the generator is for builds, and for this

    body = reader_source(registry.spec(cls), version, set(), gives_way=True)
    end = ["        return message, pos", "    except READ_ERRORS:"]
    end.append(f"        raise decode_error(SCHEMA, {version}, buf, start) from None")
    made: LongReader = _function(cls, "read(buf, pos)", [*body, *end])
    return made


@cache
def long_writer(cls: type[msgspec.Struct], version: int) -> LongWriter:
    """The writer of one version."""
    from odradek.wire.emit_writer import writer_source

    body = writer_source(registry.spec(cls), version, set(), gives_way=True)
    end = ["    except WRITE_ERRORS:", f"        raise encode_error(SCHEMA, {version}, message) from None"]
    made: LongWriter = _function(cls, "write(message, out, splices)", [*body, *end])
    return made


def _function(cls: type, signature: str, lines: list[str]) -> Any:
    """A function that stands beside the ordinary ones, with the same names around it."""
    source = "\n".join([f"from __future__ import annotations\ndef {signature}:", "    yield 0", *lines])
    namespace = dict(vars(sys.modules[cls.__module__]))
    exec(compile(source, f"<long {signature} of {cls.__name__}>", "exec"), namespace)
    return namespace[signature.partition("(")[0]]
