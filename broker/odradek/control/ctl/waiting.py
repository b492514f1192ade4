"""Commands that wait, and that print events."""

from __future__ import annotations

import json
import sys
from typing import Annotated

from odradek.cli.commands import Argument, Option
from odradek.cli.usage import UsageError
from odradek.control.ctl.at import At
from odradek.control.ctl.condition import WAITED_FOR, condition_of
from odradek.control.ctl.given import duration_ms
from odradek.control.ctl.tables import Shown

__all__ = ["events", "wait"]

WAIT_MARGIN_S = 10.0
DEFAULT_MS = 10_000
LIMIT_MS = 600_000


def wait(
    at: Shown,
    condition: Annotated[
        list[str],
        Argument(
            names=lambda: list(WAITED_FOR),
            help="transaction ID STATE, rule NAME [hits N] [held N], group ID [STATE] [members N], or partition "
            "TOPIC-N [last_stable_offset N] [high_watermark N]; or JSON for the rest (docs/hub.md).",
        ),
    ],
    timeout: Annotated[
        str | None, Option(metavar="TIME", help="How long; else the timeout_ms of the condition, or 10s.")
    ] = None,
) -> None:
    """Wait until a condition holds; exit code 2 with the nearest state if it does not in time."""
    body = condition_of(condition) if condition[0][:1].isalpha() else _read(" ".join(condition))
    if timeout is not None and "timeout_ms" in body:
        raise UsageError("How long to wait is said by --timeout or by timeout_ms in the condition, not by both.")
    body.setdefault("timeout_ms", DEFAULT_MS if timeout is None else duration_ms(timeout))
    limit_ms = body["timeout_ms"]
    if type(limit_ms) is not int or not 0 <= limit_ms <= LIMIT_MS:
        raise UsageError(f"How long to wait is a whole number of milliseconds up to {LIMIT_MS}, not {limit_ms}.")
    came = at.post("wait", body=body, timeout_s=limit_ms / 1000 + WAIT_MARGIN_S)
    if at.as_json:
        at.show(came, ())


def _read(text: str) -> dict[str, object]:
    """A condition in JSON. Raises UsageError."""
    try:
        body = json.loads(text)
    except ValueError as error:
        raise UsageError(f"The condition is no JSON: {error}.") from None
    if not isinstance(body, dict):
        raise UsageError("The condition is an object of JSON.")
    return body


def events(
    at: At,
    kind: Annotated[str | None, Option(metavar="KIND,…", help="Of these kinds.")] = None,
    after: Annotated[int, Option(min=0, help="Those above this number.")] = 0,
    follow: Annotated[bool, Option(help="And those to come, until the cluster ends.")] = False,
) -> None:
    """Print events, each as a line of JSON."""
    query: dict[str, str | int] = {"after": after, **({} if kind is None else {"kind": kind})}
    if not follow:
        for event in at.get("events", **query)["events"]:
            print(json.dumps(event, ensure_ascii=False))
        return
    for name, event in at.hub.events(at.id, **query):
        if name == "gap":
            print(f"odradek: events {event['from']} to {event['to']} are missing.", file=sys.stderr)
        elif name != "end":
            print(json.dumps(event, ensure_ascii=False), flush=True)
