"""The port of a listener, which its broker keeps while it is stopped."""

from __future__ import annotations

import errno
import socket
import sys

from odradek.cli.usage import UsageError

__all__ = ["BACKLOG", "ListenError", "Port"]

BACKLOG = 128
IS_LINUX = sys.platform == "linux"


class ListenError(UsageError):
    """A listener could not be bound; the text is one clear sentence."""


class Port:
    """The address of one listener.

    The system may give a randomly chosen port to another process as soon as nothing is bound to it. So the socket of a
    stopped broker stays bound and does not listen (clients get "connection refused"), and no other process can bind the
    address. The same socket listens again later.

    Only Linux lets a socket do that. On other systems the port is free while the broker is stopped.
    """

    def __init__(self, host: str, port: int) -> None:
        """Bind an address and listen; port 0 is any free one. Raises `ListenError`."""
        self.socket = _listen(host, port)
        """The listening socket belongs to the server, which closes it; a held one belongs to the port."""
        self.address: tuple[str, int] = self.socket.getsockname()[:2]
        self._held = False

    def hold(self) -> None:
        """Listen no longer, and keep the port. Call it while `socket` is open; its owner closes it afterwards."""
        if self._held or not IS_LINUX or self.socket.fileno() < 0:
            return
        try:
            kept = self.socket.dup()
        except OSError:
            return  # there is no file descriptor left: the port is free until the broker starts
        kept.shutdown(socket.SHUT_RDWR)
        # Others that bind with SO_REUSEADDR are refused only if this socket does not have it.
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        self.socket, self._held = kept, True

    def listen(self) -> None:
        """Listen again. Raises `ListenError` if another process has the address; then the port stays as it was."""
        if not self._held:
            self.socket = _listen(*self.address)
            return
        # Connections of the stopped broker may be in TIME_WAIT; without this option they would block the address.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.socket.listen(BACKLOG)
        except OSError as error:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
            raise _refused(*self.address, error) from error
        self._held = False

    def give_up(self) -> None:
        """Release the port, if it is held."""
        if self._held:
            self.close()

    def close(self) -> None:
        """Neither listen nor hold the port any longer."""
        self.socket.close()
        self._held = False


def _listen(host: str, port: int) -> socket.socket:
    bound = _bind(host, port)
    if not port and IS_LINUX:
        # A socket that stops listening keeps a port that was given, and loses one that Linux chose.
        with bound:
            bound = _bind(host, bound.getsockname()[1])
    try:
        # New connections wait in it until the loop accepts them.
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise _refused(host, port, error) from error
    return bound


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        raise _refused(host, port, error) from error
    return bound


def _refused(host: str, port: int, error: OSError | OverflowError) -> ListenError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    instead = "; port 0 is any free one" if is_taken else ""
    return ListenError(f"Cannot listen on {host}:{port}: {reason.rstrip('.')}{instead}.")
