"""Kafka's partitioning of coordinator keys: Java's string hash."""

import pytest

from odradek.core.internal_topics import partition_for


@pytest.mark.parametrize(
    ("key", "java_hash"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("\N{GRINNING FACE}", 1772899)],
)
def test_partition_for_follows_java(key: str, java_hash: int) -> None:
    expected = 0 if java_hash == -(2**31) else abs(java_hash) % 50
    assert expected == partition_for(key, 50)
