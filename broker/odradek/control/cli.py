"""`odradek hub`: the command; the hub itself is imported when it runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from odradek.cli import offered
from odradek.cli.commands import Commands, Option
from odradek.cli.parent import UntilStdinEnds, end_with_stdin
from odradek.cli.usage import HOST_VARIABLE, UsageError
from odradek.config.addresses import bracketed

if TYPE_CHECKING:
    from odradek.broker import Logger
    from odradek.control.serving import Listening
    from odradek.net.prepared import Prepared
    from odradek.net.serve import Hosting

__all__ = ["TOKEN_VARIABLE", "add_commands", "hosting_of", "print_hub"]

TOKEN_VARIABLE = "ODRADEK_HUB_TOKEN"
READY = "odradek hub ready url="
PORT = 9644

UrlFile = Annotated[Path | None, Option(help="Write the URL to this file when clients can ask.")]
Token = Annotated[
    str | None, Option(help="Token that clients have to show; needed beyond loopback. Better in $ODRADEK_HUB_TOKEN.")
]


def hub(
    host: Annotated[
        str | None, Option(help="Address to listen on; without it $ODRADEK_HOST, or else 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None, Option(min=0, max=65535, help="Port to listen on, else 9644; 0 picks a free one.")
    ] = None,
    listen: Annotated[str | None, Option(hidden=True)] = None,
    token: Token = None,
    url_file: UrlFile = None,
    log_level: Annotated[str, Option(names=offered.log_levels, help="debug, info, warning or error.")] = "warning",
    json: Annotated[bool, Option(help="Log as JSON lines.")] = False,
    record: Annotated[
        Path | None,
        Option(metavar="DIR", help="Keep everything that comes to each cluster in a file there, for `odradek replay`."),
    ] = None,
    with_secrets: Annotated[
        bool, Option(help="Also record clusters with SASL, TLS or passwords: the files then hold them.")
    ] = False,
    until_stdin_ends: UntilStdinEnds = False,
) -> None:
    """Make clusters for tests over HTTP, until SIGTERM or SIGINT.

    Prints `odradek hub ready url=URL` when clients can ask; URL/openapi.json says what.
    Open URL in a browser to see its clusters, what happens in them, and what waits for what.
    """
    from odradek.cli.logs import make_logger

    _need()
    if with_secrets and record is None:
        raise UsageError("--with-secrets goes with --record.")
    from odradek.control.serving import run_hub

    if record is not None and record.exists() and not record.is_dir():
        raise UsageError(f"Recordings are files in a folder, and {record} is a file: name a folder with --record.")
    try:
        log = make_logger(level=log_level, as_json=json)
    except ValueError as error:
        raise UsageError(str(error)) from None
    where = _listening(_address(host, port, listen), token)
    ready = partial(_print_ready, until_stdin_ends=until_stdin_ends)
    run_hub(where, log=log, url_file=url_file, ready=ready, record=record, with_secrets=with_secrets)


def _address(host: str | None, port: int | None, listen: str | None) -> str:
    """`[HOST:]PORT`, which scripts may also give in one word (`--listen`, the only way in 0.1.0)."""
    if listen is None:
        number = PORT if port is None else port
        return f"{number}" if host is None else f"{bracketed(host)}:{number}"
    if host is not None or port is not None:
        raise UsageError("--host and --port say where the hub listens, or --listen does: give one of both.")
    return listen


def print_hub(url: str) -> None:
    """Write the URL of the hub for the process that started this one."""
    print(f"{READY}{url}", flush=True)


def _print_ready(url: str, until_stdin_ends: bool) -> None:
    print_hub(url)
    if until_stdin_ends:
        end_with_stdin()


def hosting_of(
    control: str, token: str | None, url_file: Path | None, log: Logger, prepared: Prepared | None = None
) -> tuple[Hosting, Callable[[], None]]:
    """The hub in which `odradek serve --control` runs its cluster, and a function that prints its URL."""
    _need()
    from odradek.control.serving import controlled

    where = _listening(control, token)
    return controlled(where, log=log, url_file=url_file, prepared=prepared), partial(print_hub, where.url)


def _listening(address: str, token: str | None) -> Listening:
    """The address on which a hub listens, with the defaults of the environment."""
    from odradek.control.serving import listening

    host = environ.get(HOST_VARIABLE) or "127.0.0.1"
    return listening(address, token or environ.get(TOKEN_VARIABLE), default_host=host)


def _need() -> None:
    from odradek.cli.extras import need

    need("starlette", "uvicorn", extra="control")


def add_commands(commands: Commands) -> None:
    from odradek.control import ctl

    commands.add("hub", hub)
    ctl.add_commands(commands)
