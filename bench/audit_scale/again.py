"""`python -m bench.audit_scale.again`: what an audit with `--state` reads, and what it reads again when 1 % is new."""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from bench.audit_scale.logs import BEGAN_MS, EVENTS, Plan, make_logs
from odradek.records.batch import batches
from odradek.records.record import Record, build_batch
from odradek_pipeline.jobs.audit_logs import audit_logs

GB = 1_000_000_000
PRODUCER = 4711


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.audit_scale.again", description=__doc__)
    parser.add_argument("--size", type=float, default=1, help="gigabytes")
    parser.add_argument("--new", type=float, default=0.01, help="the part of it that is appended between both")
    parser.add_argument("--segment-mb", type=int, default=256, help="size of a segment, MiB")
    parser.add_argument("--dir", default=None, help="where the logs are made")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-again-", dir=arguments.dir) as folder:
        logs = Path(folder) / "logs"
        plan = Plan(int(arguments.size * GB), segment_bytes=arguments.segment_mb << 20)
        made = make_logs(logs, plan)
        print("| audit | bytes read | bytes remembered | part read | seconds | CPU, s | state, bytes |")
        print("|---|---:|---:|---:|---:|---:|---:|")
        play("the first", logs, Path(folder) / "state")
        play("again, with nothing new", logs, Path(folder) / "state")
        append(logs / f"{EVENTS}-0", int(made.bytes * arguments.new), plan)
        play(f"again, with {arguments.new:.0%} new", logs, Path(folder) / "state")


def play(name: str, logs: Path, state: Path) -> None:
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    result = audit_logs([logs], state=state)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert not result.is_bad
    remembered = result.facts["bytes_remembered"]
    held = sum(path.stat().st_size for path in state.rglob("*") if path.is_file())
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    part = result.bytes / (result.bytes + remembered)
    seconds = time.perf_counter() - began
    print(f"| {name} | {result.bytes:,} | {remembered:,} | {part:.2%} | {seconds:.1f} | {cpu:.1f} | {held:,} |")


def append(partition: Path, size: int, plan: Plan) -> None:
    """More batches of an idempotent producer behind the last one."""
    path = max(partition.glob("*.log"))
    offset = max(batch.next_offset for batch in batches(memoryview(path.read_bytes())))
    written = sequence = 0
    with path.open("ab") as file:
        while written < size:
            records = [Record(value=bytes(plan.value_bytes), timestamp=BEGAN_MS) for _ in range(plan.records)]
            batch = build_batch(
                records,
                base_offset=offset,
                producer_id=PRODUCER,
                producer_epoch=0,
                base_sequence=sequence,
                leader_epoch=0,
            )
            written += file.write(batch)
            offset, sequence = offset + len(records), sequence + len(records)


if __name__ == "__main__":
    main()
