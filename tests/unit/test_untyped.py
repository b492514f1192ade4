"""The count of what types do not hold."""

from __future__ import annotations

import ast
import tomllib

from tests.untyped import complaints, counted, text_of, untyped

SAMPLE = """
from typing import Any
def call(machine: object, name: str, value: Any) -> "dict[str, Any]":
    getattr(machine, "known")
    setattr(machine, "known", value)
    return getattr(machine, name)(value)
module: Any = import_module(f"odradek.{name}")
"""


def test_any_and_members_by_name_are_counted() -> None:
    assert ["any", "any", "by_name", "by_name"] == sorted(untyped(ast.parse(SAMPLE)))


def test_a_room_that_has_more_than_its_bound_is_told() -> None:
    found = {"data": {"any": 2}, "log": {"by_name": 1}, "wire": {"any": 1}}
    assert [
        "data has 2 of any, and may have 1: give it a type.",
        "log has 1 of by_name, and may have 0: give it a type.",
    ] == complaints(found, {"data": {"any": 1}, "wire": {"any": 3}})


def test_routes_machines_and_what_hosts_them_have_none() -> None:
    found = counted()
    held = {"data", "txn", "share", "group/classic", "group/offsets", "metadata/api", "access/api", "log", "records"}
    assert not held & found.keys()


def test_what_is_written_is_what_is_read() -> None:
    found = {".": {"any": 2}, "faults": {"any": 1, "by_name": 3}}
    assert found == tomllib.loads(text_of(found))
