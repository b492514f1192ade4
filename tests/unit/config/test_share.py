"""How long ago a share group may begin, as ISO 8601 spells it."""

from __future__ import annotations

import pytest

from odradek.config.share import duration_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1H", 3_600_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt0.0015s", 1),
        ("PT9223372036854775807S", (2**63 - 1) * 1000),
        ("PT9223372036854775808S", None),
        (f"P{'9' * 5000}D", None),
        (f"PT{'0' * 5000}1H", 3_600_000),
        (f"PT1.{'9' * 5000}S", None),
        ("PT١H", None),
        ("PT", None),
        ("P", None),
    ],
)
def test_durations(text: str, ms: int | None) -> None:
    assert ms == duration_ms(text)
