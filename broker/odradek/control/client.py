"""A client of the hub that needs only the standard library: for `odradek ctl`, and for tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

__all__ = ["HubClient", "HubRefused", "HubUnreachable"]

MARGIN_S = 10.0


class HubUnreachable(Exception):
    """The hub does not answer; the text is one sentence."""


class HubRefused(Exception):
    """The hub has answered with a problem; the text is its sentence."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        field = problem.get("field")
        super().__init__((f"{field}: " if field else "") + str(problem.get("detail", problem)))
        self.status = status
        self.problem = problem


class HubClient:
    """Calls of the hub; callers quote the parts of paths with `path`."""

    def __init__(self, url: str, *, token: str | None = None, timeout_s: float = 30) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s

    def get(self, *parts: str | int, **query: str | int) -> Any:
        return self.call("GET", path(*parts) + (f"?{urlencode(query)}" if query else ""))

    def post(self, *parts: str | int, body: object = None, timeout_s: float | None = None) -> Any:
        return self.call("POST", path(*parts), body, timeout_s=timeout_s)

    def delete(self, *parts: str | int) -> Any:
        return self.call("DELETE", path(*parts))

    def call(self, method: str, target: str, body: object = None, *, timeout_s: float | None = None) -> Any:
        """The answer; None for one without content. Raises HubRefused and HubUnreachable."""
        with self._open(method, target, body, timeout_s or self._timeout_s) as answer:
            raw = answer.read()
        return json.loads(raw) if raw else None

    def events(self, cluster: str, **query: str | int) -> Iterator[tuple[str, Any]]:
        """Server-sent events, as (kind, data), until the cluster ends."""
        target = f"{path('clusters', cluster, 'events')}?{urlencode({**query, 'follow': 'true'})}"
        kind = ""
        with self._open("GET", target, None, None) as answer:
            for raw in answer:
                name, _, value = raw.decode().rstrip("\n").partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield kind, json.loads(value)

    def _open(self, method: str, target: str, body: object, timeout_s: float | None) -> Any:
        headers = {"content-type": "application/json"}
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        try:
            request = Request(self.url + target, data=data, headers=headers, method=method)
            return urlopen(request, timeout=timeout_s)
        except HTTPError as error:
            raise HubRefused(error.code, _problem(error.read())) from None
        except URLError as error:
            raise HubUnreachable(_unreachable(self.url, error.reason)) from None
        except (OSError, HTTPException, ValueError) as error:
            raise HubUnreachable(_unreachable(self.url, error)) from None


def _unreachable(url: str, reason: object) -> str:
    if isinstance(reason, ConnectionRefusedError):
        return f"No hub answers at {url}: the connection is refused. `odradek hub` starts one."
    return f"No hub answers at {url}: {reason}."


def path(*parts: str | int) -> str:
    """A path of these parts, with any characters quoted."""
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


def _problem(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except ValueError:
        return {"detail": raw[:200].decode(errors="replace")}
    return found if isinstance(found, dict) else {"detail": str(found)}
