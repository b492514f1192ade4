"""Damaged messages: a value or a DecodeError, nothing else, and no more memory than the bytes are worth.

`ODRADEK_FUZZ=1000000 pytest tests/fuzz` runs longer, `ODRADEK_FUZZ_SEED=7` elsewhere; a failure names its seed.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from odradek.wire import registry
from odradek.wire.diagnosis import decode_error
from odradek.wire.errors import DecodeError, EncodeError
from odradek.wire.frame import FrameBuffer

RUNS = int(os.environ.get("ODRADEK_FUZZ", "6000"))
SEED = int(os.environ.get("ODRADEK_FUZZ_SEED", "20261121"))

BYTES_PER_BYTE = 250
"""What a decoded message may take for each byte it came in; the worst is an array of structs that are all default."""

VECTORS = Path(__file__).parents[1] / "vectors/data/vectors-dev.jsonl.gz"

NASTY = [
    bytes.fromhex(text)
    for text in ("7fffffff", "80000000", "ffffffff", "7fff", "8000", "ff", "00", "80", "ffffffff07", "8080808080")
]


@pytest.fixture(scope="module")
def corpus() -> list[tuple[type[msgspec.Struct], int, bytes]]:
    with gzip.open(VECTORS) as file:
        vectors = [json.loads(line) for line in file]
    return [(registry.message_type(v["name"]), v["version"], bytes.fromhex(v["hex"])) for v in vectors]


def damaged(data: bytes, dice: random.Random) -> bytes:
    """One to three mutations."""
    for _ in range(dice.randint(1, 3)):
        position = dice.randint(0, len(data))
        match dice.randrange(6):
            case 0:
                data = data[:position]
            case 1:
                data = data[:position] + dice.choice(NASTY) + data[position:]
            case 2:
                nasty = dice.choice(NASTY)
                data = data[:position] + nasty + data[position + len(nasty) :]
            case 3:
                end = position + dice.randint(1, 8)
                data = data[:position] + data[end:]
            case 4:
                end = position + dice.randint(1, 16)
                data = data[:end] + data[position:end] * dice.randint(1, 4) + data[end:]
            case _ if data:
                position = dice.randrange(len(data))
                data = data[:position] + bytes([data[position] ^ 1 << dice.randrange(8)]) + data[position + 1 :]
    return data


def cases(
    corpus: list[tuple[type[msgspec.Struct], int, bytes]], runs: int
) -> Iterator[tuple[int, type[msgspec.Struct], int, bytes]]:
    for seed in range(SEED, SEED + runs):
        dice = random.Random(seed)
        cls, version, data = dice.choice(corpus)
        if dice.randrange(20) == 0:  # another version's bytes
            lowest, highest = registry.valid_versions(cls)
            version = dice.randint(lowest, highest)
        yield seed, cls, version, damaged(data, dice)


@pytest.mark.slow
def test_only_decode_errors(corpus: list[tuple[type[msgspec.Struct], int, bytes]]) -> None:
    refused = 0
    for seed, cls, version, data in cases(corpus, RUNS):
        note = f"ODRADEK_FUZZ=1 ODRADEK_FUZZ_SEED={seed}: {cls.__name__} v{version} {data.hex()}"
        result = decoded(cls, version, data, note)
        if isinstance(result, DecodeError):
            refused += 1
            assert "but readable" not in result.reason, note
            assert result.field, note
            assert 0 <= result.offset <= len(data), note
        else:
            check_readable(cls, version, data, result, note)
    assert RUNS / 4 < refused < RUNS or RUNS < 100


def decoded(cls: type[msgspec.Struct], version: int, data: bytes, note: str) -> msgspec.Struct | DecodeError:
    try:
        return registry.decode(cls, data, version, exact=False)
    except DecodeError as error:
        return error
    except Exception as error:
        raise AssertionError(note) from error


def check_readable(cls: type[msgspec.Struct], version: int, data: bytes, message: msgspec.Struct, note: str) -> None:
    """What could be read can be written, unless by its tags; and the slow reader finds no fault either."""
    again = encoded(message, version)
    if isinstance(again, EncodeError):
        assert "unknown_tagged_fields" in again.field, note
    else:
        assert message == registry.decode(cls, again, version), note
    schema = vars(sys.modules[cls.__module__])["SCHEMA"]
    assert "but readable" in decode_error(schema, version, memoryview(data), 0).reason, note


def encoded(message: msgspec.Struct, version: int) -> bytes | EncodeError:
    try:
        return registry.encode(message, version)
    except EncodeError as error:
        return error


@pytest.mark.slow
def test_memory(corpus: list[tuple[type[msgspec.Struct], int, bytes]]) -> None:
    found = list(cases(corpus, RUNS // 4))
    for _, cls, version, _ in found:
        # Both are kept, so they are not counted.
        registry.spec(cls)
        registry.reader(cls, version)
    tracemalloc.start()
    try:
        for seed, cls, version, data in found:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            with contextlib.suppress(DecodeError):
                registry.decode(cls, data, version)
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak < 20_000 + BYTES_PER_BYTE * len(data), f"ODRADEK_FUZZ_SEED={seed}: {peak} for {len(data)}"
    finally:
        tracemalloc.stop()


def test_frames_of_noise() -> None:
    for seed in range(SEED, SEED + min(RUNS, 2000)):
        dice = random.Random(seed)
        buffer = FrameBuffer(2000)
        with contextlib.suppress(DecodeError):
            feed_noise(buffer, dice)


def feed_noise(buffer: FrameBuffer, dice: random.Random) -> None:
    """Whatever comes, nothing is lost and nothing is kept twice."""
    given = 0
    for _ in range(20):
        chunk = dice.choice(NASTY) if dice.randrange(3) == 0 else bytes(dice.randint(0, 9)) + dice.randbytes(3)
        given += len(chunk)
        given -= sum(4 + len(frame) for frame in buffer.feed(chunk))
        assert given == buffer.held
