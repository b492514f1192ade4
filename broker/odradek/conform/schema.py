"""The lines of the driver's protocol as a JSON schema: `python -m odradek.conform.schema > driver.schema.json`."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, get_args

import msgspec

from odradek.conform.protocol import Answer, Driver, Polled, Request, Sent

__all__ = ["SCHEMA_FILE", "schema", "text"]

SCHEMA_FILE = "driver.schema.json"
PLACE = "#/$defs/{name}"


def schema() -> dict[str, Any]:
    """A line of the driver is a Driver or an Answer, a line to the driver one of the requests."""
    requests = get_args(Request)
    refs, definitions = msgspec.json.schema_components([*requests, Driver, Answer, Sent, Polled], ref_template=PLACE)
    answer, results = definitions["Answer"], ("done", "error", "unsupported")
    answer["oneOf"] = [{"required": [each]} for each in results]
    for each in results:
        # msgspec lets an absent field be null as well; in a line it is absent.
        options = [kind for kind in answer["properties"][each].pop("anyOf") if kind != {"type": "null"}]
        answer["properties"][each] = options[0]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line between odradek conform and a driver",
        "anyOf": [{"$ref": "#/$defs/Request"}, *refs[len(requests) : len(requests) + 2]],
        "$defs": {"Request": {"oneOf": list(refs[: len(requests)])}, **definitions},
    }


def text() -> str:
    """The file in the package."""
    return msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode() + "\n"


def committed() -> str:
    """The text of the schema file."""
    return files("odradek.conform").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")


if __name__ == "__main__":
    print(text(), end="")
