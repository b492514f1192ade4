"""Readers and writers for long messages: generators that pause after each array entry, so that others get a turn.

They are generated from the schema, like the ordinary ones, when the first long message of their kind arrives; most
processes never see one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from odradek.wire import registry
from odradek.wire.primitives import Splices

if TYPE_CHECKING:
    from msgspec import Struct

M = TypeVar("M", bound="Struct")

__all__ = ["LongReader", "LongWriter", "long_reader", "long_writer"]

LongReader: TypeAlias = Callable[[memoryview, int], Generator[int, None, tuple[M, int]]]
"""Reads a message at a position, and yields the number of entries that come next; raises `DecodeError`."""

LongWriter: TypeAlias = Callable[[M, bytearray, Splices], Generator[int, None, None]]
"""Appends a message, and yields the number of entries that come next; raises `EncodeError`."""


@cache
def long_reader(cls: type[M], version: int) -> LongReader[M]:
    """The reader of one version."""
    from odradek.wire.emit_reader import reader_source  # the generator is for builds, and for this

    body = reader_source(registry.spec(cls), version, set(), gives_way=True)
    end = ["        return message, pos", "    except READ_ERRORS:"]
    end.append(f"        raise decode_error(SCHEMA, {version}, buf, start) from None")
    made: LongReader[M] = _beside(cls, "reader", "read(buf, pos)", [*body, *end]).read
    return made


@cache
def long_writer(cls: type[M], version: int) -> LongWriter[M]:
    """The writer of one version."""
    from odradek.wire.emit_writer import writer_source

    body = writer_source(registry.spec(cls), version, set(), gives_way=True)
    end = ["    except WRITE_ERRORS:", f"        raise encode_error(SCHEMA, {version}, message) from None"]
    made: LongWriter[M] = _beside(cls, "writer", "write(message, out, splices)", [*body, *end]).write
    return made


def _beside(cls: type[Struct], codec: str, signature: str, lines: list[str]) -> ModuleType:
    """A module with all names of the message's ordinary readers or writers, and one function more."""
    source = "\n".join([f"from __future__ import annotations\ndef {signature}:", "    yield 0", *lines])
    module = ModuleType(f"{cls.__module__}_long")
    vars(module).update(vars(registry.codec_module(cls, codec)))
    exec(compile(source, f"<long {signature} of {cls.__name__}>", "exec"), vars(module))
    return module
