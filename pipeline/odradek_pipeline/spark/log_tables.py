"""The tables of the source `kafka_log`: their columns, as Spark and as Arrow say them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from odradek_pipeline.logs.headers import COLUMNS

__all__ = [
    "COLUMN_TYPES",
    "HEADERS",
    "OF_COORDINATORS",
    "PROBLEM",
    "TABLES",
    "WITH_PROBLEMS",
    "arrow_schema",
    "arrow_type",
    "spark_schema",
    "struct_of",
]

COLUMN_TYPES: dict[str, DataType] = {
    "i8": LongType(),
    "u4": LongType(),
    "i4": IntegerType(),
    "i2": ShortType(),
    "?": BooleanType(),
    "s": StringType(),
    "object": StringType(),
    "b": BinaryType(),
    "[s]": ArrayType(StringType()),
    "[h]": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}

_WHERE = {"topic": "s", "partition": "i4", "path": "s", "segment": "i8"}
_BATCHES = {**_WHERE, **COLUMNS}
PROBLEM = {"problem": "s", "problem_severity": "s", "problem_detail": "s"}
_STATES = {
    "path": "s",
    "position": "i8",
    "partition": "i4",
    "offset": "i8",
    "timestamp": "i8",
    "transactional_id": "s",
    "value_version": "i4",
    "state": "s",
    "producer_id": "i8",
    "producer_epoch": "i4",
    "timeout_ms": "i4",
    "last_update": "i8",
    "start": "i8",
    "previous_producer_id": "i8",
    "next_producer_id": "i8",
    "client_transaction_version": "i4",
    "partitions": "[s]",
}
TABLES: dict[str, dict[str, str]] = {
    "batches": _BATCHES,
    "records": {
        **_WHERE,
        "position": "i8",
        "offset": "i8",
        "timestamp": "i8",
        "producer_id": "i8",
        "producer_epoch": "i2",
        "transactional": "?",
        "key": "b",
        "value": "b",
        "headers": "[h]",
    },
    "txnlog": _STATES,
    "audit": {**_BATCHES, "previous_offset": "i8", "jump": "?", "last": "?", "totals": "s", **PROBLEM},
    "states": {**_STATES, **PROBLEM},
}
"""Each table's columns and their types."""
HEADERS = {name: kind for name, kind in TABLES["audit"].items() if name != "totals" and name not in PROBLEM}
"""What an audit keeps of each batch."""

OF_COORDINATORS = frozenset(("txnlog", "states"))
WITH_PROBLEMS = frozenset(("audit", "states"))


def spark_schema(table: str, **more: str) -> StructType:
    """The schema of a table as Spark says it, with more columns behind."""
    return struct_of({**TABLES[table], **more})


def struct_of(columns: Mapping[str, str]) -> StructType:
    """A schema for Spark. As a string it would have to be parsed, by a parser of SQL that the JVM keeps in memory."""
    return StructType([StructField(name, COLUMN_TYPES[kind]) for name, kind in columns.items()])


def arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    """The same for Arrow."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in columns.items()])


@cache
def arrow_type(kind: str) -> pa.DataType:
    """A type as Arrow says it: made when it is asked for, since the driver of an audit does without Arrow."""
    text = pa.string()
    types = {
        "i8": pa.int64(),
        "u4": pa.int64(),
        "i4": pa.int32(),
        "i2": pa.int16(),
        "?": pa.bool_(),
        "s": text,
        "object": text,
        "b": pa.binary(),
        "[s]": pa.list_(text),
        "[h]": pa.list_(pa.struct([("key", text), ("value", pa.binary())])),
    }
    return types[kind]
