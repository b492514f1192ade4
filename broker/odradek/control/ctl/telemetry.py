"""The command that shows what clients pushed of their metrics."""

from __future__ import annotations

from typing import Annotated

from odradek.cli.commands import Option
from odradek.control.ctl.at import AsJson, At, Cluster, Url
from odradek.control.ctl.tables import show_answer

__all__ = ["telemetry"]

PUSH_COLUMNS = (
    "at_ms", "broker", "client_id", "client_software_name", "client_software_version", "terminating", "metrics",
)  # fmt: skip
METRIC_COLUMNS = ("at_ms", "client_id", "name", "value", "count", "attributes")


def telemetry(
    metric: Annotated[str | None, Option(metavar="NAME", help="Show the values of metrics that begin so.")] = None,
    client_id: Annotated[str | None, Option(metavar="ID", help="Of this client.")] = None,
    last: Annotated[bool, Option(help="Only the last push of each client, as it closed.")] = False,
    hub: Url = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """List what clients pushed of their metrics (KIP-714), the oldest first."""
    asked = {"metric": metric, "client_id": client_id, "terminating": "true" if last else None}
    answer = At(hub, cluster).get("telemetry", **{name: value for name, value in asked.items() if value is not None})
    if as_json:
        show_answer(answer, as_json, ())
    elif metric is None:
        show_answer([{**push, "metrics": len(push["metrics"])} for push in answer], False, PUSH_COLUMNS)
    else:
        rows = [
            {
                **each,
                "at_ms": push["at_ms"],
                "client_id": push["client_id"],
                "attributes": [f"{name}={text}" for name, text in each["attributes"].items()],
            }
            for push in answer
            for each in push["metrics"]
        ]
        show_answer(rows, False, METRIC_COLUMNS)
