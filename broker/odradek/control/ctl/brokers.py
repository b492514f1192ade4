"""Commands that move what brokers do, and change what they are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from odradek.cli.commands import Argument, Option
from odradek.control.ctl.at import AsJson, At, Broker, Cluster, Url
from odradek.control.ctl.given import settings_of
from odradek.control.ctl.tables import BROKER_COLUMNS, TRANSACTION_COLUMNS, show_answer

__all__ = ["config", "disconnect", "epoch", "feature", "move_coordinator", "move_leader", "of_broker", "stop"]

Unclean = Annotated[
    bool, Option(name="--unclean", help="Move it to a broker out of sync, too; what that one lacks is lost.")
]


def of_broker(action: str, about: str) -> Callable[..., None]:
    """The command that does this to a broker."""

    def run(broker: Broker, hub: Url = None, cluster: Cluster = None, as_json: AsJson = False) -> None:
        show_answer(At(hub, cluster).post("brokers", broker, action), as_json, BROKER_COLUMNS)

    run.__doc__ = about
    return run


def stop(
    broker: Broker,
    cleanly: Annotated[
        bool, Option(name="--cleanly", help="In a controlled shutdown, so that it stays eligible as a leader.")
    ] = False,
    fence_after: Annotated[
        int, Option(name="--fence-after", metavar="MS", help="The controller notices the crash so much later.")
    ] = 0,
    hub: Url = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """End a broker, as if its machine were gone or cleanly; others take over what it led."""
    body = {"cleanly": cleanly, "fence_after_ms": fence_after}
    show_answer(At(hub, cluster).post("brokers", broker, "stop", body=body), as_json, BROKER_COLUMNS)


def move_leader(
    topic: Annotated[str, Argument(help="The topic.")],
    partition: Annotated[int, Argument(help="The partition.")],
    to: Annotated[int | None, Option(help="The broker; else the next one in sync.")] = None,
    unclean: Unclean = False,
    hub: Url = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Have another broker lead a partition, or the same one in a new leader epoch."""
    body = {"unclean": unclean} | ({} if to is None else {"to": to})
    show_answer(At(hub, cluster).post("partitions", topic, partition, "leader", body=body), as_json, ("broker",))


def move_coordinator(
    kind: Annotated[str, Argument(names=lambda: ("transaction", "group"), help="transaction or group.")],
    key: Annotated[str, Argument(help="The transactional id, or the group.")],
    to: Annotated[int | None, Option(help="The broker; else the next one in sync.")] = None,
    unclean: Unclean = False,
    hub: Url = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Have another broker coordinate a transactional id or a group."""
    body = {"unclean": unclean} | ({} if to is None else {"to": to})
    show_answer(At(hub, cluster).post("coordinators", kind, key, "move", body=body), as_json, ("broker",))


def epoch(
    transactional_id: Annotated[str, Argument(help="The transactional id, which has no open transaction.")],
    number: Annotated[int, Argument(metavar="EPOCH", help="Up to 32767.")],
    hub: Url = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Have a transactional id go on at this producer epoch."""
    answer = At(hub, cluster).post("producers", transactional_id, "epoch", body={"epoch": number})
    show_answer(answer, as_json, TRANSACTION_COLUMNS)


def feature(
    name: Annotated[str, Argument(help="The feature, such as transaction.version.")],
    level: Annotated[int, Argument(help="The level to finalize.")],
    hub: Url = None,
    cluster: Cluster = None,
) -> None:
    """Finalize another level of a feature, up or down."""
    At(hub, cluster).post("features", name, body={"level": level})


def config(
    setting: Annotated[list[str], Argument(metavar="KEY=VALUE", help="KEY= alone takes it back.")],
    topic: Annotated[str | None, Option(help="Of this topic.")] = None,
    group: Annotated[str | None, Option(help="Of this group.")] = None,
    broker: Annotated[int | None, Option(help="Of this broker; without any of these of all brokers.")] = None,
    hub: Url = None,
    cluster: Cluster = None,
) -> None:
    """Set configs while brokers run."""
    owner = {"topic": topic, "group": group, "broker": broker}
    body: dict[str, Any] = {name: value for name, value in owner.items() if value is not None}
    body["configs"] = {key: value or None for key, value in settings_of(setting).items()}
    At(hub, cluster).post("config", body=body)


def disconnect(hub: Url = None, cluster: Cluster = None) -> None:
    """Close the connections of all clients."""
    At(hub, cluster).post("disconnect")
