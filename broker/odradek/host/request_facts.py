"""The facts `request` and `response` (docs/events.md): frequent, so their fields are made when read."""

from __future__ import annotations

from odradek.core.machine import Fact
from odradek.host.bodies import Api, Kept, rendered
from odradek.wire.error_maps import error_of
from odradek.wire.registry import NAMES

__all__ = ["RequestFact", "ResponseFact"]

NS_PER_MS = 1_000_000


class RequestFact(Fact, frozen=True, gc=False):
    api: Api
    correlation_id: int
    client_id: str | None
    from_broker: bool
    connection: int
    at_ms: int
    """By the broker's clock."""
    kept: Kept
    start: int
    """Where the request begins in the stored bytes, or `PACKED`."""

    @property
    def fields(self) -> dict[str, object]:
        return {
            "api": NAMES[self.api.api_key],
            "version": self.api.version,
            "correlation": self.correlation_id,
            "client_id": self.client_id,
            "from_broker": self.from_broker,
            "connection": self.connection,
        }

    @property
    def body(self) -> dict[str, object]:
        return rendered(self.kept, self.start, self.api.request_type, self.api.version)

    def __repr__(self) -> str:
        return f"RequestFact({self.fields})"  # secrets may be in what is kept, and `body` alone leaves them out


class ResponseFact(Fact, frozen=True, gc=False):
    """It was answered."""

    request: RequestFact
    error: int
    """The first code in the response other than NONE."""
    duration_ms: int
    kept: Kept
    start: int

    @property
    def fields(self) -> dict[str, object]:
        return self.request.fields | {"error": error_of(self.error).name, "duration_ns": self.duration_ms * NS_PER_MS}

    @property
    def body(self) -> dict[str, object]:
        api = self.request.api
        return rendered(self.kept, self.start, api.response_type, api.version)

    def __repr__(self) -> str:
        return f"ResponseFact({self.fields})"
