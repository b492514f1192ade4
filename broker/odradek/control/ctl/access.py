"""Commands about how clients get in, and where."""

from __future__ import annotations

import json
from typing import Annotated

from odradek.cli.commands import Argument, Option
from odradek.cli.usage import UsageError
from odradek.control.ctl.at import AsJson, At, Broker, Cluster, Url
from odradek.control.ctl.tables import BROKER_COLUMNS, show_answer

__all__ = ["access", "advertise", "reload_certificates"]

FAMILIES = ("librdkafka", "java")


def advertise(
    broker: Broker,
    port: Annotated[int, Argument(help="The port that clients are told; it listens where it did.")],
    host: Annotated[str | None, Option(help="The host; else it stays.")] = None,
    listener: Annotated[str | None, Option(metavar="NAME", help="Of this listener; else of the first.")] = None,
    hub: Url = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Tell clients another address of a broker, as where the ports of a container are mapped."""
    given = {"port": port, "host": host, "listener": listener}
    body = {name: value for name, value in given.items() if value is not None}
    show_answer(At(hub, cluster).post("brokers", broker, "advertise", body=body), as_json, BROKER_COLUMNS)


def reload_certificates(hub: Url = None, cluster: Cluster = None) -> None:
    """Read the keys and certificates of the listeners again, for the connections to come."""
    At(hub, cluster).post("certificates", "reload")


def access(
    family: Annotated[str, Argument(metavar="CLIENT", names=lambda: FAMILIES, help="librdkafka or java.")],
    hub: Url = None,
    cluster: Cluster = None,
) -> None:
    """Print the settings with which a client gets in, as an object of JSON."""
    if family not in FAMILIES:
        raise UsageError(f"There are settings for {' and '.join(FAMILIES)}, not for {family}.")
    told = At(hub, cluster).post("lease")
    settings = {"bootstrap.servers": told["bootstrap"]} if told["access"] is None else told["access"][family]
    print(json.dumps(settings, indent=2, ensure_ascii=False))
