"""Writes the files that are derived from the endpoints: `odradek/host/served.py` and `docs/apis.md`.

python -m odradek.tools.apis

A test fails while one of them differs from the endpoints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import odradek
from odradek.broker import FAMILIES
from odradek.host.endpoint import Endpoint, endpoints_of
from odradek.releases.table import RELEASES
from odradek.sim import World
from odradek.wire.registry import APIS

__all__ = ["PAGE", "SERVED", "apis_page", "families", "main", "served_source"]

SERVED = Path(odradek.__file__).parent / "host" / "served.py"
PAGE = Path(odradek.__file__).parents[2] / "docs" / "apis.md"
_MARK = "# ---- derived from the endpoints: python -m odradek.tools.apis\n"


def families() -> Mapping[str, type]:
    """The class of each family, by its name."""
    node = World().nodes[1]
    return {name: type(node.family(name)) for name in FAMILIES}


def served_source() -> str:
    """The source of `host/served.py`: its unchanged head, and a row for each endpoint."""
    made = families()
    endpoints_of(*made.values())  # raises if two methods serve one API
    head = SERVED.read_text(encoding="utf-8").partition(_MARK)[0]
    rows = [line for name, family in made.items() for line in _rows(name, family)]
    return "\n".join([head + _MARK + "SERVED: tuple[Served, ...] = (", *rows, ")", ""])


def _rows(name: str, family: type) -> Iterator[str]:
    for endpoint in endpoints_of(family).values():
        arguments = [f"ApiKey.{endpoint.api_key.name}", f'"{name}"', *_exceptions(endpoint)]
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


_INTRODUCTION = """\
# The APIs

Every API of the Kafka protocol that Odradek serves. This page is written by `python -m odradek.tools.apis` from the
endpoints ([contributing.md](contributing.md#an-api)); a test compares the two.

- **versions**: all that are served; a release of Kafka offers fewer ([releases.md](releases.md)). An API that only
  brokers ask of one another is _internal_; an _unstable_ version needs `unstable.api.versions.enable`.
- **a client needs**: permissions, where the broker has an authorizer ([security.md](security.md)).
- **since**: the first of the releases that Odradek knows which has it.
- **where**: file and method below `broker/odradek`.

"""


def apis_page() -> str:
    """The text of `docs/apis.md`."""
    found = endpoints_of(*families().values())
    rows = (_line(found[api_key]) for api_key in sorted(found))
    header = ("key", "API", "versions", "a client needs", "since", "where", "left out")
    table = [header, ("---",) * len(header), *rows]
    return _INTRODUCTION + "".join(f"| {' | '.join(cells)} |\n" for cells in table)


def _line(endpoint: Endpoint) -> tuple[str, ...]:
    spec = APIS[endpoint.api_key]
    versions = f"{endpoint.lowest}–{spec.highest}" if endpoint.lowest < spec.highest else str(spec.highest)
    notes = [
        note
        for applies, note in (
            ("broker" not in spec.listeners, "internal"),
            (spec.unstable, f"{spec.highest} unstable"),
            (spec.draft, "only in dialects"),
            (not endpoint.is_told, "told with `odradek.telemetry`"),
        )
        if applies
    ]
    since = next((name for name, release in RELEASES.items() if endpoint.api_key.name in (release.apis or {})), "–")
    file, _, method = endpoint.place.partition(" ")
    where = f"`{file.partition(':')[0]}` `{method}`"
    return (
        str(int(endpoint.api_key)),
        spec.stem.title().replace("_", ""),
        f"{versions} ({', '.join(notes)})" if notes else versions,
        endpoint.needs.text,
        since,
        where,
        endpoint.left_out,
    )


def main() -> None:
    SERVED.write_text(served_source(), encoding="utf-8")
    PAGE.write_text(apis_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
