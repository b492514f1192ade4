"""Commands that make, show and end clusters, and that show what is stuck in one and which metrics its clients push."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from odradek.cli import offered
from odradek.cli.commands import Argument, Option
from odradek.cli.usage import UsageError
from odradek.control.ctl.at import AsJson, At, Url, hub_at
from odradek.control.ctl.brokers import clock_line
from odradek.control.ctl.given import settings_of, users_of
from odradek.control.ctl.tables import CLUSTER_COLUMNS, SECTIONS, SNAPSHOT_COLUMNS, Shown, show_answer

__all__ = [
    "clusters",
    "make",
    "remove",
    "remove_snapshot",
    "reset",
    "show",
    "snapshot",
    "snapshots",
    "telemetry",
    "why",
]


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
    from_: Annotated[
        str | None,
        Option(
            name="--from", metavar="SNAPSHOT", help="Go on from this snapshot, or the one in this directory (DIR/NAME)."
        ),
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
        "from": None if from_ is None else _snapshot(from_),
        "id": name,
        "lease_s": 0 if lease is None else lease,
    }
    body = {field: value for field, value in given.items() if value is not None}
    show_answer(hub_at(hub).post("clusters", body=body), as_json, CLUSTER_COLUMNS)


def _snapshot(from_: str) -> str:
    """A name, or the whole path of a directory: a relative one begins where the user is, and not where the hub is."""
    if "/" not in from_:
        return from_
    path = Path(from_).absolute()
    if not path.is_dir() and not Path(from_).is_absolute():
        raise UsageError(f"There is no directory {path}: --from takes the name of a snapshot, or its directory.")
    return str(path)


def show(at: Shown) -> None:
    """Show the whole state of a cluster."""
    state = at.get()
    if at.as_json:
        at.show(state, ())
        return
    features = ", ".join(f"{name} {level}" for name, level in state["features"].items())
    print(f"cluster {state['id']}: {state['bootstrap']}\nfeatures: {features or '-'}")
    print(f"clock: {clock_line(state['time'])}")
    for section, columns in SECTIONS.items():
        if state[section]:
            print(f"\n{section}")
            show_answer(state[section], False, columns)


def reset(at: Shown) -> None:
    """Start a cluster from the beginning, on the same ports."""
    at.show(at.post("reset"), CLUSTER_COLUMNS)


def snapshot(
    at: Shown,
    name: Annotated[str, Argument(help="Its name, for `ctl make --from NAME`.")],
) -> None:
    """Keep the state of a cluster at this moment, for clusters to be made from it."""
    at.show(at.post("snapshots", body={"name": name}), SNAPSHOT_COLUMNS)


def snapshots(hub: Url = None, as_json: AsJson = False) -> None:
    """List the snapshots that the hub keeps."""
    show_answer(hub_at(hub).get("snapshots"), as_json, SNAPSHOT_COLUMNS)


def remove_snapshot(name: Annotated[str, Argument(help="Its name.")], hub: Url = None) -> None:
    """Keep a snapshot no longer; clusters that were made from it go on."""
    hub_at(hub).delete("snapshots", name)


def remove(at: At) -> None:
    """End a cluster and the connections of its clients."""
    at.delete()


def why(
    at: Shown,
    name: Annotated[
        str | None,
        Argument(
            help="A rule, TOPIC-PARTITION, a topic, a transactional id, a group or a broker; else all that is stuck."
        ),
    ] = None,
    events: Annotated[bool, Option(help="And the newest events.")] = False,
) -> None:
    """Show what is stuck, since when, what holds it, and what ends it."""
    answer = at.get("why", **({} if name is None else {"about": name}))
    if at.as_json:
        at.show(answer, ())
        return
    for line in (*answer["sentences"], *(answer["events"] if events else ())):
        print(line)


PUSH_COLUMNS = (
    "at_ms", "broker", "client_id", "client_software_name", "client_software_version", "terminating", "metrics",
)  # fmt: skip
METRIC_COLUMNS = ("at_ms", "client_id", "name", "value", "count", "attributes")


def telemetry(
    at: Shown,
    metric: Annotated[str | None, Option(metavar="NAME", help="Show the values of metrics that begin so.")] = None,
    client_id: Annotated[str | None, Option(metavar="ID", help="Of this client.")] = None,
    last: Annotated[bool, Option(help="Only the last push of each client, as it closed.")] = False,
) -> None:
    """List the metrics that clients have pushed (KIP-714), oldest first."""
    asked = {"metric": metric, "client_id": client_id, "terminating": "true" if last else None}
    answer = at.get("telemetry", **{name: value for name, value in asked.items() if value is not None})
    if at.as_json:
        at.show(answer, ())
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
