"""Observation of the broker: its metrics page, its event file, its log lines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
from prometheus_client.parser import text_string_to_metric_families

__all__ = ["EventTail", "read_metrics", "sums"]

PREFIX = "odradek_"
TIMEOUT_S = 5.0


def read_metrics(url: str) -> dict[str, float]:
    """The values of a metrics page by name, without prefix, summed over the brokers. Raises OSError."""
    with urlopen(url, timeout=TIMEOUT_S) as answer:
        return sums(answer.read().decode())


def sums(page: str) -> dict[str, float]:
    """The same from the text of a page."""
    numbers: Counter[str] = Counter()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name.startswith(PREFIX) and "le" not in sample.labels:
                numbers[sample.name.removeprefix(PREFIX)] += sample.value  # type: ignore[assignment]
    return dict(numbers)


class EventTail:
    """New lines of an event file, each time it is asked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._decode = msgspec.json.Decoder().decode

    def read(self) -> list[dict[str, Any]]:
        """The events since the last call; an incomplete line comes with the next call."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            whole, _, _ = file.read().rpartition(b"\n")
        if not whole:
            return []
        self._position += len(whole) + 1
        return [self._decode(line) for line in whole.split(b"\n")]
