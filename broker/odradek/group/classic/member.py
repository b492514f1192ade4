"""A member of a classic group, and its parked requests."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from odradek.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol

__all__ = ["GONE", "Member", "Protocols", "Token", "protocols_of", "rebalance_timeout_of"]

Protocols = tuple[tuple[str, bytes], ...]
"""Names of assignors in the order of preference, each with the member's metadata (its subscription)."""


class Token(NamedTuple):
    """Identifies a parked request; the number tells a repeated request from the one before."""

    group_id: str
    member_id: str
    number: int


GONE: Final = Token("", "", -1)
"""In place of a token whose client is gone: the member still counts as waiting. Kafka cannot see that either, because
it
does not read a socket with a parked request.
"""


class Member(Struct):
    """A member as the coordinator sees it; only the content of `group.records` outlives a failover."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    join: Token | None = None
    sync: Token | None = None
    is_new: bool = False
    deadline: int | None = None
    """End of its session (ms); None: it does not end until the session begins again."""

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def satisfied(self) -> bool:
        """Whether the session cannot end now: a member that waits for a rebalance cannot send heartbeats.

        A new member does not count: clients that time out and join again under new ids would pile up.
        """
        return not self.is_new and (self.join is not None or self.sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"member {self.member_id} does not support the selected protocol {protocol!r}")

    def supports(self, protocol: str) -> bool:
        return any(name == protocol for name, _ in self.protocols)

    def vote(self, candidates: Collection[str]) -> str:
        """Its most preferred protocol among those that every member supports."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"member {self.member_id} supports none of {sorted(candidates)}")


def protocols_of(protocols: Iterable[JoinGroupRequestProtocol]) -> Protocols:
    """The protocols of a request; of two with the same name the first counts, as in Kafka's keyed collections."""
    first: dict[str, bytes] = {}
    for protocol in protocols:
        first.setdefault(protocol.name, protocol.metadata)
    return tuple(first.items())


def rebalance_timeout_of(request: JoinGroupRequest, version: int) -> int:
    """The rebalance timeout; before version 1 (KIP-62) it was the session timeout."""
    return request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms
