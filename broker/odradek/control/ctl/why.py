"""The command that says what is stuck."""

from __future__ import annotations

from typing import Annotated

from odradek.cli.commands import Argument, Option
from odradek.control.ctl.at import AsJson, At, Cluster, Url
from odradek.control.ctl.tables import show_answer

__all__ = ["why"]


def why(
    name: Annotated[
        str | None,
        Argument(
            help="A rule, TOPIC-PARTITION, a topic, a transactional id, a group or a broker; else all that is stuck."
        ),
    ] = None,
    events: Annotated[bool, Option(help="And the newest events.")] = False,
    hub: Url = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Say what is stuck, since when, who or what holds it, and what ends it."""
    answer = At(hub, cluster).get("why", **({} if name is None else {"about": name}))
    if as_json:
        show_answer(answer, as_json, ())
        return
    for line in (*answer["sentences"], *(answer["events"] if events else ())):
        print(line)
