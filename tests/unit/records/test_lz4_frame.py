from __future__ import annotations

import contextlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.records.compression import Compression
from odradek.records.compressors import compress
from odradek.records.lz4_frame import frame, with_checksum, with_old_checksum, write

FRAME = compress(Compression.LZ4, b"some data " * 100)


def with_options(**options: bool) -> bytes:
    stream = cramjam.lz4.Compressor(block_linked=False, **options)
    stream.compress(b"some data " * 100)
    return bytes(stream.finish())


def test_old_clients_cover_the_magic_number_too() -> None:
    """Of the same two flag bytes, 0x82 is the right checksum and 0x1a the one that messages of magic 0 have."""
    right, wrong = bytes.fromhex("04224d1860408200000000"), bytes.fromhex("04224d1860401a00000000")
    assert wrong == with_old_checksum(memoryview(right))
    assert right == with_checksum(memoryview(wrong))
    assert FRAME == with_checksum(memoryview(with_old_checksum(memoryview(FRAME))))


def test_a_descriptor_with_a_content_size_has_its_checksum_too() -> None:
    size, block = (4).to_bytes(8, "little"), b"\x04\0\0\x80abcd"  # stored as it is
    mended = with_checksum(memoryview(b"\x04\x22\x4d\x18\x68\x40" + size + b"?" + block + bytes(4)))
    assert b"abcd" == bytes(cramjam.lz4.decompress(bytes(mended)))


@pytest.mark.parametrize("options", [{}, {"content_checksum": True}, {"content_checksum": False}])
def test_a_frame_ends_behind_its_end_mark(options: dict[str, bool]) -> None:
    whole = with_options(**options)
    assert whole == frame(memoryview(whole + b"\0\0\0\0junk"))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no LZ4 frame"),
        (b"\x04\x22\x4d\x18", "no LZ4 frame"),
        (b"\x05\x22\x4d\x18" + FRAME[4:], "no LZ4 frame"),
        (FRAME[:4] + b"\xa0" + FRAME[5:], "unknown frame flags"),
        (FRAME[:4] + b"\x61" + FRAME[5:], "unknown frame flags"),
        (FRAME[:4] + b"\x40" + FRAME[5:], "dependent block stream"),
        (FRAME[:6], "cut off"),
        (FRAME[:-1], "cut off"),
        (FRAME[:20], "cut off"),
    ],
)
def test_what_kafkas_reader_refuses(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        frame(memoryview(data))


def test_what_does_not_shrink_is_stored() -> None:
    noise = bytes(range(256)) * 2 + bytes(range(255, -1, -1))
    packed = write(memoryview(noise[:100]))
    assert FRAME[:7] + b"\x64\0\0\x80" + noise[:100] + bytes(4) == packed
    long = noise * 500
    assert long == bytes(cramjam.lz4.decompress(write(memoryview(long))))


@given(st.binary(max_size=60))
def test_any_bytes_end_in_a_frame_or_a_value_error(tail: bytes) -> None:
    data = memoryview(FRAME[:7] + tail)
    with contextlib.suppress(ValueError):
        assert len(frame(data)) <= len(data)
