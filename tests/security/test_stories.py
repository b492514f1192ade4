"""Odradek answers as the real broker has answered (`python -m tests.security` records it)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest
from tests.security.brokers import RECORDED, odradek
from tests.security.playing import BOOKS, play_story

STORIES = [(book, story) for book in BOOKS for story in BOOKS[book].stories]


@pytest.fixture(scope="module")
def addresses() -> Iterator[Mapping[str, tuple[str, int]]]:
    with odradek() as addresses:
        yield addresses


@pytest.mark.slow
@pytest.mark.parametrize(("book", "story"), STORIES, ids=[f"{book}-{story}" for book, story in STORIES])
def test_answers(book: str, story: str, addresses: Mapping[str, tuple[str, int]]) -> None:
    expected = json.loads((RECORDED / f"{book}.json").read_text())[story]
    assert expected == play_story(BOOKS[book], story, addresses)


@pytest.mark.parametrize("book", BOOKS)
def test_nothing_is_recorded_that_is_not_told(book: str) -> None:
    assert list(BOOKS[book].stories) == list(json.loads((RECORDED / f"{book}.json").read_text()))
