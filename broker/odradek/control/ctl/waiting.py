"""Commands that wait, and that tell what happens."""

from __future__ import annotations

import json
import sys
from typing import Annotated

from odradek.commands import Argument, Option
from odradek.control.ctl.at import AsJson, At, Cluster, Url
from odradek.control.ctl.given import duration_ms
from odradek.control.ctl.tables import show_answer
from odradek.usage import UsageError

__all__ = ["events", "wait"]

WAIT_MARGIN_S = 10.0


def wait(
    condition: Annotated[
        str, Argument(help='JSON, such as {"transaction": {"id": "till-1", "state": "CompleteCommit"}} (docs/hub.md).')
    ],
    timeout: Annotated[str, Option(metavar="TIME", help="How long.")] = "10s",
    hub: Url = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Wait until something is so; exit code 2, with what came nearest, if it does not come."""
    try:
        body = json.loads(condition)
    except ValueError as error:
        raise UsageError(f"The condition is no JSON: {error}.") from None
    if not isinstance(body, dict):
        raise UsageError("The condition is an object of JSON.")
    limit_ms = duration_ms(timeout)
    came = At(hub, cluster).post(
        "wait", body={**body, "timeout_ms": limit_ms}, timeout_s=limit_ms / 1000 + WAIT_MARGIN_S
    )
    if as_json:
        show_answer(came, as_json, ())


def events(
    kind: Annotated[str | None, Option(metavar="KIND,…", help="Of these kinds.")] = None,
    after: Annotated[int, Option(min=0, help="Those above this number.")] = 0,
    follow: Annotated[bool, Option(help="And those to come, until the cluster ends.")] = False,
    hub: Url = None,
    cluster: Cluster = None,
) -> None:
    """Print events, each as a line of JSON."""
    at = At(hub, cluster)
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
