"""The table of the hub's calls, from which the routes and the OpenAPI document are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints

from odradek.control.endpoints.asked import Asked, Endpoint, Parameter
from odradek.control.endpoints.clusters import (
    list_clusters,
    list_snapshots,
    list_stories,
    make_cluster,
    overview,
    remove_cluster,
    remove_snapshot,
    renew,
    reset_cluster,
    show_cluster,
    show_now,
    show_story,
    take_snapshot,
)
from odradek.control.endpoints.deeds import (
    advertise,
    alter_configs,
    change_time,
    disconnect,
    move_coordinator,
    move_leader,
    pause_broker,
    reload_certificates,
    resume_broker,
    set_coordinator_load,
    set_feature,
    set_producer_epoch,
    show_time,
    start_broker,
    stop_broker,
)
from odradek.control.endpoints.events import list_events, list_lines, show_history, wait
from odradek.control.endpoints.exports import export
from odradek.control.endpoints.rules import (
    add_rules,
    clear_rules,
    list_rules,
    release_rule,
    remove_rule,
    show_rule,
    verify,
)
from odradek.control.endpoints.state import (
    list_brokers,
    list_groups,
    list_parked,
    list_partitions,
    list_telemetry,
    list_transactions,
    show_group,
    show_partition,
    show_transaction,
    show_why,
)
from odradek.control.messages.clusters import NewCluster, NewSnapshot
from odradek.control.messages.deeds import (
    AdvertiseBody,
    AlterConfigs,
    CoordinatorLoad,
    EpochBody,
    LevelBody,
    MoveCoordinator,
    MoveLeader,
    ReleaseBody,
    StopBody,
    TimeBody,
)
from odradek.control.messages.events import WaitBody

__all__ = ["ENDPOINTS"]

CLUSTER = "/clusters/{cluster}"


def _row(method: str, path: str, run: Callable[[Asked], Awaitable[object]], **others: Any) -> Endpoint:
    about = (run.__doc__ or "").strip()
    return Endpoint(method=method, path=path, about=about, run=run, answer=get_type_hints(run)["return"], **others)


EVENTS_QUERY = (
    Parameter("after", "Those above this number.", "integer"),
    Parameter("kind", "Those of these kinds, separated by commas."),
    Parameter("follow", "Answer with server-sent events, those to come included.", "boolean"),
)

HISTORY_QUERY = (
    Parameter("most", "So many events at most, 500 unless it is said.", "integer"),
    Parameter("transaction", "Those about this transactional id, and those near them."),
    Parameter("before", "Those before this number.", "integer"),
)

EXPORT_QUERY = (
    Parameter(
        "transaction",
        "Of this transactional id. Else pictures are of the one whose transaction ended last, the rest is of all.",
    ),
)

TELEMETRY_QUERY = (
    Parameter("metric", "Pushes with a metric whose name begins so, and of each only those metrics."),
    Parameter("client_id", "Of this client."),
    Parameter("terminating", "Only those that are the last of a client, or only the others.", "boolean"),
)

WHY_QUERY = (
    Parameter("about", "A rule, TOPIC-PARTITION, a topic, a transactional id, a group or a broker: that alone."),
)

NOW_QUERY = (
    Parameter("find", "Those alone whose names contain this, however it is written."),
    Parameter("most", "So many of each kind, 200 if it is not said, 10,000 at most.", "integer"),
    Parameter("batches", "So many of the newest batches of each partition, 30 if it is not said.", "integer"),
)

PARTITION_QUERY = (Parameter("batches", "So many of its newest batches, 10 if it is not said.", "integer"),)

ENDPOINTS: tuple[Endpoint, ...] = (
    _row("GET", "/", overview),
    _row("GET", "/clusters", list_clusters),
    _row("GET", "/stories", list_stories),
    _row("GET", "/stories/{story}", show_story),
    _row("POST", "/clusters", make_cluster, body=NewCluster, status=201),
    _row("GET", CLUSTER, show_cluster),
    _row("GET", CLUSTER + "/now", show_now, query=NOW_QUERY),
    _row("DELETE", CLUSTER, remove_cluster, status=204),
    _row("POST", CLUSTER + "/reset", reset_cluster),
    _row("POST", CLUSTER + "/lease", renew),
    _row("GET", "/snapshots", list_snapshots),
    _row("POST", CLUSTER + "/snapshots", take_snapshot, body=NewSnapshot, status=201, body_required=True),
    _row("DELETE", "/snapshots/{snapshot}", remove_snapshot, status=204),
    _row("GET", CLUSTER + "/rules", list_rules),
    _row("POST", CLUSTER + "/rules", add_rules, body=Any, status=201, body_required=True),
    _row("DELETE", CLUSTER + "/rules", clear_rules, status=204),
    _row("GET", CLUSTER + "/rules/{rule}", show_rule),
    _row("DELETE", CLUSTER + "/rules/{rule}", remove_rule),
    _row("POST", CLUSTER + "/rules/{rule}/release", release_rule, body=ReleaseBody),
    _row("POST", CLUSTER + "/verify", verify),
    _row("POST", CLUSTER + "/wait", wait, body=WaitBody, body_required=True),
    _row("GET", CLUSTER + "/events", list_events, query=EVENTS_QUERY),
    _row("GET", CLUSTER + "/events/lines", list_lines),
    _row("GET", CLUSTER + "/history", show_history, query=HISTORY_QUERY),
    _row("GET", CLUSTER + "/exports/{form}", export, query=EXPORT_QUERY),
    _row("GET", CLUSTER + "/why", show_why, query=WHY_QUERY),
    _row("GET", CLUSTER + "/brokers", list_brokers),
    _row("GET", CLUSTER + "/transactions", list_transactions),
    _row("GET", CLUSTER + "/transactions/{transactional_id}", show_transaction),
    _row("GET", CLUSTER + "/groups", list_groups),
    _row("GET", CLUSTER + "/groups/{group}", show_group),
    _row("GET", CLUSTER + "/partitions", list_partitions),
    _row("GET", CLUSTER + "/partitions/{topic}/{partition}", show_partition, query=PARTITION_QUERY),
    _row("GET", CLUSTER + "/parked", list_parked),
    _row("GET", CLUSTER + "/telemetry", list_telemetry, query=TELEMETRY_QUERY),
    _row("POST", CLUSTER + "/brokers/{broker}/stop", stop_broker, body=StopBody),
    _row("POST", CLUSTER + "/brokers/{broker}/start", start_broker),
    _row("POST", CLUSTER + "/brokers/{broker}/pause", pause_broker),
    _row("POST", CLUSTER + "/brokers/{broker}/resume", resume_broker),
    _row("POST", CLUSTER + "/brokers/{broker}/advertise", advertise, body=AdvertiseBody, body_required=True),
    _row("POST", CLUSTER + "/certificates/reload", reload_certificates, status=204),
    _row("POST", CLUSTER + "/disconnect", disconnect, status=204),
    _row("POST", CLUSTER + "/partitions/{topic}/{partition}/leader", move_leader, body=MoveLeader, body_required=True),
    _row("POST", CLUSTER + "/coordinators/{kind}/{key}/move", move_coordinator, body=MoveCoordinator),
    _row(
        "POST",
        CLUSTER + "/coordinators/load",
        set_coordinator_load,
        body=CoordinatorLoad,
        status=204,
        body_required=True,
    ),
    _row(
        "POST",
        CLUSTER + "/producers/{transactional_id}/epoch",
        set_producer_epoch,
        body=EpochBody,
        body_required=True,
    ),
    _row("POST", CLUSTER + "/features/{feature}", set_feature, body=LevelBody, body_required=True),
    _row("POST", CLUSTER + "/config", alter_configs, body=AlterConfigs, status=204, body_required=True),
    _row("GET", CLUSTER + "/time", show_time),
    _row("POST", CLUSTER + "/time", change_time, body=TimeBody, body_required=True),
)
