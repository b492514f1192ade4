"""The slow path of the generated codecs, called after a failure: it explains it. Imported by the first failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.wire.errors import DecodeError, EncodeError

__all__ = ["decode_error", "encode_error"]


def decode_error(schema: str, version: int, buf: memoryview, start: int) -> DecodeError:
    """Find what is wrong with bytes that a reader has refused."""
    from odradek.wire import diagnosis

    return diagnosis.decode_error(schema, version, buf, start)


def encode_error(schema: str, version: int, message: object) -> EncodeError:
    """Find what cannot be written in this version."""
    from odradek.wire import diagnosis

    return diagnosis.encode_error(schema, version, message)
