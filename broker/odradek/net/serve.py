"""`odradek serve`: a cluster that runs until it is told to stop."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio
from msgspec import Struct

from odradek.cli.usage import UsageError
from odradek.config.addresses import url_of
from odradek.net.cluster import RunningCluster, start_cluster
from odradek.net.event_loop import heeding_stops, loop_options
from odradek.net.garbage import Garbage

if TYPE_CHECKING:
    from odradek.broker import EventSink, Logger
    from odradek.config.table import Config
    from odradek.metadata.controller_role import StartTopic
    from odradek.net.event_log import EventLog
    from odradek.net.metrics_page import MetricsPage
    from odradek.net.ports import Port
    from odradek.releases import Release

__all__ = ["Hosting", "Ready", "ServeOptions", "Start", "alone", "serve"]

NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
AGAIN_S = 1.0
"""How long after a failed import it is tried again."""


class ServeOptions(Struct, frozen=True, kw_only=True):
    """What the command line says."""

    config: Config
    node_ids: tuple[int, ...] | None = (1,)
    """None with a directory that says which broker it is of."""
    host: str = "127.0.0.1"
    port: int = 9092
    advertised_host: str | None = None
    advertised_port: int | None = None
    topics: tuple[StartTopic, ...] = ()
    seed: int | None = None
    cluster_id: str | None = None
    data_dir: Path | None = None
    events: Path | None = None
    event_bodies: bool = False
    metrics_port: int | None = None
    arm: Callable[[RunningCluster], object] | None = None
    """Applies rules to the cluster before anybody can connect."""


Ports: TypeAlias = "Mapping[int, Mapping[str, Port]] | None"
"""Of the listeners of each broker, held from the time before."""
Start: TypeAlias = "Callable[[EventSink | None, Ports], Awaitable[RunningCluster]]"
"""Starts the cluster, with this sink for its events, and on these ports if they are given."""
Hosting: TypeAlias = "Callable[[Start, EventSink | None], AbstractAsyncContextManager[Callable[[], RunningCluster]]]"
"""Runs the cluster inside a block; which one it is may change while it runs."""

Ready: TypeAlias = "Callable[[RunningCluster, str | None], None]"
"""Is told when clients can connect: the cluster, and the URL of its page of metrics if it has one."""


@asynccontextmanager
async def alone(start: Start, events: EventSink | None) -> AsyncIterator[Callable[[], RunningCluster]]:
    """The cluster by itself."""
    cluster = await start(events, None)
    yield lambda: cluster
    await cluster.stop()


async def _run(options: ServeOptions, log: Logger, ready: Ready, hosting: Hosting) -> list[str]:
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
            events=events,
        )
        if options.arm is not None:
            options.arm(cluster)
        return cluster

    with heeding_stops() as first_stop, ExitStack() as exits:
        events = None if options.events is None else exits.enter_context(closing(_event_log(options, log)))
        async with hosting(start, events) as current:
            metrics_url = None
            if options.metrics_port is not None:
                page = exits.enter_context(closing(_metrics_page(current, options.host, options.metrics_port)))
                log.info("metrics_served", host=options.host, port=page.port)
                metrics_url = f"{url_of(options.host, page.port)}/metrics"
            garbage = exits.enter_context(Garbage())
            ready(current(), metrics_url)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_import_the_rest, options.config.release, log)
                tasks.start_soon(garbage.look_in_idle_moments)
                log.info("stopping", signal=(await first_stop()).name)
                tasks.cancel_scope.cancel()
            complaints = current().rules.complaints() if current().has_rules else []
    lost = None if events is None else events.lost
    if lost is not None and not complaints:
        raise UsageError(lost)
    return complaints if lost is None else [*complaints, lost]


async def _import_the_rest(release: Release, log: Logger) -> None:
    """What the start did not need. While clients leave no descriptor to open a module with, this waits.

    What cannot be imported at all is left to the first request that needs it.
    """
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
            await anyio.sleep(AGAIN_S)


def _keep_freed_memory() -> None:
    from odradek.net.allocator import keep_freed_memory  # it imports ctypes, for which nobody should wait

    keep_freed_memory()


async def _warm(release: Release) -> None:
    from odradek.net.warm import warm  # it imports threads, for which nobody should wait

    await warm(release)


def _event_log(options: ServeOptions, log: Logger) -> EventLog:
    from odradek.net.event_log import EventLog  # it imports structlog, which a start without events does not need

    assert options.events is not None, "events are wanted"
    return EventLog(options.events, log, bodies=options.event_bodies)


def _metrics_page(cluster: Callable[[], RunningCluster], host: str, port: int) -> MetricsPage:
    from odradek.net.metrics_page import BrokerNumbers, MetricsPage  # they import prometheus-client: few starts need it

    return MetricsPage(BrokerNumbers(cluster), host=host, port=port)


def serve(options: ServeOptions, *, log: Logger, ready: Ready, hosting: Hosting = alone) -> list[str]:
    """Serve until SIGINT or SIGTERM; a sentence for each rule that has not seen what it expects.

    Raises `ListenError` where a listener cannot be bound, what `arm` raises, and `UsageError` at the end where events
    could not be written.
    """
    return anyio.run(_run, options, log, ready, hosting, backend="asyncio", backend_options=loop_options())
