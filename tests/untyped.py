"""Counts what types do not hold in each room of the package; `make check` lets no count grow.

What is counted: `Any` in code, annotations in quotes too, and members that are named by what is no literal
(`getattr(x, name)`, `setattr`, `attrgetter`, `methodcaller`, `import_module`). The rooms that serve requests have none;
for the others `tests/untyped.toml` has a bound, and one that has less is to have it lowered, with `--write`.
Exit 1 where a room has more than it may.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "broker" / "odradek"
BOUNDS = Path(__file__).with_name("untyped.toml")
GENERATED = PACKAGE / "wire" / "messages"
OF_THE_SECOND = frozenset({"getattr", "setattr", "delattr"})
"""Functions whose second argument names a member."""
OF_THE_FIRST = frozenset({"attrgetter", "methodcaller", "import_module", "__import__"})
"""Functions whose first argument names a member, or a module."""
SERVING = frozenset(
    "access core data faults group host limits log metadata net offsets records share telemetry txn .".split()  # noqa: SIM905
)
"""The rooms, with all folders in them, that serve requests: nothing of theirs is without a type."""


def untyped(tree: ast.AST) -> Iterator[str]:
    """What there is of each kind in a module."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id="Any") | ast.Attribute(attr="Any"):
                yield "any"
            case ast.Constant(value=str(text)) if re.search(r"\bAny\b", text):
                yield from ("any" for _ in _any_in(text))
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args):
                named = args[1:2] if name in OF_THE_SECOND else args if name in OF_THE_FIRST else ()
                if any(not isinstance(each, ast.Constant) for each in named):
                    yield "by_name"


def _any_in(text: str) -> Iterator[ast.Name]:
    """Each `Any` in a type that stands in quotes; a sentence is none."""
    try:
        quoted = ast.parse(text, mode="eval")
    except SyntaxError:
        return
    if isinstance(quoted.body, ast.Name | ast.Attribute | ast.Subscript | ast.BinOp):
        yield from (node for node in ast.walk(quoted) if isinstance(node, ast.Name) and node.id == "Any")


def serves(room: str) -> bool:
    """Whether a room serves requests."""
    return room.split("/")[0] in SERVING


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
        f"{room} has {count} of {kind}, and may have {bound}: give it a type."
        for room, kinds in found.items()
        for kind, count in kinds.items()
        if count > (bound := 0 if serves(room) else bounds.get(room, {}).get(kind, 0))
    ]


def text_of(found: Mapping[str, Mapping[str, int]]) -> str:
    """The bounds as they are kept."""
    rows = (
        f'"{room}" = {{ ' + ", ".join(f"{kind} = {n}" for kind, n in kinds.items()) + " }"
        for room, kinds in found.items()
    )
    return (
        "# What a room that serves no requests may have that types do not hold; see untyped.py. It only goes down.\n"
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
