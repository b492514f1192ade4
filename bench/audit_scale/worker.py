"""`python -m bench.audit_scale.worker`: the memory of a worker as one producer's batches in one partition grow.

What Spark would hand to a worker of `odradek audit logs`, sorted, is made here and given to the same code in a process
of its own; batches of one producer that is idempotent, or (`--transactions`) that commits every six of them in one
epoch, as before level 2 of transaction.version.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from odradek_pipeline.logs.headers import CONTROL, TRANSACTIONAL
from odradek_pipeline.spark.producer_checks import OF_BATCHES, Checks
from odradek_pipeline.transactions.allowed import Explained
from odradek_pipeline.transactions.sidecar_checks import CLAIM_COLUMNS, Beside

ROWS = 10_000
"""As many as Spark puts into one batch of Arrow."""
IN_TXN = 7
"""Six batches and a marker."""


def rows(first: int, *, in_txns: bool) -> pa.RecordBatch:
    """Batches of ten records each, from this one on."""
    at = np.arange(first, first + ROWS, dtype=np.int64)
    marker = (at % IN_TXN == IN_TXN - 1) & in_txns
    data = at - at // IN_TXN if in_txns else at
    offset = data * 10 + (at // IN_TXN if in_txns else 0)
    attributes = np.where(marker, CONTROL | TRANSACTIONAL, TRANSACTIONAL if in_txns else 0)
    columns: dict[str, object] = {
        "is_batch": np.ones(ROWS, bool),
        "topic": pa.repeat("t", ROWS),
        "position": at * 1000,
        "size": 1000,
        "base_offset": offset,
        "last_offset": offset + np.where(marker, 0, 9),
        "attributes": attributes,
        "base_timestamp": at,
        "max_timestamp": at,
        "producer_id": 7,
        "base_sequence": np.where(marker, -1, data * 10 % (1 << 31)),
        "last_sequence": np.where(marker, -1, (data * 10 + 9) % (1 << 31)),
        "record_count": np.where(marker, 1, 10),
        "marker_type": np.where(marker, 1, -1),
        "coordinator_epoch": np.where(marker, 0, -1),
    }
    kinds = {"object": pa.string(), "i8": pa.int64(), "i4": pa.int32(), "i2": pa.int16()}
    wanted = {"is_batch": pa.bool_()} | {name: kinds[kind] for name, kind in OF_BATCHES.items()}
    wanted |= {f"claim_{name}": kinds[kind] for name, kind in CLAIM_COLUMNS.items() if name not in OF_BATCHES}
    arrays = []
    for name, kind in wanted.items():
        value = columns.get(name, "" if kind == pa.string() else 0)
        if isinstance(value, int | str):
            value = pa.repeat(pa.scalar(value, kind), ROWS)
        arrays.append(pa.array(value, kind) if isinstance(value, np.ndarray) else value)
    return pa.RecordBatch.from_arrays(arrays, names=list(wanted))


def stream(count: int, *, in_txns: bool) -> Iterator[pa.RecordBatch]:
    """The sorted rows of the producer."""
    for first in range(0, count, ROWS):
        yield rows(first, in_txns=in_txns)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.audit_scale.worker", description=__doc__)
    parser.add_argument("--batches", default="100000,1000000,5000000", help="how many, separated by commas")
    parser.add_argument("--transactions", action="store_true", help="six batches and a marker, in one epoch")
    parser.add_argument("--rows-max", type=int, default=100_000, help="batches that are judged at once")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        return _one(arguments.one, in_txns=arguments.transactions, rows_max=arguments.rows_max)
    print("| batches | transactions | CPU, s | largest memory, MiB |\n| ---: | ---: | ---: | ---: |", flush=True)
    for count in arguments.batches.split(","):
        given = ["--transactions"] if arguments.transactions else []
        command = [sys.executable, "-m", "bench.audit_scale.worker", "--one", count, *given]
        subprocess.run([*command, "--rows-max", str(arguments.rows_max)], check=True)
    return 0


def _one(count: int, *, in_txns: bool, rows_max: int) -> int:
    checks = Checks(Beside({}, {}, {}, frozenset(), frozenset()), Explained({}, {}), {("t", 0): "/logs/t-0"}, rows_max)
    began = time.process_time()
    told: dict[str, int] = {}
    for batch in checks(stream(count, in_txns=in_txns)):
        kind = batch.column("kind")[0].as_py()
        told[kind] = told.get(kind, 0) + len(batch)
    if told.keys() - {"txn", "sequence", "odd"} or told.get("odd", 0) > 1:  # the last one may not have its marker yet
        raise SystemExit(f"nothing was planted, and this was found: {told}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"| {count:,} | {told.get('txn', 0):,} | {time.process_time() - began:.1f} | {memory:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
