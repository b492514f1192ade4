"""Pictures, read by a parser of XML and drawn by a browser."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.exports.histories import hostile_texts, named, two_transactions
from tests.pictures import PICTURES

from odradek.show.svg import drawn
from odradek.show.transaction import of_transaction

SVG = "{http://www.w3.org/2000/svg}"


def test_every_step_is_in_the_picture_in_its_order() -> None:
    history = of_transaction(two_transactions(), "y")
    tree = ElementTree.fromstring(drawn(history))
    texts = [element.text or "" for element in tree.iter(f"{SVG}text")]
    for lane in history.lanes:
        assert lane.name in texts
    height = {(each.text or "")[:30]: int(each.get("y") or 0) for each in tree.iter(f"{SVG}text")}
    heights = [height[step.text[:30]] for step in history.steps]
    assert all(other - one > 20 for one, other in pairwise(heights))
    assert len(list(tree.iter(f"{SVG}line"))) == len(history.lanes) + sum(
        step.source != step.target for step in history.steps
    )


def test_no_name_is_markup_in_it() -> None:
    for text in hostile_texts():
        tree = ElementTree.fromstring(drawn(named(text)))
        tags = {element.tag for element in tree.iter()}
        assert tags == {f"{SVG}{tag}" for tag in ("svg", "title", "style", "rect", "line", "path", "text")}, text


@pytest.mark.parametrize("path", sorted(PICTURES.glob("*.svg")), ids=lambda path: path.stem)
def test_pictures_of_the_docs_are_for_both_schemes(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert "prefers-color-scheme:dark" in text


def test_it_is_dark_where_its_reader_is_and_loads_nothing() -> None:
    picture = drawn(of_transaction(two_transactions(), "x"))
    assert "prefers-color-scheme:dark" in picture
    assert not re.search(r"url\(|href|@import|<script|onload", picture)
