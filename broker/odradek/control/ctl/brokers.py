"""Commands that act on brokers and on their clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any

from odradek.cli.commands import Argument, Option
from odradek.control.ctl.at import At, Broker
from odradek.control.ctl.given import duration_ms, settings_of
from odradek.control.ctl.tables import BROKER_COLUMNS, TRANSACTION_COLUMNS, Shown
from odradek.core.wording import counted

__all__ = [
    "clock_line",
    "config",
    "disconnect",
    "epoch",
    "feature",
    "move_coordinator",
    "move_leader",
    "of_broker",
    "stop",
    "time",
]

Unclean = Annotated[
    bool, Option(name="--unclean", help="Move it to a broker out of sync, too; what that one lacks is lost.")
]


def of_broker(action: str, about: str) -> Callable[..., None]:
    """The command for this action on a broker."""

    def run(at: Shown, broker: Broker) -> None:
        at.show(at.post("brokers", broker, action), BROKER_COLUMNS)

    run.__doc__ = about
    return run


def stop(
    at: Shown,
    broker: Broker,
    cleanly: Annotated[
        bool, Option(name="--cleanly", help="In a controlled shutdown, so that it stays eligible as a leader.")
    ] = False,
    fence_after: Annotated[
        int, Option(name="--fence-after", metavar="MS", help="The controller notices the crash so much later.")
    ] = 0,
) -> None:
    """Stop a broker, cleanly or as in a crash; others take over its partitions."""
    body = {"cleanly": cleanly, "fence_after_ms": fence_after}
    at.show(at.post("brokers", broker, "stop", body=body), BROKER_COLUMNS)


def move_leader(
    at: Shown,
    topic: Annotated[str, Argument(help="The topic.")],
    partition: Annotated[int, Argument(help="The partition.")],
    to: Annotated[int | None, Option(help="The broker; else the next one in sync.")] = None,
    unclean: Unclean = False,
) -> None:
    """Give a partition to another leader, or to the same one in a new leader epoch."""
    body = {"unclean": unclean} | ({} if to is None else {"to": to})
    at.show(at.post("partitions", topic, partition, "leader", body=body), ("broker",))


def move_coordinator(
    at: Shown,
    kind: Annotated[str, Argument(names=lambda: ("transaction", "group"), help="transaction or group.")],
    key: Annotated[str, Argument(help="The transactional id, or the group.")],
    to: Annotated[int | None, Option(help="The broker; else the next one in sync.")] = None,
    unclean: Unclean = False,
) -> None:
    """Move the coordinator of a transactional id or a group."""
    body = {"unclean": unclean} | ({} if to is None else {"to": to})
    at.show(at.post("coordinators", kind, key, "move", body=body), ("broker",))


def epoch(
    at: Shown,
    transactional_id: Annotated[str, Argument(help="The transactional id, which has no open transaction.")],
    number: Annotated[int, Argument(metavar="EPOCH", help="Up to 32767.")],
) -> None:
    """Give an idle transactional id this producer epoch."""
    answer = at.post("producers", transactional_id, "epoch", body={"epoch": number})
    at.show(answer, TRANSACTION_COLUMNS)


def feature(
    at: At,
    name: Annotated[str, Argument(help="The feature, such as transaction.version.")],
    level: Annotated[int, Argument(help="The level to finalize.")],
) -> None:
    """Finalize another level of a feature, up or down."""
    at.post("features", name, body={"level": level})


def config(
    at: At,
    setting: Annotated[list[str], Argument(metavar="KEY=VALUE", help="KEY= alone takes it back.")],
    topic: Annotated[str | None, Option(help="Of this topic.")] = None,
    group: Annotated[str | None, Option(help="Of this group.")] = None,
    broker: Annotated[int | None, Option(help="Of this broker; without any of these of all brokers.")] = None,
) -> None:
    """Set configs while brokers run."""
    owner = {"topic": topic, "group": group, "broker": broker}
    body: dict[str, Any] = {name: value for name, value in owner.items() if value is not None}
    body["configs"] = {key: value or None for key, value in settings_of(setting).items()}
    at.post("config", body=body)


def disconnect(at: At) -> None:
    """Close the connections of all clients."""
    at.post("disconnect")


DAY_S = 86_400


def time(
    at: Shown,
    freeze: Annotated[bool, Option(help="Let the clock stand still.")] = False,
    advance: Annotated[
        str | None, Option(metavar="TIME", help="Let so much pass at once: 500ms, 90s, 7d, 1h30m.")
    ] = None,
    resume: Annotated[bool, Option(help="Let the clock go on.")] = False,
) -> None:
    """Show the brokers' clock, or change it."""
    body: dict[str, Any] = {"advance_ms": 0 if advance is None else duration_ms(advance)}
    body |= {name: True for name, wanted in (("freeze", freeze), ("resume", resume)) if wanted}
    told = at.post("time", body=body) if freeze or resume or advance is not None else at.get("time")
    if at.as_json:
        at.show(told, ())
    else:
        print(clock_line(told))


def clock_line(told: Mapping[str, Any]) -> str:
    """The clock of the brokers as text."""
    days, seconds = divmod((abs(told["ahead_ms"]) + 500) // 1000, DAY_S)
    # More days than a timedelta can have are not an error.
    ahead = f"{counted(days, 'day')}, " * bool(days) + str(timedelta(seconds=seconds))
    where = "as the machine's" if not days + seconds else f"{ahead} {'ahead' if told['ahead_ms'] > 0 else 'behind'}"
    return f"{told['now_ms']} ms, {where}{', stands still' if told['frozen'] else ''}"
