"""`odradek serve`: a cluster that runs until it is stopped."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, closing
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from odradek.cli.usage import UsageError
from odradek.config.addresses import url_of
from odradek.net.cluster import RunningCluster, start_cluster
from odradek.net.event_loop import heeding_stops, loop_factory
from odradek.net.garbage import Garbage

if TYPE_CHECKING:
    from pathlib import Path

    from odradek.broker import EventSink, Logger
    from odradek.config.table import Config
    from odradek.metadata.controller_role import StartTopic
    from odradek.net.event_log import EventLog
    from odradek.net.metrics_page import MetricsPage
    from odradek.net.ports import Port
    from odradek.net.recording import Record
    from odradek.releases.release import Release

__all__ = ["Hosting", "Ports", "Ready", "ServeOptions", "Start", "alone", "serve"]

AFTER_S = 0.25
"""The delay after the start, before more is imported: the first answers do not wait for that.

A broker that is only started and stopped does not pay.
"""
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
AGAIN_S = 1.0
"""The time after which a failed import is tried again."""


class ServeOptions(Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    config: Config
    node_ids: tuple[int, ...] | None = (1,)
    """None with a directory that names its broker."""
    host: str = "127.0.0.1"
    port: int = 9092
    advertised_host: str | None = None
    advertised_port: int | None = None
    topics: tuple[StartTopic, ...] = ()
    seed: int | None = None
    cluster_id: str | None = None
    data_dir: Path | None = None
    sync: bool = False
    events: Path | None = None
    event_bodies: bool = False
    metrics_port: int | None = None
    arm: Callable[[RunningCluster], object] | None = None
    """Applies rules to the cluster before clients can connect."""
    record: Record | None = None
    begin: Start | None = None
    """Starts the cluster, in place of everything above."""
    now_ms: Callable[[], int] | None = None
    """The time of events, in place of the machine's."""


Ports: TypeAlias = "Mapping[int, Mapping[str, Port]] | None"
"""The held ports of each broker's listeners, from the cluster before."""
Start: TypeAlias = "Callable[[EventSink | None, Ports], Awaitable[RunningCluster]]"
"""Starts the cluster, with this sink for its events, and on these ports if they are given."""
Hosting: TypeAlias = "Callable[[Start, EventSink | None], AbstractAsyncContextManager[Callable[[], RunningCluster]]]"
"""Runs the cluster inside a block; the cluster may be replaced while the block runs."""

Ready: TypeAlias = "Callable[[RunningCluster, str | None], None]"
"""Called when clients can connect, with the cluster, and the URL of its metrics page if it has one."""


@asynccontextmanager
async def alone(start: Start, events: EventSink | None) -> AsyncIterator[Callable[[], RunningCluster]]:
    """Runs the cluster without a hub."""
    cluster = await start(events, None)
    yield lambda: cluster
    await cluster.stop()


async def _run(options: ServeOptions, log: Logger, ready: Ready, hosting: Hosting) -> list[str]:
    starts = count(1)

    async def start(events: EventSink | None, ports: Ports) -> RunningCluster:
        cluster = await start_cluster(
            config=options.config,
            log=log,
            node_ids=options.node_ids,
            host=options.host,
            port=options.port,
            ports=ports,
            advertised_host=options.advertised_host,
            advertised_port=options.advertised_port,
            topics=options.topics,
            seed=options.seed,
            cluster_id=options.cluster_id,
            data_dir=options.data_dir,
            sync=options.sync,
            record=None if options.record is None else options.record.nth(next(starts)),
            events=events,
        )
        if options.arm is not None:
            options.arm(cluster)
        return cluster

    with Garbage() as garbage, heeding_stops() as first_stop, ExitStack() as exits:
        events = None if options.events is None else exits.enter_context(closing(_event_log(options, log)))
        async with hosting(options.begin or start, events) as current:
            metrics_url = None
            if options.metrics_port is not None:
                page = exits.enter_context(closing(_metrics_page(current, options.host, options.metrics_port)))
                log.info("metrics_served", host=options.host, port=page.port)
                metrics_url = f"{url_of(options.host, page.port)}/metrics"
            ready(current(), metrics_url)
            async with asyncio.TaskGroup() as tasks:
                beside = (_import_the_rest(options.config.release, log), garbage.look_in_idle_moments())
                running = [tasks.create_task(each) for each in beside]
                log.info("stopping", signal=(await first_stop()).name)
                for task in running:
                    task.cancel()
            complaints = current().rules.complaints() if current().has_rules else []
    lost = None if events is None else events.lost
    if lost is not None and not complaints:
        raise UsageError(lost)
    return complaints if lost is None else [*complaints, lost]


async def _import_the_rest(release: Release, log: Logger) -> None:
    """Import what the start did not need. Without a free file descriptor to open a module with, it waits.

    A module that cannot be imported is left to the first request that needs it.
    """
    await asyncio.sleep(AFTER_S)
    waits = False
    while True:
        try:
            _keep_freed_memory()
            await _warm(release)
            return
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                log.warning("import_failed", reason=str(error))
                return
            if not waits:
                log.warning("import_waits", reason=str(error))
            waits = True
            await asyncio.sleep(AGAIN_S)


def _keep_freed_memory() -> None:
    from odradek.net.allocator import keep_freed_memory  # it imports ctypes, which would delay the start

    keep_freed_memory()


async def _warm(release: Release) -> None:
    from odradek.net.warm import warm  # it imports threads, which would delay the start

    await warm(release)


def _event_log(options: ServeOptions, log: Logger) -> EventLog:
    from odradek.net.event_log import EventLog  # it imports structlog, which a start without events does not need

    assert options.events is not None, "events are wanted"
    if options.data_dir is not None:
        from odradek.net.apart import check_apart

        check_apart(options.events, data_dir=options.data_dir)
    return EventLog(options.events, log, bodies=options.event_bodies, now_ms=options.now_ms)


def _metrics_page(cluster: Callable[[], RunningCluster], host: str, port: int) -> MetricsPage:
    from odradek.net.metrics_page import BrokerNumbers, MetricsPage  # they import prometheus-client: few starts need it

    return MetricsPage(BrokerNumbers(cluster), host=host, port=port)


def serve(options: ServeOptions, *, log: Logger, ready: Ready, hosting: Hosting = alone) -> list[str]:
    """Serve until SIGINT or SIGTERM; returns a sentence for each rule that did not see the requests that it expects.

    Raises `ListenError` if a listener cannot be bound, errors of `arm`, and `UsageError` at the end if events could not
    be written.
    """
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(options, log, ready, hosting))
