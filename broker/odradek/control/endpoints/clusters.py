"""Calls that create, show and remove clusters."""

from __future__ import annotations

import asyncio
from functools import cache

from odradek import __version__
from odradek.control.endpoints.asked import Asked
from odradek.control.endpoints.rules import _reports, _summary
from odradek.control.endpoints.state import BATCHES_MAX
from odradek.control.hub import KeptSnapshot
from odradek.control.messages.clusters import ClusterMade, ClusterView, Overview, SnapshotView, StoryLine
from odradek.control.messages.now import NowView
from odradek.control.state import (
    broker_views,
    group_views,
    parked_views,
    partition_summaries,
    time_view,
    transaction_views,
)
from odradek.control.stories import names, read_story
from odradek.page.lessons import THEMES, Lesson, LessonView, lesson_view, read_lesson

__all__ = [
    "list_clusters",
    "list_snapshots",
    "list_stories",
    "make_cluster",
    "overview",
    "remove_cluster",
    "remove_snapshot",
    "renew",
    "reset_cluster",
    "show_cluster",
    "show_now",
    "show_story",
    "take_snapshot",
]

SHOWN, SHOWN_MAX = 200, 10_000
STRIP = 30


async def overview(asked: Asked) -> Overview:
    """The hub, and its clusters."""
    return Overview(odradek=__version__, clusters=[hosted.made for hosted in asked.hub])


async def list_clusters(asked: Asked) -> list[ClusterMade]:
    """Every cluster."""
    return [hosted.made for hosted in asked.hub]


async def list_stories(asked: Asked) -> list[StoryLine]:
    """The stories with which a cluster can be made, by name."""
    # Reading all plans takes a fifth of a second, so brokers get their turns meanwhile.
    return await asyncio.to_thread(_stories)


@cache
def _stories() -> list[StoryLine]:
    return [_story_line(name, read_lesson(name)) for name in names()]


def _story_line(name: str, lesson: Lesson) -> StoryLine:
    return StoryLine(
        name=name,
        about=read_story(name).about or "",
        chapter=THEMES.index(lesson.theme) + 1,
        theme=lesson.theme,
        title=lesson.title,
        symptom=lesson.symptom,
    )


async def show_story(asked: Asked) -> LessonView:
    """A story step by step: a play of it with the reason of each step, and the duty of a client."""
    return await asyncio.to_thread(lesson_view, asked.path["story"])


async def make_cluster(asked: Asked) -> ClusterMade:
    """Create a cluster; clients can connect when this is answered."""
    return (await asked.hub.make(asked.body)).made


def _view(kept: KeptSnapshot) -> SnapshotView:
    taken = kept.snapshot
    return SnapshotView(
        name=kept.name,
        cluster=kept.cluster,
        cluster_id=taken.cluster_id,
        brokers=list(taken.node_ids),
        taken_at_ms=taken.taken_at_ms,
        bytes_held=taken.bytes_held,
        directory=None if taken.directory is None else str(taken.directory),
    )


async def list_snapshots(asked: Asked) -> list[SnapshotView]:
    """Every snapshot that the hub keeps."""
    return [_view(kept) for kept in asked.hub.snapshots.values()]


async def take_snapshot(asked: Asked) -> SnapshotView:
    """Keep the state of a cluster at this moment, for clusters to be made from it; it outlives the cluster."""
    return _view(asked.hub.take_snapshot(asked.hosted.id, asked.body.name))


async def remove_snapshot(asked: Asked) -> None:
    """Keep a snapshot no longer; clusters that were made from it go on."""
    asked.hub.remove_snapshot(asked.path["snapshot"])


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


async def show_now(asked: Asked) -> NowView:
    """A cluster at this moment, for people: a limited number of things of each kind, and how many more there are."""
    from odradek.control.now import Bounds, now_view  # most hubs are never opened in a browser

    bounds = Bounds(
        find=asked.query.get("find", "").lower(),
        most=asked.count("most", SHOWN, SHOWN_MAX),
        batches=asked.count("batches", STRIP, BATCHES_MAX),
    )
    return now_view(asked.hosted, bounds)


async def remove_cluster(asked: Asked) -> None:
    """End a cluster: the connections of its clients close."""
    await asked.hub.remove(asked.hosted.id)


async def reset_cluster(asked: Asked) -> ClusterMade:
    """Start the cluster from the beginning, on the same ports."""
    return (await asked.hub.reset(asked.hosted.id)).made


async def renew(asked: Asked) -> ClusterMade:
    """Renew the lease; every other call about a cluster does so too."""
    return asked.hosted.made
