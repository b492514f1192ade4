"""Odradek answers as the real broker has answered (`python -m tests.security` records it)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.security.brokers import RECORDED, odradek
from tests.security.playing import BOOKS, play_story

STORIES = [(book, story) for book in BOOKS for story in BOOKS[book].stories]


def canonical(lines: list[str]) -> list[str]:
    """What Kafka tells in the order of its hash tables, in an order of its own."""
    return [line if " {" not in line else _ordered(line) for line in lines]


def _ordered(line: str) -> str:
    kind, _, fields = line.partition(" ")
    return f"{kind} {json.dumps(_sorted(json.loads(fields)), sort_keys=True)}"


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted((_sorted(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


@pytest.fixture(scope="module")
def addresses() -> Iterator[Mapping[str, tuple[str, int]]]:
    with odradek() as addresses:
        yield addresses


@pytest.mark.slow
@pytest.mark.parametrize(("book", "story"), STORIES, ids=[f"{book}-{story}" for book, story in STORIES])
def test_answers(book: str, story: str, addresses: Mapping[str, tuple[str, int]]) -> None:
    expected = json.loads((RECORDED / f"{book}.json").read_text())[story]
    assert canonical(expected) == canonical(play_story(BOOKS[book], story, addresses))


@pytest.mark.parametrize("book", BOOKS)
def test_nothing_is_recorded_that_is_not_told(book: str) -> None:
    assert list(BOOKS[book].stories) == list(json.loads((RECORDED / f"{book}.json").read_text()))
