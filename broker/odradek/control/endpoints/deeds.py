"""Calls that act on the brokers of a cluster."""

from __future__ import annotations

from odradek.control.endpoints.asked import Asked
from odradek.control.endpoints.state import show_transaction
from odradek.control.messages.clusters import BrokerView
from odradek.control.messages.deeds import (
    AdvertiseBody,
    AlterConfigs,
    MoveCoordinator,
    Moved,
    MoveLeader,
    StopBody,
    TimeBody,
    TimeView,
)
from odradek.control.messages.state import TransactionView
from odradek.control.state import broker_views, time_view
from odradek.core.internal_topics import CoordinatorKind
from odradek.metadata.image import ResourceType

__all__ = [
    "KINDS",
    "advertise",
    "alter_configs",
    "change_time",
    "disconnect",
    "move_coordinator",
    "move_leader",
    "pause_broker",
    "reload_certificates",
    "resume_broker",
    "set_coordinator_load",
    "set_feature",
    "set_producer_epoch",
    "show_time",
    "start_broker",
    "stop_broker",
]

KINDS = {"transaction": CoordinatorKind.TRANSACTION, "group": CoordinatorKind.GROUP}


async def stop_broker(asked: Asked) -> list[BrokerView]:
    """Stop a broker, cleanly or as in a crash; others take over its partitions."""
    body: StopBody = asked.body
    asked.hosted.controls.stop_broker(asked.number("broker"), cleanly=body.cleanly, fence_after_ms=body.fence_after_ms)
    return broker_views(asked.hosted.running)


async def start_broker(asked: Asked) -> list[BrokerView]:
    """Start a stopped broker again, at the same address."""
    asked.hosted.controls.start_broker(asked.number("broker"))
    return broker_views(asked.hosted.running)


async def pause_broker(asked: Asked) -> list[BrokerView]:
    """Pause a broker: its connections stay open, it receives nothing, and after its session timeout it is fenced."""
    asked.hosted.controls.pause_broker(asked.number("broker"))
    return broker_views(asked.hosted.running)


async def resume_broker(asked: Asked) -> list[BrokerView]:
    """Resume a paused broker; waiting input comes first."""
    asked.hosted.controls.resume_broker(asked.number("broker"))
    return broker_views(asked.hosted.running)


async def advertise(asked: Asked) -> list[BrokerView]:
    """Change the advertised address of a broker, for example to the mapped port of a container."""
    body: AdvertiseBody = asked.body
    asked.hosted.controls.advertise(asked.number("broker"), port=body.port, host=body.host, listener=body.listener)
    return broker_views(asked.hosted.running)


async def reload_certificates(asked: Asked) -> None:
    """Read the keys and certificates of every listener again, for new connections."""
    asked.hosted.controls.reload_certificates()


async def disconnect(asked: Asked) -> None:
    """Close every connection of a client."""
    asked.hosted.controls.disconnect_clients()


async def move_leader(asked: Asked) -> Moved:
    """Give a partition to another leader, or to the same one in a new leader epoch."""
    body: MoveLeader = asked.body
    topic, partition = asked.path["topic"], asked.number("partition")
    return Moved(broker=asked.hosted.controls.move_leader(topic, partition, to=body.to, unclean=body.unclean))


async def move_coordinator(asked: Asked) -> Moved:
    """Move the coordinator of a transactional id or a group: kind is transaction or group."""
    kind = KINDS.get(asked.path["kind"])
    if kind is None:
        raise LookupError(f"there is no kind of coordinator {asked.path['kind']}: there is transaction and group")
    body: MoveCoordinator = asked.body
    controls, key = asked.hosted.controls, asked.path["key"]
    return Moved(broker=controls.move_coordinator(kind, key, to=body.to, unclean=body.unclean))


async def set_coordinator_load(asked: Asked) -> None:
    """Set how long coordinators take to load, answering COORDINATOR_LOAD_IN_PROGRESS."""
    asked.hosted.controls.set_coordinator_load_ms(asked.body.load_ms)


async def set_producer_epoch(asked: Asked) -> TransactionView:
    """Give an idle transactional id this producer epoch."""
    transactional_id = asked.path["transactional_id"]
    asked.hosted.controls.set_producer_epoch(transactional_id, asked.body.epoch)
    return await show_transaction(asked)


async def set_feature(asked: Asked) -> dict[str, int]:
    """Finalize another level of a feature; returns the levels of all features."""
    asked.hosted.controls.set_feature(asked.path["feature"], asked.body.level)
    return dict(asked.hosted.running.controller.node.image.features)


async def alter_configs(asked: Asked) -> None:
    """Set configs of a topic, a group, a broker or all brokers, as an operator does; null deletes a value."""
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
