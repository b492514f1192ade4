"""`odradek ctl`: the hub for people, as tables; with `--json` for scripts, as the hub answers."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from os import environ
from pathlib import Path
from typing import Annotated, Any

from odradek.commands import Argument, Commands, Option
from odradek.control.client import HubClient, HubRefused, HubUnreachable
from odradek.usage import Unmet, UsageError

__all__ = ["add_commands", "duration_ms"]

DEFAULT_URL = "http://127.0.0.1:9644"
Url = Annotated[str | None, Option(metavar="URL", help=f"The hub; else $ODRADEK_HUB, or {DEFAULT_URL}.")]
Cluster = Annotated[str | None, Option(metavar="ID", help="The cluster; else $ODRADEK_CLUSTER, or the only one.")]
AsJson = Annotated[bool, Option(name="--json", help="Print what the hub answers.")]
Broker = Annotated[int, Argument(help="The id of the broker.")]
UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
WAIT_MARGIN_S = 10.0
FAMILIES = ("librdkafka", "java")


class _At:
    """A cluster of the hub that a command is about."""

    def __init__(self, url: str | None, cluster: str | None) -> None:
        self.hub = _hub(url)
        self._named = cluster or environ.get("ODRADEK_CLUSTER")
        self._found: str | None = None

    @property
    def id(self) -> str:
        """Its name."""
        if self._found is None:
            self._found = self._named or self._only()
        return self._found

    def _only(self) -> str:
        names = [str(each["id"]) for each in self.hub.get("clusters")]
        if len(names) != 1:
            there = f"there are {', '.join(names)}: give --cluster" if names else "there is none: odradek ctl make"
            raise UsageError(f"Which cluster? {there}.")
        return names[0]

    def get(self, *parts: str | int, **query: str | int) -> Any:
        """Read something of it."""
        return self.hub.get("clusters", self.id, *parts, **query)

    def post(self, *parts: str | int, body: object = None, timeout_s: float | None = None) -> Any:
        """Do something to it."""
        return self.hub.post("clusters", self.id, *parts, body=body, timeout_s=timeout_s)

    def delete(self, *parts: str | int) -> Any:
        """Remove something of it, or it."""
        return self.hub.delete("clusters", self.id, *parts)


def _hub(url: str | None) -> HubClient:
    return HubClient(url or environ.get("ODRADEK_HUB") or DEFAULT_URL, token=environ.get("ODRADEK_HUB_TOKEN"))


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    """What the hub refuses, and that there is none, is what a command ends with."""
    try:
        yield
    except (HubRefused, HubUnreachable) as error:
        raise UsageError(str(error)) from None
    except (BrokenPipeError, KeyboardInterrupt):
        raise SystemExit(0) from None


def _told(run: Callable[..., None]) -> Callable[..., None]:
    """A command whose failures are sentences."""
    from functools import wraps

    @wraps(run)
    def told(**arguments: Any) -> None:
        with _in_a_sentence():
            run(**arguments)

    return told


# ---------------------------------------------------------------------- printing


def _print(answer: Any, as_json: bool, columns: Sequence[str]) -> None:
    if as_json:
        print(json.dumps(answer, indent=2, ensure_ascii=False))
        return
    rows = answer if isinstance(answer, list) else [answer]
    for line in table(columns, rows):
        print(line)


def table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Lines with the columns under one another; numbers to the right."""
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    heads = [column.replace("_", " ").upper() for column in columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    numeric = [bool(cells) and all(row[at].lstrip("-").isdecimal() for row in cells) for at in range(len(columns))]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in [heads, *cells]
    ]


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_cell, value)) or "-"
    if isinstance(value, dict):
        if value.keys() >= {"topic", "partition"}:
            offset = f"={value['offset']}" if "offset" in value else ""
            return f"{value['topic']}-{value['partition']}{offset}"
        return str(value.get("member_id", value.get("id", value)))
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


CLUSTER_COLUMNS = ("id", "bootstrap", "lease_s")
BROKER_COLUMNS = ("id", "host", "port", "state", "fenced", "controller", "connections", "parked", "leads")
RULE_COLUMNS = ("name", "matched", "hits", "held", "unmet")
TRANSACTION_COLUMNS = (
    "transactional_id", "state", "producer_id", "producer_epoch", "coordinator", "partitions", "owed_markers",
)  # fmt: skip
GROUP_COLUMNS = ("group_id", "state", "type", "coordinator", "members", "offsets")
PARTITION_COLUMNS = (
    "topic", "partition", "leader", "leader_epoch", "log_start_offset", "last_stable_offset", "high_watermark",
)  # fmt: skip
PARKED_COLUMNS = ("broker", "api", "version", "client_id", "age_ms", "rule", "waits_for")
SECTIONS = {
    "brokers": BROKER_COLUMNS,
    "partitions": PARTITION_COLUMNS,
    "transactions": TRANSACTION_COLUMNS,
    "groups": GROUP_COLUMNS,
    "parked": PARKED_COLUMNS,
    "rules": RULE_COLUMNS,
}

# ---------------------------------------------------------------------- clusters


def clusters(hub: Url = None, as_json: AsJson = False) -> None:
    """List the clusters of the hub."""
    _print(_hub(hub).get("clusters"), as_json, CLUSTER_COLUMNS)


def make(
    brokers: Annotated[int | None, Option(min=1, help="How many brokers; else 1.")] = None,
    topic: Annotated[
        list[str] | None, Option(help="NAME[:PARTITIONS[:REPLICAS]]; can be given more than once.")
    ] = None,
    set_: Annotated[list[str] | None, Option(name="--set", metavar="KEY=VALUE", help="Broker configuration.")] = None,
    as_kafka: Annotated[str | None, Option(metavar="RELEASE", help="Be this release of Kafka.")] = None,
    dialect: Annotated[str | None, Option(help="Be this dialect of Kafka.")] = None,
    transaction_version: Annotated[int | None, Option(min=0, help="Finalized level of transaction.version.")] = None,
    security: Annotated[
        str | None, Option(help="plaintext, ssl, sasl-plaintext or sasl-ssl; `ctl access` says how clients get in.")
    ] = None,
    user: Annotated[
        list[str] | None,
        Option(metavar="NAME:PASSWORD", help="Who can log in; can be given more than once. Else one is made up."),
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
        "config": _settings(set_ or []) or None,
        "as_kafka": as_kafka,
        "dialect": dialect,
        "transaction_version": transaction_version,
        "security": security,
        "users": _users(user or []) or None,
        "id": name,
        "lease_s": 0 if lease is None else lease,
    }
    body = {field: value for field, value in given.items() if value is not None}
    _print(_hub(hub).post("clusters", body=body), as_json, CLUSTER_COLUMNS)


def _users(texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, colon, password = text.partition(":")
        if not (name and colon and password):
            raise UsageError("A user is NAME:PASSWORD, and what is given is not.")
        found[name] = password
    return found


def show(hub: Url = None, cluster: Cluster = None, as_json: AsJson = False) -> None:
    """Show the whole state of a cluster."""
    at = _At(hub, cluster)
    state = at.get()
    if as_json:
        _print(state, as_json, ())
        return
    features = ", ".join(f"{name} {level}" for name, level in state["features"].items())
    print(f"cluster {state['id']}: {state['bootstrap']}\nfeatures: {features or '-'}")
    print(f"clock: {_clock(state['time'])}")
    for section, columns in SECTIONS.items():
        if state[section]:
            print(f"\n{section}")
            _print(state[section], False, columns)


def reset(hub: Url = None, cluster: Cluster = None, as_json: AsJson = False) -> None:
    """Make a cluster as new, on the same ports."""
    _print(_At(hub, cluster).post("reset"), as_json, CLUSTER_COLUMNS)


def remove(hub: Url = None, cluster: Cluster = None) -> None:
    """End a cluster and the connections of its clients."""
    _At(hub, cluster).delete()


def _list(section: str, about: str) -> Callable[..., None]:
    def run(hub: Url = None, cluster: Cluster = None, as_json: AsJson = False) -> None:
        _print(_At(hub, cluster).get(section), as_json, SECTIONS[section])

    run.__doc__ = about
    return run


# ---------------------------------------------------------------------- rules


def arm(
    plan: Annotated[Path, Argument(help="A plan in YAML or JSON; - is standard input.")],
    hub: Url = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Apply the rules of a plan."""
    from odradek.control.plan import PlanError
    from odradek.control.yaml_text import read_yaml
    from odradek.extras import need

    need("yaml", extra="control")

    def refuse(steps: Any, sentence: str, position: tuple[int, int]) -> PlanError:
        return PlanError(sentence, path="$", source=str(plan), line=position[0], column=position[1])

    try:
        text = sys.stdin.read() if str(plan) == "-" else plan.read_text(encoding="utf-8")
        data, _ = read_yaml(text, refuse)
    except OSError as error:
        raise UsageError(f"Cannot read {plan}: {error.strerror}.") from None
    except PlanError as error:
        raise UsageError(str(error)) from None
    _print(_At(hub, cluster).post("rules", body=data), as_json, RULE_COLUMNS)


def disarm(
    rule: Annotated[str, Argument(help="Its name.")], hub: Url = None, cluster: Cluster = None, as_json: AsJson = False
) -> None:
    """Apply a rule no longer, and serve what it holds."""
    _print(_At(hub, cluster).delete("rules", rule), as_json, RULE_COLUMNS)


def release(
    rule: Annotated[str, Argument(help="Its name.")],
    count: Annotated[int | None, Option(min=1, help="So many, the longest held first; else all.")] = None,
    hub: Url = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Serve the requests that a rule holds."""
    body = {} if count is None else {"count": count}
    _print(_At(hub, cluster).post("rules", rule, "release", body=body), as_json, ("released",))


def verify(hub: Url = None, cluster: Cluster = None, as_json: AsJson = False) -> None:
    """Say which rules have not seen what they expect; exit code 3 if there are any."""
    verdict = _At(hub, cluster).post("verify")
    if as_json:
        _print(verdict, as_json, ())
    if verdict["unmet"]:
        raise Unmet(" ".join(verdict["unmet"]))


# ---------------------------------------------------------------------- control


def _of_broker(action: str, about: str) -> Callable[..., None]:
    def run(broker: Broker, hub: Url = None, cluster: Cluster = None, as_json: AsJson = False) -> None:
        _print(_At(hub, cluster).post("brokers", broker, action), as_json, BROKER_COLUMNS)

    run.__doc__ = about
    return run


def move_leader(
    topic: Annotated[str, Argument(help="The topic.")],
    partition: Annotated[int, Argument(help="The partition.")],
    to: Annotated[int, Argument(help="The broker that leads it from now on.")],
    hub: Url = None,
    cluster: Cluster = None,
) -> None:
    """Have another broker lead a partition, or the same one in a new leader epoch."""
    _At(hub, cluster).post("partitions", topic, partition, "leader", body={"to": to})


def move_coordinator(
    kind: Annotated[str, Argument(help="transaction or group.")],
    key: Annotated[str, Argument(help="The transactional id, or the group.")],
    to: Annotated[int | None, Option(help="The broker; else the next one.")] = None,
    hub: Url = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Have another broker coordinate a transactional id or a group."""
    body = {} if to is None else {"to": to}
    _print(_At(hub, cluster).post("coordinators", kind, key, "move", body=body), as_json, ("broker",))


def epoch(
    transactional_id: Annotated[str, Argument(help="The transactional id, which has no open transaction.")],
    number: Annotated[int, Argument(metavar="EPOCH", help="Up to 32767.")],
    hub: Url = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Have a transactional id go on at this producer epoch."""
    answer = _At(hub, cluster).post("producers", transactional_id, "epoch", body={"epoch": number})
    _print(answer, as_json, TRANSACTION_COLUMNS)


def feature(
    name: Annotated[str, Argument(help="The feature, such as transaction.version.")],
    level: Annotated[int, Argument(help="The level to finalize.")],
    hub: Url = None,
    cluster: Cluster = None,
) -> None:
    """Finalize another level of a feature, up or down."""
    _At(hub, cluster).post("features", name, body={"level": level})


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
    body["configs"] = {key: value or None for key, value in _settings(setting).items()}
    _At(hub, cluster).post("config", body=body)


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
    _print(_At(hub, cluster).post("brokers", broker, "advertise", body=body), as_json, BROKER_COLUMNS)


def reload_certificates(hub: Url = None, cluster: Cluster = None) -> None:
    """Read the keys and certificates of the listeners again, for the connections to come."""
    _At(hub, cluster).post("certificates", "reload")


def access(
    family: Annotated[str, Argument(metavar="CLIENT", help="librdkafka or java.")],
    hub: Url = None,
    cluster: Cluster = None,
) -> None:
    """Print the settings with which a client gets in, as an object of JSON."""
    if family not in FAMILIES:
        raise UsageError(f"There are settings for {' and '.join(FAMILIES)}, not for {family}.")
    told = _At(hub, cluster).post("lease")
    settings = {"bootstrap.servers": told["bootstrap"]} if told["access"] is None else told["access"][family]
    print(json.dumps(settings, indent=2, ensure_ascii=False))


def disconnect(hub: Url = None, cluster: Cluster = None) -> None:
    """Close the connections of all clients."""
    _At(hub, cluster).post("disconnect")


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
    at = _At(hub, cluster)
    body: dict[str, Any] = {"advance_ms": 0 if advance is None else duration_ms(advance)}
    body |= {name: True for name, wanted in (("freeze", freeze), ("resume", resume)) if wanted}
    told = at.post("time", body=body) if freeze or resume or advance is not None else at.get("time")
    if as_json:
        _print(told, as_json, ())
    else:
        print(_clock(told))


def _clock(told: Mapping[str, Any]) -> str:
    ahead = timedelta(seconds=round(abs(told["ahead_ms"]) / 1000))
    where = "as the machine's" if not ahead else f"{ahead} {'ahead' if told['ahead_ms'] > 0 else 'behind'}"
    return f"{told['now_ms']} ms, {where}{', stands still' if told['frozen'] else ''}"


def duration_ms(text: str) -> int:
    """`500ms`, `90s`, `1h30m`, `7d` as milliseconds. Raises UsageError for anything else."""
    found = re.findall(r"(\d+)(ms|s|m|h|d)", text)
    if not found or "".join(number + unit for number, unit in found) != text:
        raise UsageError(f"A time is like 500ms, 90s, 1h30m or 7d, not {text}.")
    return sum(int(number) * UNITS[unit] for number, unit in found)


# ---------------------------------------------------------------------- waiting and events


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
    came = _At(hub, cluster).post(
        "wait", body={**body, "timeout_ms": limit_ms}, timeout_s=limit_ms / 1000 + WAIT_MARGIN_S
    )
    if as_json:
        _print(came, as_json, ())


def events(
    kind: Annotated[str | None, Option(metavar="KIND,…", help="Of these kinds.")] = None,
    after: Annotated[int, Option(min=0, help="Those above this number.")] = 0,
    follow: Annotated[bool, Option(help="And those to come, until the cluster ends.")] = False,
    hub: Url = None,
    cluster: Cluster = None,
) -> None:
    """Print events, each as a line of JSON."""
    at = _At(hub, cluster)
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


def _settings(texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"A setting is KEY=VALUE, not {text}.")
        found[key] = value
    return found


COMMANDS: dict[str, Callable[..., None]] = {
    "clusters": clusters,
    "make": make,
    "show": show,
    "reset": reset,
    "remove": remove,
    "arm": arm,
    "rules": _list("rules", "List the rules, and what they have seen."),
    "release": release,
    "disarm": disarm,
    "verify": verify,
    "brokers": _list("brokers", "List the brokers."),
    "stop": _of_broker("stop", "End a broker as if its machine were gone."),
    "start": _of_broker("start", "Start a broker again, at the same address."),
    "pause": _of_broker("pause", "Have a broker hear nothing, while its connections stay open."),
    "resume": _of_broker("resume", "Let a broker hear again."),
    "transactions": _list("transactions", "List the transactional ids, with the markers that are owed."),
    "groups": _list("groups", "List the groups, with members and offsets."),
    "partitions": _list("partitions", "List the partitions of topics that are not internal."),
    "parked": _list("parked", "List the requests that wait for something, the oldest first."),
    "move-leader": move_leader,
    "move-coordinator": move_coordinator,
    "epoch": epoch,
    "feature": feature,
    "config": config,
    "advertise": advertise,
    "reload-certificates": reload_certificates,
    "access": access,
    "disconnect": disconnect,
    "time": time,
    "wait": wait,
    "events": events,
}


def add_commands(commands: Commands) -> None:
    """Add them all, as a group."""
    for name, run in COMMANDS.items():
        commands.add(f"ctl {name}", _told(run))
