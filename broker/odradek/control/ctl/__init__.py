"""`odradek ctl`: the hub as tables for people; with `--json` the answers of the hub for scripts."""

from __future__ import annotations

from collections.abc import Callable

from odradek.cli.commands import Commands
from odradek.control.ctl.access import access, advertise, reload_certificates
from odradek.control.ctl.at import told
from odradek.control.ctl.brokers import (
    config,
    disconnect,
    epoch,
    feature,
    move_coordinator,
    move_leader,
    of_broker,
    stop,
    time,
)
from odradek.control.ctl.clusters import (
    clusters,
    make,
    remove,
    remove_snapshot,
    reset,
    show,
    snapshot,
    snapshots,
    telemetry,
    why,
)
from odradek.control.ctl.rules import arm, disarm, plan, release, verify
from odradek.control.ctl.tables import listing
from odradek.control.ctl.waiting import events, wait

__all__ = ["add_commands"]

COMMANDS: dict[str, Callable[..., None]] = {
    "clusters": clusters,
    "make": make,
    "show": show,
    "why": why,
    "reset": reset,
    "remove": remove,
    "snapshot": snapshot,
    "snapshots": snapshots,
    "remove-snapshot": remove_snapshot,
    "plan": plan,
    "arm": arm,
    "rules": listing("rules", "List the rules, and what they have seen."),
    "release": release,
    "disarm": disarm,
    "verify": verify,
    "brokers": listing("brokers", "List the brokers."),
    "stop": stop,
    "start": of_broker("start", "Start a stopped broker again, at the same address."),
    "pause": of_broker("pause", "Have a broker hear nothing, while its connections stay open."),
    "resume": of_broker("resume", "Let a broker hear again."),
    "transactions": listing("transactions", "List the transactional ids, with the markers that are owed."),
    "groups": listing("groups", "List the groups, with members and offsets."),
    "partitions": listing("partitions", "List the partitions of topics that are not internal."),
    "parked": listing("parked", "List the requests that wait for something, the oldest first."),
    "telemetry": telemetry,
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
    for name, run in COMMANDS.items():
        commands.add(f"ctl {name}", told(run))
