"""How the tables of an audit of logs are written."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["TableKind"]


class TableKind(StrEnum):
    """What `--tables` names."""

    PARQUET = "parquet"
    PARTITIONED = "partitioned"
    """Those that grow with the logs are folders, `topic=…/partition=…`."""
    ICEBERG = "iceberg"
    """As Parquet, and as snapshots of Iceberg tables beside them."""
