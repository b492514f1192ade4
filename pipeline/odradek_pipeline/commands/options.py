"""Arguments and options that several commands of the pipeline take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from odradek.cli.commands import Argument, Option

__all__ = [
    "AuditMaster",
    "Directories",
    "LogsMaster",
    "Master",
    "Out",
    "ShowProgress",
    "Since",
    "Tables",
    "Until",
]

Directories = Annotated[
    list[str],
    Argument(metavar="DIR", help="Kafka log directories, or directories of partitions; s3://… and the like too."),
]
Tables = Annotated[
    str,
    Option(
        help="parquet; partitioned: what grows with the logs in folders topic=…/partition=…; iceberg: as Parquet, and "
        "each audit a snapshot of Iceberg tables beside it."
    ),
]
Out = Annotated[Path, Option(help="Folder for the tables (Parquet) and summary.json.")]
Since = Annotated[
    str | None, Option(metavar="TIME", help="Without segments that end before: 24h, 7d, or 2026-11-22T06:00.")
]
Until = Annotated[
    str | None, Option(metavar="TIME", help="Without segments that begin after; the coordinators' log is read whole.")
]
MASTERS = "Spark master: local[*], spark://HOST:PORT, yarn, …; submit: as spark-submit says"
Master = Annotated[str, Option(help=f"{MASTERS}.")]
ShowProgress = Annotated[
    bool, Option(help="Say how far it is where standard error is no terminal, too: a line every ten seconds.")
]
AuditMaster = Annotated[str, Option(help=f"{MASTERS}; none: without Spark.")]
LogsMaster = Annotated[
    str | None, Option(help=f"{MASTERS}; none: without Spark. Else local[*], or none where Spark is not installed.")
]
