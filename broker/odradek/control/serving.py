"""`odradek hub`: the HTTP server of the hub, until it is stopped."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

import anyio
import uvicorn
from msgspec import Struct

from odradek.cli.usage import UsageError
from odradek.config.addresses import EVERYWHERE, bracketed, url_of
from odradek.control.http import Access, make_app
from odradek.control.hub import Hosted, Hub
from odradek.net.cluster import RunningCluster
from odradek.net.event_loop import heeding_stops, loop_options
from odradek.net.ports import ListenError
from odradek.net.serve import Hosting, Start

if TYPE_CHECKING:
    from odradek.broker import EventSink, Logger
    from odradek.net.prepared import Prepared

__all__ = ["Listening", "listen", "listening", "run_hub"]

BACKLOG = 128
DEFAULT = "default"
LAST_WORDS_S = 2
"""The time that calls under way have when the hub ends."""
KEPT_ALIVE_S = 1800
"""A connection without calls stays so long; Java's client uses one again for 20 minutes, and fails if it was closed."""


class Listening(Struct, frozen=True):
    """The address of the hub; its socket is bound before anything else starts."""

    bound: socket.socket
    host: str
    port: int
    token: str | None

    @property
    def url(self) -> str:
        return url_of(self.host, self.port)

    @property
    def access(self) -> Access:
        if self.host in EVERYWHERE:
            return Access(None, self.token)  # a machine has names that it does not know itself
        names = {self.host, "localhost", "127.0.0.1", "::1"} if _is_loopback(self.host) else {self.host}
        return Access(frozenset(f"{bracketed(name)}:{self.port}".lower() for name in names), self.token)


def listening(address: str, token: str | None, *, default_host: str = "127.0.0.1") -> Listening:
    """Bind `[HOST:]PORT`. Raises UsageError, one sentence, where that cannot be."""
    host, colon, text = address.rpartition(":")
    host = host.strip("[]") if colon else default_host
    if not text.isdecimal() or int(text) > 65535:
        raise UsageError(f"A hub listens on [HOST:]PORT, not on {address}.")
    if not token and not _is_loopback(host):
        raise UsageError(
            f"Whoever can reach {host} could drive the brokers: beyond loopback a hub needs a token. "
            "Set ODRADEK_HUB_TOKEN."
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, int(text)))
        # uvicorn would listen later; listening here makes a second hub on the port fail at once.
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        if int(text) and _is_hub(host, int(text)):
            raise ListenError(
                f"A hub listens on {host}:{text} already: use that one, or give another --port."
            ) from None
        raise ListenError(f"Cannot listen on {host}:{text}: {error.strerror or error}.") from None
    return Listening(bound, host, bound.getsockname()[1], token)


def _is_hub(host: str, port: int) -> bool:
    try:
        with urlopen(f"{url_of(host, port)}/openapi.json", timeout=1) as answer:
            return b'"odradek hub"' in answer.read(1 << 16)
    except URLError as error:
        return "token" in str(getattr(error, "headers", None) or "").lower() or getattr(error, "code", 0) == 401
    except (OSError, ValueError):
        return False


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Server(uvicorn.Server):
    """A server that leaves signals to its caller."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def listen(hub: Hub, where: Listening) -> AsyncIterator[None]:
    """Serve the hub over HTTP while the block runs; its clusters end with it."""
    config = uvicorn.Config(
        make_app(hub, where.access),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=LAST_WORDS_S,
        timeout_keep_alive=KEPT_ALIVE_S,
    )
    # Failures inside a call are logged where they are caught; the rest, such as an offer of HTTP/2, needs no line.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    server = _Server(config)
    serving = asyncio.create_task(server.serve([where.bound]))
    while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn tells nobody
        await asyncio.sleep(0.001)
    try:
        yield
    finally:
        await hub.close()
        server.should_exit = True
        await serving


def controlled(
    where: Listening, *, log: Logger, url_file: Path | None = None, prepared: Prepared | None = None
) -> Hosting:
    """Serve the cluster of `odradek serve` as the only cluster, `default`, of a hub on this address.

    The hub tells clients the credentials of `--security`; the caller removes them at the end.
    """

    @asynccontextmanager
    async def hosting(start: Start, events: EventSink | None) -> AsyncIterator[Callable[[], RunningCluster]]:
        hub = Hub(log=log, host=where.host)
        hosted = Hosted(DEFAULT, start, lease_s=0, loop=asyncio.get_running_loop(), prepared=prepared)
        hosted.also = events
        await hosted.begin()
        hub.adopt(hosted)
        async with listen(hub, where):
            log.info("control_served", url=where.url)
            if url_file is not None:
                write_url(url_file, where.url)
            yield lambda: hosted.running

    return hosting


async def _run(
    where: Listening, log: Logger, ready: Callable[[str], None], record: Path | None, with_secrets: bool
) -> None:
    with heeding_stops() as first_stop:
        hub = Hub(log=log, host=where.host, record=record, with_secrets=with_secrets)
        async with listen(hub, where):
            ready(where.url)
            log.info("stopping", signal=(await first_stop()).name)


def run_hub(
    where: Listening,
    *,
    log: Logger,
    url_file: Path | None,
    ready: Callable[[str], None],
    record: Path | None = None,
    with_secrets: bool = False,
) -> None:
    """Serve until SIGINT or SIGTERM; the URL is in the file when clients can ask.

    With `record` everything that comes to its clusters is kept in that folder.
    """

    def tell(url: str) -> None:
        if url_file is not None:
            write_url(url_file, url)
        ready(url)

    anyio.run(_run, where, log, tell, record, with_secrets, backend="asyncio", backend_options=loop_options())


def write_url(path: Path, url: str) -> None:
    """Write the URL in one step, so that a reader sees all of it or nothing. Raises UsageError."""
    try:
        part = path.with_name(f"{path.name}.part")
        part.write_text(f"{url}\n")
        part.replace(path)
    except OSError as error:
        raise UsageError(f"Cannot write the URL to {path}: {error.strerror}.") from error
