"""The command about the clock of the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

from odradek.cli.commands import Option
from odradek.control.ctl.at import AsJson, At, Cluster, Url
from odradek.control.ctl.given import duration_ms
from odradek.control.ctl.tables import show_answer
from odradek.core.wording import counted

__all__ = ["clock_line", "time"]

DAY_S = 86_400


def time(
    freeze: Annotated[bool, Option(help="Let the clock stand still.")] = False,
    advance: Annotated[
        str | None, Option(metavar="TIME", help="Let so much pass at once: 500ms, 90s, 7d, 1h30m.")
    ] = None,
    resume: Annotated[bool, Option(help="Let the clock go on.")] = False,
    hub: Url = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Show the brokers' clock, or change it."""
    at = At(hub, cluster)
    body: dict[str, Any] = {"advance_ms": 0 if advance is None else duration_ms(advance)}
    body |= {name: True for name, wanted in (("freeze", freeze), ("resume", resume)) if wanted}
    told = at.post("time", body=body) if freeze or resume or advance is not None else at.get("time")
    if as_json:
        show_answer(told, as_json, ())
    else:
        print(clock_line(told))


def clock_line(told: Mapping[str, Any]) -> str:
    """The clock of the brokers, for people."""
    days, seconds = divmod((abs(told["ahead_ms"]) + 500) // 1000, DAY_S)
    # More days than a timedelta holds are no error.
    ahead = f"{counted(days, 'day')}, " * bool(days) + str(timedelta(seconds=seconds))
    where = "as the machine's" if not days + seconds else f"{ahead} {'ahead' if told['ahead_ms'] > 0 else 'behind'}"
    return f"{told['now_ms']} ms, {where}{', stands still' if told['frozen'] else ''}"
