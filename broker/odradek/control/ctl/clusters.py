"""Commands that make, show and end clusters."""

from __future__ import annotations

from typing import Annotated

from odradek.cli import offered
from odradek.cli.commands import Option
from odradek.control.ctl.at import AsJson, At, Cluster, Url, hub_at
from odradek.control.ctl.given import settings_of, users_of
from odradek.control.ctl.tables import CLUSTER_COLUMNS, SECTIONS, show_answer
from odradek.control.ctl.time import clock_line

__all__ = ["clusters", "make", "remove", "reset", "show"]


def clusters(hub: Url = None, as_json: AsJson = False) -> None:
    """List the clusters of the hub."""
    show_answer(hub_at(hub).get("clusters"), as_json, CLUSTER_COLUMNS)


def make(
    brokers: Annotated[int | None, Option(min=1, help="How many brokers; else 1.")] = None,
    topic: Annotated[
        list[str] | None, Option(help="NAME[:PARTITIONS[:REPLICAS]]; can be given more than once.")
    ] = None,
    set_: Annotated[list[str] | None, Option(name="--set", metavar="KEY=VALUE", help="Broker configuration.")] = None,
    as_kafka: Annotated[
        str | None, Option(metavar="RELEASE", names=offered.releases, help="Be this release of Kafka.")
    ] = None,
    dialect: Annotated[str | None, Option(names=offered.dialects, help="Be this dialect of Kafka.")] = None,
    transaction_version: Annotated[int | None, Option(min=0, help="Finalized level of transaction.version.")] = None,
    security: Annotated[
        str | None,
        Option(
            names=offered.securities,
            help="plaintext, ssl, sasl-plaintext or sasl-ssl; `ctl access` says how clients get in.",
        ),
    ] = None,
    user: Annotated[
        list[str] | None,
        Option(metavar="NAME:PASSWORD", help="Who can log in; can be given more than once. Else one is made up."),
    ] = None,
    story: Annotated[
        str | None,
        Option(metavar="NAME", names=offered.stories, help="Arrange this situation; `odradek stories` lists them."),
    ] = None,
    name: Annotated[str | None, Option(name="--id", help="Its name; else one is made.")] = None,
    lease: Annotated[float | None, Option(min=0, help="Seconds of silence after which it goes; 0: never.")] = None,
    hub: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make a cluster; with --json its bootstrap is easy to find."""
    given = {
        "brokers": brokers,
        "topics": topic,
        "config": settings_of(set_ or []) or None,
        "as_kafka": as_kafka,
        "dialect": dialect,
        "transaction_version": transaction_version,
        "security": security,
        "users": users_of(user or []) or None,
        "story": story,
        "id": name,
        "lease_s": 0 if lease is None else lease,
    }
    body = {field: value for field, value in given.items() if value is not None}
    show_answer(hub_at(hub).post("clusters", body=body), as_json, CLUSTER_COLUMNS)


def show(hub: Url = None, cluster: Cluster = None, as_json: AsJson = False) -> None:
    """Show the whole state of a cluster."""
    at = At(hub, cluster)
    state = at.get()
    if as_json:
        show_answer(state, as_json, ())
        return
    features = ", ".join(f"{name} {level}" for name, level in state["features"].items())
    print(f"cluster {state['id']}: {state['bootstrap']}\nfeatures: {features or '-'}")
    print(f"clock: {clock_line(state['time'])}")
    for section, columns in SECTIONS.items():
        if state[section]:
            print(f"\n{section}")
            show_answer(state[section], False, columns)


def reset(hub: Url = None, cluster: Cluster = None, as_json: AsJson = False) -> None:
    """Make a cluster as new, on the same ports."""
    show_answer(At(hub, cluster).post("reset"), as_json, CLUSTER_COLUMNS)


def remove(hub: Url = None, cluster: Cluster = None) -> None:
    """End a cluster and the connections of its clients."""
    At(hub, cluster).delete()
