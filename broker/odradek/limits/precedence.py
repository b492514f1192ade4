"""The limit that applies to a client: a user's client before the user, and names before defaults (KIP-55).

Usage is counted together for all clients that share a limit: a user's limit is shared by all clients of the user, a
client id's by all connections with that id, and a default applies to each one separately.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from odradek.metadata.image import CLIENT_ID, USER

if TYPE_CHECKING:
    from odradek.metadata.image import QuotaEntity

__all__ = ["Limits", "Sharers"]

Sharers: TypeAlias = tuple[str, str]
"""The user and the client id whose usage is counted together; empty means any."""


class Part(Enum):
    """Stands in an entity in place of a name."""

    DEFAULT = "each that has no own limit"
    ANY = "not looked at"


Entity: TypeAlias = tuple[str | Part, str | Part]
_CLIENTS, _USERS, _BOTH = (False, True), (True, False), (True, True)


class Limits:
    """The limits of one key, such as producer_byte_rate."""

    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float]], key: str) -> None:
        self._limits: dict[Entity, float] = {}
        for entity, values in quotas.items():
            named = dict(entity)
            if key in values and named.keys() <= {USER, CLIENT_ID}:
                self._limits[_part(named, USER), _part(named, CLIENT_ID)] = values[key]
        self._kinds = {(user is not Part.ANY, client is not Part.ANY) for user, client in self._limits}

    def __bool__(self) -> bool:
        return bool(self._limits)

    def sharers(self, user: str, client_id: str) -> Sharers:
        """The clients with which the usage of this user and client is counted."""
        if self._kinds == {_USERS}:
            return user, ""
        if self._kinds == {_BOTH}:
            return user, client_id
        if self._kinds <= {_CLIENTS}:
            return "", client_id
        limits = self._limits
        for who in (user, Part.DEFAULT):
            if (who, client_id) in limits or (who, Part.DEFAULT) in limits:
                return user, client_id
            if (who, Part.ANY) in limits:
                return user, ""
        return "", client_id

    def of(self, sharers: Sharers) -> float | None:
        """The limit of this user and client id; None is unlimited."""
        user, client_id = sharers
        users: tuple[str | Part, ...] = (user, Part.DEFAULT) if user else (Part.ANY,)
        clients: tuple[str | Part, ...] = (client_id, Part.DEFAULT) if client_id else (Part.ANY,)
        for who in users:
            for what in clients:
                limit = self._limits.get((who, what))
                if limit is not None:
                    return limit
        return None


def _part(named: Mapping[str, str | None], kind: str) -> str | Part:
    if kind not in named:
        return Part.ANY
    name = named[kind]
    return Part.DEFAULT if name is None else name
