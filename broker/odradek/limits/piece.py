"""The limits of clients as a piece of the node, without what they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from odradek.limits.quotas import Quotas

__all__ = ["HasQuotas"]


class HasQuotas(Protocol):
    """What clients use; None where nothing of it was ever limited."""

    @property
    def quotas(self) -> Quotas | None: ...
