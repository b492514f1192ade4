"""Numbers of things."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import odradek
from odradek.core.wording import counted

ROOT = Path(odradek.__file__).parent
BY_KAFKA = ("group", "metadata", "wire/messages")
"""Folders with sentences that Kafka words so ("Topic already has 1 partition(s)."), and with what is generated."""
NOUNS = "broker|client|cluster|event|hit|id|member|partition|push|request|rule|seed|step|time|topic"
MANY = re.compile(rf" (?:[a-z]+ )?(?:{NOUNS})(?:s\b|es\b|\(e?s\))")
NEVER_ONE = {
    "host/cluster_spec.py": "is given {chosen.count(twice)} times",  # two or more
    "sim/checks/share_groups.py": "was delivered {later.count} times",  # above the limit
}


@pytest.mark.parametrize(
    ("number", "words", "told"),
    [
        (0, ("broker",), "0 brokers"),
        (1, ("broker",), "1 broker"),
        (2, ("broker",), "2 brokers"),
        (1, ("crash", "crashes"), "1 crash"),
        (2, ("crash", "crashes"), "2 crashes"),
    ],
)
def test_the_noun_fits_the_number(number: int, words: tuple[str, ...], told: str) -> None:
    assert told == counted(number, *words)


def plurals(path: Path) -> Iterator[str]:
    """Parts of the texts of a module in which a noun for many follows any number."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            for value, text in zip(node.values, node.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant):
                    found = MANY.match(str(text.value))
                    if found:
                        yield f"{{{ast.unparse(value.value)}}}{found[0]}"


def test_no_text_has_one_brokers(tmp_path: Path) -> None:
    tried = tmp_path / "tried.py"
    tried.write_text("f'{len(ids)} broker(s)' f'at most {most} parked requests, {a} {b}'")
    assert ["{len(ids)} broker(s)", "{most} parked requests"] == list(plurals(tried))
    found = [
        (name, told)
        for path in sorted(ROOT.rglob("*.py"))
        if not (name := path.relative_to(ROOT).as_posix()).startswith(BY_KAFKA)
        for told in plurals(path)
        if told not in NEVER_ONE.get(name, "")
    ]
    assert [] == found
