"""The Python, and the packages beside it, that a release of a Python client family runs with."""

import re
import sys

from tests.clients.toolchain import python_with

__all__ = ["python_for"]

CODECS = ("cramjam==2.14.0", "lz4==4.4.5", "python-snappy==0.7.3", "zstandard==0.25.0")
BESIDE: dict[str, tuple[str, ...]] = {
    "confluent-kafka": (),
    "kafka-python": CODECS,
    "aiokafka": (*CODECS, "async-timeout==5.0.1", "packaging==26.3", "typing_extensions==4.16.0"),
}
# Releases before the first number: they have no wheel for a newer Python than the second, or import what it has lost.
LATEST_PYTHON: dict[str, list[tuple[tuple[int, ...], tuple[int, int]]]] = {
    "confluent-kafka": [((2, 0), (3, 10)), ((2, 6), (3, 12))],
    "kafka-python": [((2, 0, 3), (3, 11))],
    "aiokafka": [((0, 9), (3, 11)), ((0, 12), (3, 12))],
}
NEEDS_KAFKA_PYTHON = (0, 9)  # aiokafka had no protocol of its own before


def python_for(family: str, version: str | None) -> str:
    """An interpreter that has this release installed; without a version the one that runs this."""
    if version is None:
        return sys.executable
    release = tuple(map(int, re.findall(r"\d+", version)))
    latest = next((python for before, python in LATEST_PYTHON[family] if release < before), None)
    beside = BESIDE[family]
    if family == "aiokafka" and release < NEEDS_KAFKA_PYTHON:
        beside += ("kafka-python==2.0.2",)
    return python_with(f"{family}=={version}", *beside, latest=latest)
