"""Commands about the addresses and credentials of clients."""

from __future__ import annotations

import json
from typing import Annotated

from odradek.cli.commands import Argument, Option
from odradek.cli.usage import UsageError
from odradek.control.ctl.at import At, Broker
from odradek.control.ctl.tables import BROKER_COLUMNS, Shown

__all__ = ["access", "advertise", "reload_certificates"]

FAMILIES = ("librdkafka", "java")


def advertise(
    at: Shown,
    broker: Broker,
    port: Annotated[int, Argument(help="The port that clients are told; it listens where it did.")],
    host: Annotated[str | None, Option(help="The host; else it stays.")] = None,
    listener: Annotated[str | None, Option(metavar="NAME", help="Of this listener; else of the first.")] = None,
) -> None:
    """Change the advertised address of a broker, for example to the mapped port of a container."""
    given = {"port": port, "host": host, "listener": listener}
    body = {name: value for name, value in given.items() if value is not None}
    at.show(at.post("brokers", broker, "advertise", body=body), BROKER_COLUMNS)


def reload_certificates(at: At) -> None:
    """Read the keys and certificates of the listeners again, for new connections."""
    at.post("certificates", "reload")


def access(
    at: At,
    family: Annotated[str, Argument(metavar="CLIENT", names=lambda: FAMILIES, help="librdkafka or java.")],
) -> None:
    """Print the settings of a client as JSON."""
    if family not in FAMILIES:
        raise UsageError(f"There are settings for {' and '.join(FAMILIES)}, not for {family}.")
    told = at.post("lease")
    settings = {"bootstrap.servers": told["bootstrap"]} if told["access"] is None else told["access"][family]
    print(json.dumps(settings, indent=2, ensure_ascii=False))
