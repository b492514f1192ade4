"""What clients have to show to log in over a listener."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from odradek.access.mechanisms import Accounts

__all__ = ["LoginsRefused", "SaslListener"]


class LoginsRefused(ValueError):
    """Logins that cannot be configured so; the text is one clear sentence, and holds no secret."""


class SaslListener(Struct, frozen=True):
    """How clients log in over one listener."""

    mechanisms: tuple[str, ...]
    accounts: Accounts
    reauth_ms: Mapping[str, int]
    """For how long a login holds, by mechanism; 0 is for ever."""
    receive_bytes_max: int
    failed_delay_ms: int
