"""A Protocol stands for several implementations, or for a part above that its user must not import; there are few."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import odradek

PACKAGE = Path(odradek.__file__).parent
PROTOCOLS_MAX = 33
"""It only goes down: a part that has one implementation, which its user may import, is named by its class."""


def protocols(source: str) -> Iterator[ast.ClassDef]:
    """The Protocols of a module; the one of asyncio is another thing."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
            if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in bases):
                yield node


def found() -> dict[str, ast.ClassDef]:
    """Every Protocol of the package, by file and name."""
    return {
        f"{path.relative_to(PACKAGE)} {node.name}": node
        for path in sorted(PACKAGE.rglob("*.py"))
        if "messages" not in path.parts
        for node in protocols(path.read_text(encoding="utf-8"))
    }


def test_protocols_are_found() -> None:
    source = (
        "class A(Protocol): ...\nclass B(Protocol[T]): ...\nclass C(asyncio.Protocol): ...\nclass D(Generic[T]): ..."
    )
    assert ["A", "B"] == [node.name for node in protocols(source)]


def test_there_are_no_more_than_there_were() -> None:
    assert PROTOCOLS_MAX == len(found()), "fewer: lower the bound; more: name the class itself"


def test_each_says_why_it_is_one() -> None:
    assert [] == [name for name, node in found().items() if "A Protocol: " not in (ast.get_docstring(node) or "")]
