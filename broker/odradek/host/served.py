"""Every API that a family serves, and which family: the start of a broker imports no family for it.

The rows are written by `python -m odradek.tools.apis` from the endpoints; a test compares them.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.wire.registry import APIS, ApiKey

__all__ = ["SERVED", "Served"]


class Served(NamedTuple):
    """One API; its versions are those of the schema, from `lowest` on."""

    api_key: ApiKey
    family: str
    """The name of the family in `Families`, which makes it."""
    module: str
    """The module of the family."""
    lowest: int = 0
    is_told: bool = True
    in_parts: bool = False

    @property
    def highest(self) -> int:
        """The highest version that is served."""
        return APIS[self.api_key].highest

    @property
    def is_unstable(self) -> bool:
        """Whether the highest version needs `unstable.api.versions.enable`."""
        return APIS[self.api_key].unstable

    @property
    def is_for_clients(self) -> bool:
        """Whether clients may ask; else only brokers ask one another."""
        return "broker" in APIS[self.api_key].listeners


# ---- derived from the endpoints: python -m odradek.tools.apis
SERVED: tuple[Served, ...] = (
    Served(ApiKey.PRODUCE, "produce", "odradek.data.produce"),
    Served(ApiKey.FETCH, "fetch", "odradek.data.fetch", in_parts=True),
    Served(ApiKey.INIT_PRODUCER_ID, "transactions", "odradek.txn.api"),
    Served(ApiKey.ADD_PARTITIONS_TO_TXN, "transactions", "odradek.txn.api"),
    Served(ApiKey.ADD_OFFSETS_TO_TXN, "transactions", "odradek.txn.api"),
    Served(ApiKey.END_TXN, "transactions", "odradek.txn.api"),
    Served(ApiKey.DESCRIBE_TRANSACTIONS, "transactions", "odradek.txn.api", in_parts=True),
    Served(ApiKey.LIST_TRANSACTIONS, "transactions", "odradek.txn.api"),
    Served(ApiKey.WRITE_TXN_MARKERS, "markers", "odradek.txn.write_markers"),
    Served(ApiKey.TXN_OFFSET_COMMIT, "txn_offsets", "odradek.group.offsets.txn_api"),
    Served(ApiKey.FIND_COORDINATOR, "find_coordinator", "odradek.metadata.api.find_coordinator", in_parts=True),
)
