"""The hub and cluster of a command, and its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import environ
from typing import Annotated, Any
from urllib.parse import urlsplit

from odradek.cli.commands import Argument, Option
from odradek.cli.usage import UsageError
from odradek.control.client import HubClient, HubRefused, HubUnreachable

__all__ = ["AsJson", "At", "Broker", "Cluster", "Url", "hub_at", "told"]

DEFAULT_URL = "http://127.0.0.1:9644"
Url = Annotated[str | None, Option(early=True, metavar="URL", help=f"The hub; else $ODRADEK_HUB, or {DEFAULT_URL}.")]
Cluster = Annotated[
    str | None, Option(early=True, metavar="ID", help="The cluster; else $ODRADEK_CLUSTER, or the only one.")
]
AsJson = Annotated[bool, Option(early=True, name="--json", help="Print what the hub answers.")]
Broker = Annotated[int, Argument(help="The id of the broker.")]


class At:
    """A cluster of the hub that a command is about."""

    def __init__(self, hub: Url = None, cluster: Cluster = None) -> None:
        self.hub = hub_at(hub)
        self._named = cluster or environ.get("ODRADEK_CLUSTER")
        self._found: str | None = None

    @property
    def id(self) -> str:
        if self._found is None:
            self._found = self._named or self._only()
        return self._found

    def _only(self) -> str:
        names = [str(each["id"]) for each in self.hub.get("clusters")]
        if len(names) != 1:
            there = f"there are {', '.join(names)}: give --cluster" if names else "there is none: odradek ctl make"
            raise UsageError(f"Which cluster? {there}.")
        return names[0]

    def get(self, *parts: str | int, **query: str | int) -> Any:
        """GET something below the cluster."""
        return self.hub.get("clusters", self.id, *parts, **query)

    def post(self, *parts: str | int, body: object = None, timeout_s: float | None = None) -> Any:
        return self.hub.post("clusters", self.id, *parts, body=body, timeout_s=timeout_s)

    def delete(self, *parts: str | int) -> Any:
        """DELETE something below the cluster, or the cluster."""
        return self.hub.delete("clusters", self.id, *parts)


def hub_at(url: str | None) -> HubClient:
    """The address of the hub. Raises UsageError for a text that is not a URL."""
    meant = url or environ.get("ODRADEK_HUB") or DEFAULT_URL
    if not _is_url(meant):
        raise UsageError(f"A hub has a URL such as {DEFAULT_URL}, and {meant} is none.")
    return HubClient(meant, token=environ.get("ODRADEK_HUB_TOKEN"))


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port, or half a bracket
        return False


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    """Turn a refusal of the hub, or a missing hub, into the error of the command."""
    try:
        yield
    except (HubRefused, HubUnreachable) as error:
        raise UsageError(str(error)) from None


def told(run: Callable[..., None]) -> Callable[..., None]:
    """A command whose errors are sentences."""
    from functools import wraps

    @wraps(run)
    def in_a_sentence(**arguments: Any) -> None:
        with _in_a_sentence():
            run(**arguments)

    return in_a_sentence
