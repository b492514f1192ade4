"""Records of differing sizes: what the columns say has to be what reading each record says."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs
from tests.examples import examples
from tests.unit.records.helpers import NOW, payload_of
from tests.unit.records.test_structure import check

from odradek.records import ragged
from odradek.records.batch import InvalidBatch
from odradek.records.ragged import EITHER, Shape, alike
from odradek.records.record import Record
from odradek.records.structure import scan

JSON = Shape(
    length_bytes=2,
    timestamp_bytes=1,
    offset_bytes=1,
    null_key=True,
    tail=b"\0",
    fixed=(0,),
)
COUNTS = [2, 16, 17, 40, 64, 65, 66, 100, 128, 129, 200, 300, 700]
Headers = tuple[tuple[str, bytes | None], ...]


def differing(
    count: int,
    sizes: tuple[int, int] = (70, 140),
    *,
    keys: tuple[int, int] | None = None,
    headers: Headers = (),
    spread: int = 0,
    seed: int = 1,
) -> list[Record]:
    """Records whose values, and keys if they have any, are of sizes between two bounds."""
    dice = random.Random(seed)
    return [
        Record(
            timestamp=NOW + dice.randint(-spread, spread),
            key=None if keys is None else dice.randbytes(dice.randint(*keys)),
            value=dice.randbytes(dice.randint(*sizes)),
            headers=headers,
        )
        for _ in range(count)
    ]


def places(built: list[Record]) -> list[int]:
    """Where each of these records starts, and where the last one ends."""
    return [len(payload_of(built[:count])) for count in range(len(built) + 1)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("keys", [None, (0, 20)], ids=["no keys", "keys"])
@pytest.mark.parametrize("headers", [(), (("trace", b"0" * 20), ("none", None))], ids=["no headers", "headers"])
def test_honest_records_pass(count: int, keys: tuple[int, int] | None, headers: Headers) -> None:
    built = differing(count, keys=keys, headers=headers, spread=50)
    check(payload_of(built), count)


def test_records_of_one_shape_are_followed_to_the_first_that_has_another() -> None:
    for built, followers in (
        (differing(60), 59),
        ([*differing(30), Record(timestamp=NOW, key=b"k", value=b"v" * 90), *differing(29)], 29),
        ([*differing(30), Record(timestamp=NOW, value=None), *differing(29)], 29),
        ([*differing(30), Record(timestamp=NOW, value=b"v" * 20), *differing(29)], 29),
        ([*differing(30), Record(timestamp=NOW, value=b"v" * 9000), *differing(29)], 29),
        ([*differing(30), Record(timestamp=NOW + 64, value=b"v" * 90), *differing(29)], 29),
        ([*differing(30), Record(timestamp=NOW, value=b"v" * 90, headers=(("h", b"v"),)), *differing(29)], 29),
        (differing(90), 63),  # the offset delta takes two bytes from the 65th on
    ):
        at = places(built)
        assert (followers, at[followers + 1]) == alike(payload_of(built), JSON, at[1], len(built))[:2]


@pytest.mark.parametrize("keys", [None, (0, 20)], ids=["no keys", "keys"])
def test_lengths_of_one_byte_and_of_two_are_followed_alike(keys: tuple[int, int] | None) -> None:
    built = differing(60, (40, 80), keys=keys)
    payload, at = payload_of(built), places(built)
    assert {1, 2} == {1 + (payload[start] >= 128) for start in at[:-1]}
    shape = structs.replace(JSON, length_bytes=EITHER, null_key=keys is None)
    assert (59, at[60]) == alike(payload, shape, at[1], 60)[:2]
    for number in (1, 2, 30, 58, 59):
        for index in range(at[number] - 1, at[number] + 7):
            for bit in range(8):
                damaged = bytearray(payload)
                damaged[index] ^= 1 << bit
                check(bytes(damaged), 60, 0)


def test_not_more_rows_than_wanted_are_looked_at() -> None:
    built = differing(60)
    at = places(built)
    for rows in (0, 1, 2, 40):
        found, end, stamps = alike(payload_of(built), JSON, at[1], rows)
        assert (rows, at[rows + 1]) == (found, end)
        assert all(rows == len(column) for column in stamps)


@pytest.mark.parametrize("keys", [None, (0, 20)], ids=["no keys", "keys"])
@pytest.mark.parametrize("headers", [(), (("t", b"00"), ("none", None))], ids=["no headers", "headers"])
@pytest.mark.parametrize("sizes", [(5, 40), (70, 90)], ids=["short", "long"])
def test_each_damaged_bit_is_judged_as_by_reading_each_record(
    keys: tuple[int, int] | None, headers: Headers, sizes: tuple[int, int]
) -> None:
    built = differing(40, sizes, keys=keys, headers=headers)
    payload = payload_of(built)
    at = places(built)
    tail = 1 + sum(2 + len(name) + len(value or b"") for name, value in headers)
    for number in (1, 2, 20, 38, 39):
        head = 7 + len(built[number].key or b"") + 2
        structure = [*range(at[number], at[number] + head), *range(at[number + 1] - tail, at[number + 1])]
        for index in structure:
            for bit in range(8):
                damaged = bytearray(payload)
                damaged[index] ^= 1 << bit
                check(bytes(damaged), 40, 0)


def test_many_short_headers_are_all_looked_at() -> None:
    built = differing(40, headers=tuple(("", None) for _ in range(50)))
    payload = payload_of(built)
    check(payload, 40)
    for index in range(places(built)[21] - 101, places(built)[21]):
        damaged = bytearray(payload)
        damaged[index] ^= 1
        check(bytes(damaged), 40, 0)


@examples(200)
@given(
    st.integers(1, 300),
    st.sampled_from([None, (0, 0), (0, 5), (3, 63), (60, 70)]),
    st.sampled_from([(0, 10), (10, 60), (50, 80), (64, 200), (8100, 8200)]),
    st.lists(st.tuples(st.text(max_size=3), st.sampled_from([None, b"", b"v"])), max_size=2).map(tuple),
    st.integers(0, 2**32),
)
@example(300, None, (64, 200), (), 1)
def test_some_damage(
    count: int, keys: tuple[int, int] | None, sizes: tuple[int, int], headers: Headers, seed: int
) -> None:
    dice = random.Random(seed)
    count = min(count, 40) if sizes[1] > 1000 else count
    built = differing(count, sizes, keys=keys, headers=headers, spread=dice.choice([0, 0, 5, 200]), seed=seed)
    payload = bytearray(payload_of(built))
    at = places(built)
    for _ in range(dice.choice([0, 1, 2])):
        near = dice.choice(at) + dice.randint(-2, 12)
        payload[min(max(near, 0), len(payload) - 1)] = dice.choice([0, 1, 2, 127, 128, 255, dice.randrange(256)])
    check(bytes(payload), count)
    check(bytes(payload), count, dice.choice([-1, 0, 1, 5, 63, 64, 100, 200, 8191, 8192]))


@pytest.mark.parametrize("key", [b"\x7e", b"\x40", b"\x02"])
@pytest.mark.parametrize("cut", [0, 1, 5])
def test_a_key_that_would_end_behind_the_data_is_refused(key: bytes, cut: int) -> None:
    built = differing(40, (5, 10), keys=(1, 1))
    payload = bytearray(payload_of(built))
    payload[places(built)[39] + 4 : places(built)[39] + 5] = key
    check(bytes(payload[: len(payload) - cut]), 40, 0)


def test_most_of_differing_records_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    real = ragged.alike

    def counted(*arguments: object) -> tuple[int, int, list[bytes]]:
        result = real(*arguments)  # type: ignore[arg-type]
        found.append(result[0])
        return result

    monkeypatch.setattr(ragged, "alike", counted)
    for keys in (None, (1, 20)):
        found.clear()
        built = differing(700, keys=keys)
        scan(payload_of(built), 700, 0)
        assert 700 - 2 == sum(found), "but for the first, and the first whose offset delta takes two bytes"


def test_a_count_that_lies_is_refused() -> None:
    built = differing(100)
    for count in (99, 101, 2**31 - 1):
        with pytest.raises(InvalidBatch):
            scan(payload_of(built), count, 0)
