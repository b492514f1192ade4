"""Writes what is derived from the endpoints: `odradek/host/served.py`.

    python -m odradek.tools.apis

A test fails while the file differs from the endpoints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

import odradek
from odradek.broker import Families
from odradek.host.endpoint import Endpoint, endpoints_of
from odradek.sim import World
from odradek.wire.registry import APIS

__all__ = ["families", "main", "served_source"]

SERVED = Path(odradek.__file__).parent / "host" / "served.py"
_MARK = "# ---- derived from the endpoints: python -m odradek.tools.apis\n"


def families() -> Mapping[str, type]:
    """The class of each family, by its name."""
    families = Families(World().nodes[1])
    names = [
        name for name, made in vars(Families).items() if isinstance(made, cached_property) and not name.startswith("_")
    ]
    return {name: type(families.family(name)) for name in names}


def served_source() -> str:
    """The source of `host/served.py`: its own head, and a row for each endpoint."""
    made = families()
    endpoints_of(*made.values())  # raises where two serve one API
    head = SERVED.read_text(encoding="utf-8").partition(_MARK)[0]
    rows = [line for name, family in made.items() for line in _rows(name, family)]
    return "\n".join([head + _MARK + "SERVED: tuple[Served, ...] = (", *rows, ")", ""])


def _rows(name: str, family: type) -> Iterator[str]:
    for endpoint in endpoints_of(family).values():
        arguments = [f"ApiKey.{endpoint.api_key.name}", f'"{name}"', f'"{family.__module__}"', *_exceptions(endpoint)]
        row = f"    Served({', '.join(arguments)}),"
        if len(row) <= 120:
            yield row
        else:
            yield from ("    Served(", *(f"        {each}," for each in arguments), "    ),")


def _exceptions(endpoint: Endpoint) -> Iterator[str]:
    if endpoint.lowest != APIS[endpoint.api_key].lowest:
        yield f"lowest={endpoint.lowest}"
    if not endpoint.is_told:
        yield "is_told=False"
    if endpoint.in_parts:
        yield "in_parts=True"


def main() -> None:
    """Bring the file up to date."""
    SERVED.write_text(served_source(), encoding="utf-8")


if __name__ == "__main__":
    main()
