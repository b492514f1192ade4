"""Functions that workers apply to rows, planned in a driver that does without pandas and Arrow.

Spark loads both there only to look at what a function says of its types.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql.pandas.group_ops import PandasCogroupedOps
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction

__all__ = ["in_arrow", "in_pandas", "in_pandas_together"]

_CHECK = "_check_return_type"


@contextlib.contextmanager
def _types_are_known() -> Iterator[None]:
    """Spark would make Arrow's types of a schema, to see whether there are any; those of an audit have some."""
    check = vars(UserDefinedFunction).get(_CHECK)
    if check is None:  # another release looks elsewhere; then it takes some memory more
        yield
        return
    setattr(UserDefinedFunction, _CHECK, staticmethod(lambda *_: None))
    try:
        yield
    finally:
        setattr(UserDefinedFunction, _CHECK, check)


def in_arrow(rows: DataFrame, function: Callable[[Any], Any], schema: StructType) -> DataFrame:
    """What a function makes of an iterator of Arrow's batches."""
    with _types_are_known():
        return rows.mapInArrow(function, schema)


def in_pandas(groups: GroupedData, function: Callable[[Any], Any], schema: StructType) -> DataFrame:
    """What a function makes of the frame of each group; without its annotations, which Spark would look up."""
    with _types_are_known():
        return groups.applyInPandas(lambda frame: function(frame), schema)


def in_pandas_together(
    groups: PandasCogroupedOps, function: Callable[[Any, Any], Any], schema: StructType
) -> DataFrame:
    """The same of the two frames of each group."""
    with _types_are_known():
        return groups.applyInPandas(function, schema)
