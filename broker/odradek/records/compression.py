"""The five compression types of record batches; `compressors` does the work."""

from __future__ import annotations

from enum import IntEnum
from mmap import mmap

from odradek.wire.errors import ErrorCode

__all__ = [
    "DECOMPRESSED_BYTES_MAX",
    "Compression",
    "Data",
    "DecompressionError",
    "Payload",
    "too_large",
]

DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024
"""Limit of the decompressed size of one batch; Kafka has none, because it never holds a whole batch."""

Data = bytes | bytearray | memoryview
Payload = bytes | mmap
"""Decompressed data: mapped memory if it is large, because a copy of 100 MB stops every thread for its time."""


class Compression(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionError(Exception):
    """Compressed bytes are damaged, or expand beyond the limit."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def too_large(limit: int) -> DecompressionError:
    """The output is longer than the limit. After this error Kafka's producers split the batch and send the halves."""
    return DecompressionError(ErrorCode.MESSAGE_TOO_LARGE, f"The records expand to more than {limit:,} bytes")
