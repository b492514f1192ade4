from __future__ import annotations

import gzip
import tracemalloc
import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.unit.records.helpers import CODECS

from odradek.records.compression import Compression, DecompressionError
from odradek.records.compressors import compress, decompress
from odradek.wire.errors import ErrorCode

TEXT = b"".join(b"record %d; " % index for index in range(20_000))


@given(st.sampled_from(Compression), st.binary(max_size=2000) | st.builds(bytes, st.integers(0, 200_000)))
def test_data_come_back(codec: Compression, data: bytes) -> None:
    packed = compress(codec, data)
    if data or codec is not Compression.SNAPPY:
        assert data == decompress(codec, packed, limit=len(data))
    assert data == decompress(codec, memoryview(packed))


@pytest.mark.parametrize("codec", CODECS)
def test_all_kinds_of_bytes_are_taken(codec: Compression) -> None:
    packed = compress(codec, bytearray(TEXT))
    assert len(packed) < len(TEXT)
    for data in (packed, bytearray(packed), memoryview(b"??" + packed)[2:]):
        assert TEXT == decompress(codec, data)


@pytest.mark.parametrize("codec", Compression)
def test_the_limit_is_exact(codec: Compression) -> None:
    packed = compress(codec, TEXT)
    assert TEXT == decompress(codec, packed, limit=len(TEXT))
    with pytest.raises(DecompressionError) as caught:
        decompress(codec, packed, limit=len(TEXT) - 1)
    assert ErrorCode.MESSAGE_TOO_LARGE is caught.value.error


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_costs_no_memory(codec: Compression) -> None:
    bomb = compress(codec, bytes(32 * 1024 * 1024))
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionError) as caught:
            decompress(codec, bomb, limit=1024 * 1024)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ErrorCode.MESSAGE_TOO_LARGE is caught.value.error
    assert peak < 8 * len(bomb) + 4 * 1024 * 1024


def test_a_snappy_length_that_the_data_cannot_hold_is_not_believed() -> None:
    claims_100_mb = b"\x80\xc2\xd7\x2f" + b"\x00a"
    with pytest.raises(DecompressionError, match="6 bytes cannot hold 100000000"):
        decompress(Compression.SNAPPY, claims_100_mb)


def test_snappy_comes_in_the_framing_of_java_and_without() -> None:
    packed = compress(Compression.SNAPPY, TEXT)
    assert packed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert TEXT == decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)))
    assert b"" == decompress(Compression.SNAPPY, compress(Compression.SNAPPY, b""))


def test_gzip_streams_may_follow_one_another_and_other_bytes_are_ignored() -> None:
    packed = gzip.compress(b"one") + gzip.compress(b"two")
    assert b"onetwo" == decompress(Compression.GZIP, packed)
    assert b"onetwo" == decompress(Compression.GZIP, packed + b"junk")
    with pytest.raises(DecompressionError):
        decompress(Compression.GZIP, packed, limit=5)
    with pytest.raises(DecompressionError):
        decompress(Compression.GZIP, zlib.compress(b"another container"))


class Counting:
    """zlib's decompressor, and how many bytes all of its kind were given."""

    real = zlib.decompressobj
    given = 0

    def __init__(self, wbits: int) -> None:
        self._stream = Counting.real(wbits)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        Counting.given += len(data)
        return self._stream.decompress(data, max_length)

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unconsumed_tail(self) -> bytes:
        return self._stream.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data


@pytest.mark.parametrize("member", [b"", b"x", TEXT[:1000], bytes(10_000)], ids=["empty", "byte", "text", "zeros"])
def test_gzip_streams_cost_what_they_are_long(monkeypatch: pytest.MonkeyPatch, member: bytes) -> None:
    """Each stream was given all that was left: 1 MB of empty ones took a second, 10 MB two minutes."""
    monkeypatch.setattr("odradek.records.compressors.zlib.decompressobj", Counting)
    packed = gzip.compress(member) * 5000
    Counting.given = 0
    assert member * 5000 == decompress(Compression.GZIP, packed)[:]
    assert len(packed) <= Counting.given <= 6 * len(packed)


@pytest.mark.parametrize("around", range(-1, 2))
@pytest.mark.parametrize("parts", [1, 4, 5])
@pytest.mark.parametrize("level", [1, 9])
def test_gzip_streams_are_written_part_by_part(around: int, parts: int, level: int) -> None:
    """Small and mapped, with an end before, at and behind the end of a part."""
    size = parts * (1 << 20) + around
    for data in (bytes(size), TEXT * (size // len(TEXT)) + TEXT[: size % len(TEXT)]):
        packed = gzip.compress(data, level)
        assert data == decompress(Compression.GZIP, packed, limit=size)[:]
        with pytest.raises(DecompressionError, match="more than"):
            decompress(Compression.GZIP, packed, limit=size - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_large_is_the_same(codec: Compression) -> None:
    data = TEXT * 20
    assert data == decompress(codec, compress(codec, data))[:]


def test_the_limit_holds_for_all_gzip_streams_together() -> None:
    packed = gzip.compress(b"four") * 100
    assert 400 == len(decompress(Compression.GZIP, packed, limit=400))
    with pytest.raises(DecompressionError, match="more than 399 bytes") as caught:
        decompress(Compression.GZIP, packed, limit=399)
    assert ErrorCode.MESSAGE_TOO_LARGE is caught.value.error
    with pytest.raises(DecompressionError, match="cut off"):
        decompress(Compression.GZIP, packed[:-1])


def test_lz4_comes_in_independent_blocks_for_java() -> None:
    packed = compress(Compression.LZ4, TEXT)
    assert packed[4] & 0x20
    assert TEXT == decompress(Compression.LZ4, packed + b"junk")
    with pytest.raises(DecompressionError, match="dependent block stream"):
        decompress(Compression.LZ4, bytes(cramjam.lz4.compress(TEXT)))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("damage", ["garbage", "half", "cut"])
def test_damage_has_the_error_that_kafka_answers(codec: Compression, damage: str) -> None:
    packed = compress(codec, TEXT)
    data = {"garbage": b"garbage garbage garbage", "half": packed[: len(packed) // 2], "cut": packed[:-1]}[damage]
    with pytest.raises(DecompressionError) as caught:
        decompress(codec, data)
    assert ErrorCode.UNKNOWN_SERVER_ERROR is caught.value.error


def test_nothing_at_all_is_damage_but_for_zstd() -> None:
    assert b"" == decompress(Compression.ZSTD, b"")
    for codec in (Compression.GZIP, Compression.LZ4):
        with pytest.raises(DecompressionError):
            decompress(codec, b"")


@examples(200)
@given(st.sampled_from(CODECS), st.data())
def test_any_bytes_end_in_data_or_in_an_error(codec: Compression, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, TEXT[:2000]))
    for at in data.draw(st.lists(st.integers(0, len(packed) - 1), max_size=4)):
        packed[at] = data.draw(st.integers(0, 255))
    packed = packed[: data.draw(st.integers(0, len(packed)))] + data.draw(st.binary(max_size=20))
    found = None
    try:
        assert len(decompress(codec, packed, limit=10_000)) <= 10_000
    except DecompressionError as error:
        found = error.error
    assert found in (None, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.MESSAGE_TOO_LARGE)
