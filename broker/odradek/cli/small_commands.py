"""Commands beside `serve` that need no module of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from odradek.cli import offered
from odradek.cli.commands import Argument, Option
from odradek.cli.usage import UsageError

__all__ = ["SMALL"]


def certs(
    folder: Annotated[Path, Argument(help="The folder, which is made if it is not there.")],
    host: Annotated[
        list[str] | None,
        Option(
            help="A name or address that brokers are reached by, beside the local ones; can be given more than once."
        ),
    ] = None,
    client: Annotated[
        list[str] | None, Option(metavar="NAME", help="A client; can be given more than once. Else: client.")
    ] = None,
    days: Annotated[int, Option(min=1, max=36500, help="For how long the certificates are valid.")] = 3650,
) -> None:
    """Make a throw-away certificate authority, a certificate for brokers and some for clients.

    As PEM (ca.pem, server.pem, NAME.pem), and as PKCS12 stores for Java with the password in password.txt.
    """
    from odradek.cli.extras import need

    need("cryptography", extra="certs")
    from odradek.net.certs import make_certificates

    made = make_certificates(folder, hosts=host or (), clients=client or ["client"], days=days)
    print(f"{made.ca}: what both sides trust\n{made.server}: key and certificate of brokers")
    for name in dict.fromkeys(client or ["client"]):
        print(f"{made.client(name)}: key and certificate of the client {name}")


def dialects() -> None:
    """List the dialects: the KIPs, and other texts, that differ from Kafka and that a broker can be."""
    from odradek.releases.dialects.differences import listed

    print("\n".join(listed()))


def show_dialect(
    name: Annotated[str, Argument(names=offered.dialects, help="Name of a dialect, or its folder.")],
) -> None:
    """Show what a dialect changes, compared with its base."""
    from odradek.releases.dialects.differences import shown

    print("\n".join(shown(name)))


def stories(
    name: Annotated[
        str | None, Argument(names=offered.stories, help="Print the plan of this one; else list all.")
    ] = None,
) -> None:
    """List the situations that `odradek serve --story NAME` arranges, or print the plan of one."""
    from odradek.cli.extras import need

    need("yaml", extra="control")
    from odradek.control.stories import names, read_story, text_of

    if name is None:
        width = max(map(len, names()))
        for each in names():
            print(f"{each:{width}}  {read_story(each).about}")
        return
    try:
        print(text_of(name), end="")
    except LookupError as error:
        raise UsageError(str(error)) from None


def codec_check(
    files: Annotated[list[str], Argument(help="Vector files, JSON lines, possibly gzipped; - is standard input.")],
) -> None:
    """Decode and encode every vector of the files, and compare fields and bytes; exit code 1 on any failure."""
    from odradek.tools.codec_check import main as check

    raise SystemExit(check(files))


def health(
    bootstrap: Annotated[str, Option(help="HOST:PORT of the brokers to ask, separated by commas.")] = "localhost:9092",
    wait: Annotated[float, Option(min=0, help="Ask again for so many seconds until all answer.")] = 0,
    timeout: Annotated[float, Option(min=0.1, help="Seconds that a broker has for its answer.")] = 5,
) -> None:
    """Ask every broker of --bootstrap for its ApiVersions; exit code 0 if all answer, 1 if not."""
    from odradek.tools.health import check_health

    complaints = check_health(bootstrap, wait_s=wait, timeout_s=timeout)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    raise SystemExit(1 if complaints else 0)


SMALL: dict[str, Callable[..., None]] = {
    "certs": certs,
    "dialects": dialects,
    "dialects show": show_dialect,
    "health": health,
    "stories": stories,
    "codec-check": codec_check,
}
