"""Counts what types do not hold in each room of the package; `make check` lets no count grow.

What is counted: the word `Any` in code, and members that are named by what is no literal (`getattr(x, name)`,
`setattr`, `methodcaller`, `import_module`). Exit 1 where a room has more of it than `tests/untyped.toml` allows; one
that has less is to have its bound lowered, with `--write`.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "broker" / "odradek"
BOUNDS = Path(__file__).with_name("untyped.toml")
GENERATED = PACKAGE / "wire" / "messages"
BY_NAME = frozenset({"getattr", "setattr", "methodcaller", "import_module"})


def untyped(tree: ast.AST) -> Iterator[str]:
    """What there is of each kind in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "Any":
            yield "any"
        elif isinstance(node, ast.Call) and _names_a_member(node):
            yield "by_name"


def _names_a_member(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Name) or call.func.id not in BY_NAME:
        return False
    return not all(isinstance(each, ast.Constant) for each in call.args[1:2] or call.args[:1])


def room_of(path: Path) -> str:
    """The folder below the package that a module is in."""
    return "/".join(path.relative_to(PACKAGE).parts[:-1]) or "."


def counted() -> dict[str, dict[str, int]]:
    """How much of each kind there is in each room."""
    found: dict[str, Counter[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if GENERATED not in path.parents:
            kinds = Counter(untyped(ast.parse(path.read_text(encoding="utf-8"))))
            found.setdefault(room_of(path), Counter()).update(kinds)
    return {room: dict(sorted(kinds.items())) for room, kinds in sorted(found.items()) if kinds}


def complaints(found: Mapping[str, Mapping[str, int]], bounds: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A sentence for each room that has more than it may."""
    return [
        f"{room} has {count} of {kind}, and may have {bounds.get(room, {}).get(kind, 0)}: give it a type."
        for room, kinds in found.items()
        for kind, count in kinds.items()
        if count > bounds.get(room, {}).get(kind, 0)
    ]


def text_of(found: Mapping[str, Mapping[str, int]]) -> str:
    """The bounds as they are kept."""
    rows = (
        f'"{room}" = {{ ' + ", ".join(f"{kind} = {n}" for kind, n in kinds.items()) + " }"
        for room, kinds in found.items()
    )
    return (
        "# What each room may have that types do not hold; see untyped.py. It only goes down.\n"
        + "\n".join(rows)
        + "\n"
    )


def main(arguments: list[str]) -> int:
    """Compare, or write the bounds."""
    found = counted()
    if "--write" in arguments:
        BOUNDS.write_text(text_of(found), encoding="utf-8")
        return 0
    wrong = complaints(found, tomllib.loads(BOUNDS.read_text(encoding="utf-8")))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
