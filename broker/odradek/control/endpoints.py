"""What the hub answers: each call as a row of a table, from which the routes and the OpenAPI document are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from odradek import __version__
from odradek.control import steps
from odradek.control.conditions import wait_for
from odradek.control.hub import Hosted, Hub, Taken
from odradek.control.messages import (
    AdvertiseBody,
    AlterConfigs,
    BrokerView,
    Came,
    ClusterMade,
    ClusterView,
    CoordinatorLoad,
    EpochBody,
    EventsPage,
    GroupView,
    LevelBody,
    MoveCoordinator,
    Moved,
    MoveLeader,
    NewCluster,
    Overview,
    ParkedView,
    PartitionSummary,
    PartitionView,
    PushView,
    ReleaseBody,
    Released,
    RuleSummary,
    TimeBody,
    TimeView,
    TransactionView,
    Verdict,
    WaitBody,
)
from odradek.control.plan import plan_of, rule_of
from odradek.control.state import (
    broker_views,
    group_view,
    group_views,
    parked_views,
    partition_summaries,
    partition_view,
    time_view,
    transaction_view,
    transaction_views,
)
from odradek.control.telemetry import matches, push_view, pushes
from odradek.metadata.image import ResourceType
from odradek.node.coordinators import CoordinatorKind
from odradek.node.rules.armed import RuleReport

__all__ = ["ENDPOINTS", "Asked", "Endpoint", "Parameter"]

KINDS = {"transaction": CoordinatorKind.TRANSACTION, "group": CoordinatorKind.GROUP}
CLUSTER = "/clusters/{cluster}"


class Asked(Struct, frozen=True):
    """One call: the hub, the cluster that the path names, the parts of the path, the query, and the body."""

    hub: Hub
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    cluster: Hosted | None = None

    @property
    def hosted(self) -> Hosted:
        """The cluster that the path names."""
        assert self.cluster is not None, "this call is about no cluster"
        return self.cluster

    def number(self, name: str) -> int:
        """A part of the path that is a number. Raises LookupError where it is none: nothing is called that."""
        text = self.path[name]
        if not text.isdecimal() or len(text) > 9:
            raise LookupError(f"there is no {name} {text}: it is a number")
        return int(text)


class Parameter(Struct, frozen=True):
    """A part of the query."""

    name: str
    about: str
    kind: str = "string"


class Endpoint(Struct, frozen=True, kw_only=True):
    """A row of the table."""

    method: str
    path: str
    about: str
    run: Callable[[Asked], Awaitable[object]]
    body: Any = None
    answer: Any = None
    status: int = 200
    query: tuple[Parameter, ...] = ()
    body_required: bool = False
    """Whether a call without a body is refused; else it is one whose fields are all left out."""


# ---------------------------------------------------------------------- clusters


async def overview(asked: Asked) -> Overview:
    """The hub, and its clusters."""
    return Overview(odradek=__version__, clusters=[hosted.made for hosted in asked.hub])


async def list_clusters(asked: Asked) -> list[ClusterMade]:
    """Every cluster."""
    return [hosted.made for hosted in asked.hub]


async def make_cluster(asked: Asked) -> ClusterMade:
    """Make a cluster; clients can connect when it is answered."""
    return (await asked.hub.make(asked.body)).made


async def show_cluster(asked: Asked) -> ClusterView:
    """The whole state of a cluster."""
    hosted = asked.hosted
    running = hosted.running
    return ClusterView(
        id=hosted.id,
        bootstrap=running.bootstrap,
        controller=running.spec.controller_id,
        features=dict(running.controller.node.image.features),
        brokers=broker_views(running),
        partitions=partition_summaries(running),
        transactions=transaction_views(running),
        groups=group_views(running),
        parked=parked_views(running),
        rules=[_summary(report) for report in _reports(hosted)],
        time=time_view(running),
        last_event=hosted.events.last,
    )


async def remove_cluster(asked: Asked) -> None:
    """End a cluster: the connections of its clients close."""
    await asked.hub.remove(asked.hosted.id)


async def reset_cluster(asked: Asked) -> ClusterMade:
    """Everything as new, on the same ports."""
    return (await asked.hub.reset(asked.hosted.id)).made


async def renew(asked: Asked) -> ClusterMade:
    """Begin the lease anew; every other call about a cluster does so too."""
    return asked.hosted.made


# ---------------------------------------------------------------------- rules


def _reports(hosted: Hosted) -> list[RuleReport]:
    return hosted.running.rules.reports() if hosted.running.has_rules else []


def _summary(report: RuleReport) -> RuleSummary:
    return RuleSummary(name=report.name, matched=report.matched, hits=report.hits, held=report.held, unmet=report.unmet)


async def list_rules(asked: Asked) -> list[RuleReport]:
    """Every rule, and what it has seen."""
    return _reports(asked.hosted)


async def add_rules(asked: Asked) -> list[RuleReport]:
    """Apply a rule, a list of rules or a plan (an object with `rules`): all of it or none."""
    hosted = asked.hosted
    known = [report.name for report in _reports(hosted)]
    body = asked.body
    alone = isinstance(body, dict) and "rules" not in body
    rules = [rule_of(body, known=known)] if alone else plan_of(body, known=known).rules
    return [armed.report() for armed in steps.add_rules(hosted.running, rules)]


async def show_rule(asked: Asked) -> RuleReport:
    """A rule, and what it has seen."""
    return asked.hosted.running.rules.get(asked.path["rule"]).report()


async def remove_rule(asked: Asked) -> RuleReport:
    """Apply a rule no longer; what it holds is served, and what it has seen is answered."""
    rules = asked.hosted.running.rules
    armed = rules.get(asked.path["rule"])
    rules.remove(armed)
    return armed.report()


async def clear_rules(asked: Asked) -> None:
    """Remove every rule, and forget what any of them expects."""
    asked.hosted.running.rules.clear()


async def release_rule(asked: Asked) -> Released:
    """Serve the requests that a rule holds, all or so many."""
    rules = asked.hosted.running.rules
    body: ReleaseBody = asked.body
    return Released(released=rules.release(rules.get(asked.path["rule"]), body.count))


async def verify(asked: Asked) -> Verdict:
    """Which expectations are not met."""
    hosted = asked.hosted
    return Verdict(unmet=hosted.running.rules.verify() if hosted.running.has_rules else [])


# ---------------------------------------------------------------------- events and waiting


async def wait(asked: Asked) -> Came:
    """Wait until something is so; 408 says what came nearest."""
    hosted = asked.hosted
    return await wait_for(asked.body, hosted.running, hosted.events)


async def list_events(asked: Asked) -> EventsPage:
    """The events that are kept, or with `follow` a stream of server-sent events."""
    ring = asked.hosted.events
    after = seq_of(asked.query.get("after", "0"))
    kinds = kinds_of(asked.query)
    events = [event for event in ring.after(after) if not kinds or event.kind in kinds]
    return EventsPage(events=events, last=ring.last, lost=max(0, ring.first - 1 - after))


def seq_of(text: str) -> int:
    """The number of an event. Raises ValueError for what is none."""
    if not text.isdecimal():
        raise ValueError(f"after is the number of an event, not {text}")
    return int(text)


def kinds_of(query: Mapping[str, str]) -> frozenset[str]:
    """The kinds of events that are asked for; none means all."""
    return frozenset(filter(None, query.get("kind", "").split(",")))


# ---------------------------------------------------------------------- state


async def list_brokers(asked: Asked) -> list[BrokerView]:
    """The brokers."""
    return broker_views(asked.hosted.running)


async def list_transactions(asked: Asked) -> list[TransactionView]:
    """Every transactional id, as its coordinator has it."""
    return transaction_views(asked.hosted.running)


async def show_transaction(asked: Asked) -> TransactionView:
    """One transactional id, with the markers that are owed."""
    view = transaction_view(asked.hosted.running, asked.path["transactional_id"])
    if view is None:
        raise LookupError(f"no coordinator knows the transactional id {asked.path['transactional_id']}")
    return view


async def list_groups(asked: Asked) -> list[GroupView]:
    """Every group, with members and offsets."""
    return group_views(asked.hosted.running)


async def show_group(asked: Asked) -> GroupView:
    """One group."""
    view = group_view(asked.hosted.running, asked.path["group"])
    if view is None:
        raise LookupError(f"no coordinator knows the group {asked.path['group']}")
    return view


async def list_partitions(asked: Asked) -> list[PartitionSummary]:
    """Every partition of a topic that is not internal."""
    return partition_summaries(asked.hosted.running)


async def show_partition(asked: Asked) -> PartitionView:
    """A partition as its leader has it: offsets, open transactions, guards, the last batches."""
    return partition_view(asked.hosted.running, asked.path["topic"], asked.number("partition"))


async def list_parked(asked: Asked) -> list[ParkedView]:
    """Every request that waits for something, the oldest first."""
    return parked_views(asked.hosted.running)


async def list_telemetry(asked: Asked) -> list[PushView]:
    """What clients have pushed of their metrics, the oldest first: the last thousand of each broker."""
    metric, client_id = asked.query.get("metric", ""), asked.query.get("client_id")
    terminating = truth_of(asked.query, "terminating")
    return [
        push_view(broker, push, metric)
        for broker, push in pushes(asked.hosted.running)
        if matches(push, metric, client_id, terminating)
    ]


def truth_of(query: Mapping[str, str], name: str) -> bool | None:
    """A part of the query that is true or false. Raises ValueError for what is neither."""
    text = query.get(name)
    if text not in (None, "true", "false"):
        raise ValueError(f"{name} is true or false, not {text}")
    return None if text is None else text == "true"


# ---------------------------------------------------------------------- what is done to brokers


async def stop_broker(asked: Asked) -> list[BrokerView]:
    """End a broker as if its machine were gone."""
    asked.hosted.controls.stop_broker(asked.number("broker"))
    return broker_views(asked.hosted.running)


async def start_broker(asked: Asked) -> list[BrokerView]:
    """Start a broker again, at the same address."""
    asked.hosted.controls.start_broker(asked.number("broker"))
    return broker_views(asked.hosted.running)


async def pause_broker(asked: Asked) -> list[BrokerView]:
    """Have a broker hear nothing: its connections stay open, its clock goes on, and in time it is fenced."""
    asked.hosted.controls.pause_broker(asked.number("broker"))
    return broker_views(asked.hosted.running)


async def resume_broker(asked: Asked) -> list[BrokerView]:
    """Let a broker hear again, what has waited first."""
    asked.hosted.controls.resume_broker(asked.number("broker"))
    return broker_views(asked.hosted.running)


async def advertise(asked: Asked) -> list[BrokerView]:
    """Tell clients another address of a broker from now on, as where the ports of a container are mapped."""
    body: AdvertiseBody = asked.body
    asked.hosted.controls.advertise(asked.number("broker"), port=body.port, host=body.host, listener=body.listener)
    return broker_views(asked.hosted.running)


async def reload_certificates(asked: Asked) -> None:
    """Read the keys and certificates of every listener again, for the connections to come."""
    asked.hosted.controls.reload_certificates()


async def disconnect(asked: Asked) -> None:
    """Close every connection of a client."""
    asked.hosted.controls.disconnect_clients()


async def move_leader(asked: Asked) -> Moved:
    """Have another broker lead a partition, or the same one in a new leader epoch."""
    body: MoveLeader = asked.body
    topic, partition = asked.path["topic"], asked.number("partition")
    return Moved(broker=asked.hosted.controls.move_leader(topic, partition, to=body.to, unclean=body.unclean))


async def move_coordinator(asked: Asked) -> Moved:
    """Have another broker coordinate a transactional id or a group: kind is transaction or group."""
    kind = KINDS.get(asked.path["kind"])
    if kind is None:
        raise LookupError(f"there is no kind of coordinator {asked.path['kind']}: there is transaction and group")
    body: MoveCoordinator = asked.body
    controls, key = asked.hosted.controls, asked.path["key"]
    return Moved(broker=controls.move_coordinator(kind, key, to=body.to, unclean=body.unclean))


async def set_coordinator_load(asked: Asked) -> None:
    """How long coordinators answer COORDINATOR_LOAD_IN_PROGRESS from now on."""
    asked.hosted.controls.set_coordinator_load_ms(asked.body.load_ms)


async def set_producer_epoch(asked: Asked) -> TransactionView:
    """Have an idle transactional id go on at this epoch."""
    transactional_id = asked.path["transactional_id"]
    asked.hosted.controls.set_producer_epoch(transactional_id, asked.body.epoch)
    return await show_transaction(asked)


async def set_feature(asked: Asked) -> dict[str, int]:
    """Finalize another level of a feature; the levels of all."""
    asked.hosted.controls.set_feature(asked.path["feature"], asked.body.level)
    return dict(asked.hosted.running.controller.node.image.features)


async def alter_configs(asked: Asked) -> None:
    """Set configs of a topic, a group, a broker or all brokers, as an operator would; null takes one back."""
    body: AlterConfigs = asked.body
    named = [each for each in (body.topic, body.group, body.broker) if each is not None]
    if len(named) > 1:
        raise ValueError("configs are those of a topic, a group or a broker: name one of them")
    if body.topic is not None:
        resource = ResourceType.TOPIC, body.topic
    elif body.group is not None:
        resource = ResourceType.GROUP, body.group
    else:
        resource = ResourceType.BROKER, "" if body.broker is None else str(body.broker)
    changes = {name: None if value is None else _text(value) for name, value in body.configs.items()}
    asked.hosted.controls.alter_configs(*resource, changes)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


async def show_time(asked: Asked) -> TimeView:
    """The brokers' clock."""
    return time_view(asked.hosted.running)


async def change_time(asked: Asked) -> TimeView:
    """Freeze, advance or resume the brokers' clock."""
    body: TimeBody = asked.body
    running = asked.hosted.running
    if body.freeze and body.resume:
        raise ValueError("the clock cannot both freeze and resume")
    if body.freeze:
        running.freeze()
    if body.advance_ms:
        running.advance(body.advance_ms)
    if body.resume:
        running.resume()
    return time_view(running)


# ---------------------------------------------------------------------- the table


def _row(method: str, path: str, run: Callable[[Asked], Awaitable[object]], **others: Any) -> Endpoint:
    about = (run.__doc__ or "").strip()
    # The names of annotations are those of this module.
    answer = globals_of(run)
    return Endpoint(method=method, path=path, about=about, run=run, answer=answer, **others)


def globals_of(run: Callable[[Asked], Awaitable[object]]) -> Any:
    """The type that a call is answered with."""
    from typing import get_type_hints

    return get_type_hints(run)["return"]


EVENTS_QUERY = (
    Parameter("after", "Those above this number.", "integer"),
    Parameter("kind", "Those of these kinds, separated by commas."),
    Parameter("follow", "Answer with server-sent events, those to come included.", "boolean"),
)

TELEMETRY_QUERY = (
    Parameter("metric", "Pushes with a metric whose name begins so, and of each only those metrics."),
    Parameter("client_id", "Of this client."),
    Parameter("terminating", "Only those that are the last of a client, or only the others.", "boolean"),
)

ENDPOINTS: tuple[Endpoint, ...] = (
    _row("GET", "/", overview),
    _row("GET", "/clusters", list_clusters),
    _row("POST", "/clusters", make_cluster, body=NewCluster, status=201),
    _row("GET", CLUSTER, show_cluster),
    _row("DELETE", CLUSTER, remove_cluster, status=204),
    _row("POST", CLUSTER + "/reset", reset_cluster),
    _row("POST", CLUSTER + "/lease", renew),
    _row("GET", CLUSTER + "/rules", list_rules),
    _row("POST", CLUSTER + "/rules", add_rules, body=Any, status=201, body_required=True),
    _row("DELETE", CLUSTER + "/rules", clear_rules, status=204),
    _row("GET", CLUSTER + "/rules/{rule}", show_rule),
    _row("DELETE", CLUSTER + "/rules/{rule}", remove_rule),
    _row("POST", CLUSTER + "/rules/{rule}/release", release_rule, body=ReleaseBody),
    _row("POST", CLUSTER + "/verify", verify),
    _row("POST", CLUSTER + "/wait", wait, body=WaitBody, body_required=True),
    _row("GET", CLUSTER + "/events", list_events, query=EVENTS_QUERY),
    _row("GET", CLUSTER + "/brokers", list_brokers),
    _row("GET", CLUSTER + "/transactions", list_transactions),
    _row("GET", CLUSTER + "/transactions/{transactional_id}", show_transaction),
    _row("GET", CLUSTER + "/groups", list_groups),
    _row("GET", CLUSTER + "/groups/{group}", show_group),
    _row("GET", CLUSTER + "/partitions", list_partitions),
    _row("GET", CLUSTER + "/partitions/{topic}/{partition}", show_partition),
    _row("GET", CLUSTER + "/parked", list_parked),
    _row("GET", CLUSTER + "/telemetry", list_telemetry, query=TELEMETRY_QUERY),
    _row("POST", CLUSTER + "/brokers/{broker}/stop", stop_broker),
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
__all__ += ["Taken"]
