"""Paused brokers, partitions without a leader, and a stopped clock."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.control.messages.why import Holder, Reason
from odradek.control.why.remedies import of_broker, resume_clock
from odradek.control.why.scene import Scene
from odradek.metadata.image import NO_LEADER
from odradek.stuck.words import clock, listed

__all__ = ["leaderless_topics", "silent_brokers", "standing_clock"]


def leaderless_topics(scene: Scene) -> Iterator[Reason]:
    """Topics with partitions that have no leader."""
    cluster = scene.cluster
    for name, topic in sorted(cluster.controller.node.image.topics.items()):
        lost = [each for each in topic.partitions.values() if cluster.leads(each) == NO_LEADER]
        if not lost:
            continue
        away = sorted({broker for each in lost for broker in each.replicas if broker not in scene.nodes})
        why = f": {_brokers(away)} with replicas of it {'is' if len(away) == 1 else 'are'} stopped" if away else ""
        which = "No broker leads" if len(lost) == len(topic.partitions) else f"Of {len(topic.partitions)}, nobody leads"
        partitions = listed([f"{name}-{each.index}" for each in lost])
        yield Reason(
            about="partition",
            name=f"{name}-{lost[0].index}",
            sentence=f"{which} {partitions}{why}.",
            stuck=True,
            since_ms=None,
            held_by=[Holder(about="broker", name=str(broker)) for broker in away],
            ends="a broker in sync starts again",
            remedies=[of_broker(broker, "start") for broker in away],
        )


def _brokers(ids: list[int]) -> str:
    return f"{'broker' if len(ids) == 1 else 'brokers'} {listed([str(each) for each in ids])}"


def silent_brokers(scene: Scene) -> Iterator[Reason]:
    """Brokers that are stopped or paused, by id."""
    for node_id, driver in sorted(scene.cluster.drivers.items()):
        if driver.stopped:
            yield _silent(node_id, "is stopped", "it is started", "start")
        elif driver.paused:
            yield _silent(node_id, "is paused: it hears nothing", "it is resumed", "resume")


def _silent(node_id: int, what: str, ends: str, deed: str) -> Reason:
    sentence = f"Broker {node_id} {what} until {ends}."
    return Reason(
        about="broker",
        name=str(node_id),
        sentence=sentence,
        stuck=True,
        since_ms=None,
        held_by=[],
        ends=ends,
        remedies=[of_broker(node_id, deed)],
    )


def standing_clock(scene: Scene) -> Iterator[Reason]:
    """The brokers' clock, if it is stopped."""
    if scene.cluster.clock.frozen:
        sentence = (
            f"The brokers' clock stands still at {clock(scene.now, day=True)} UTC: "
            "nothing times out until it is advanced or resumed."
        )
        ends = "it is advanced or resumed"
        yield Reason(
            about="time",
            name="clock",
            sentence=sentence,
            stuck=False,
            since_ms=scene.now,
            held_by=[],
            ends=ends,
            remedies=[resume_clock()],
        )
