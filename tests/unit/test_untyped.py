"""The count of what types do not hold."""

from __future__ import annotations

import ast
import tomllib

from tests.untyped import ROOT, SERVING, complaints, counted, serves, text_of, untyped

SAMPLE = """
from typing import Any
def call(machine: object, name: str, value: Any) -> "dict[str, Any]":
    getattr(machine, "known")
    setattr(machine, "known", value)
    return getattr(machine, name)(value)
module: typing.Any = importlib.import_module(f"odradek.{name}")
"""


def test_any_and_members_by_name_are_counted() -> None:
    assert ["any", "any", "any", "by_name", "by_name"] == sorted(untyped(ast.parse(SAMPLE)))


def test_a_sentence_with_the_word_is_no_type() -> None:
    assert [] == list(untyped(ast.parse('"""Any of them."""\nraise E("Any is not allowed")')))


def test_the_rooms_that_serve_requests_have_none_whatever_their_bound() -> None:
    found = {"group/classic": {"any": 1}, "conform": {"any": 1}}
    assert ["group/classic has 1 of any, and may have 0: give it a type."] == complaints(
        found, {"group/classic": {"any": 5}, "conform": {"any": 1}}
    )
    assert not [room for room in counted() if serves(room)]


def test_the_rooms_of_the_contract_serve_requests() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [driven] = [each for each in contracts if each["name"].startswith("a broker is driven")]
    rooms = {name.removeprefix("odradek.") for name in driven["source_modules"]}
    assert rooms - SERVING == {"broker", "wire"}


def test_a_room_that_has_more_than_its_bound_is_told() -> None:
    found = {"sim": {"any": 2}, "tools": {"by_name": 1}, "wire": {"any": 1}}
    assert [
        "sim has 2 of any, and may have 1: give it a type.",
        "tools has 1 of by_name, and may have 0: give it a type.",
    ] == complaints(found, {"sim": {"any": 1}, "wire": {"any": 3}})


def test_what_is_written_is_what_is_read() -> None:
    found = {".": {"any": 2}, "faults": {"any": 1, "by_name": 3}}
    assert found == tomllib.loads(text_of(found))
