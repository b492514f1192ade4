"""`python -m bench.audit_scale`, in the pipeline's environment: the audit of logs by size and by executors."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

import pyarrow.parquet as pq

from bench.audit_scale.cluster import HOST, ended_with, spark_cluster
from bench.audit_scale.logs import TRANSFERS, Made, Plan, make_logs
from bench.audit_scale.tasks import SETTINGS, read_events, stages_of, table_of
from bench.audit_scale.watch import Watch

MASTERS = ("local[1]", "local[2]", "cluster-1", "cluster-2")
DRIVER_MEMORY = "512m"
EXECUTOR_MEMORY = "1g"
GB = 1_000_000_000
NEEDED = 1.4
"""Space on the disk: the logs, and with small batches the tables of the audit and what Spark shuffles."""

DEFAULTS = f"""\
spark.driver.memory {DRIVER_MEMORY}
spark.executor.memory {EXECUTOR_MEMORY}
spark.executor.cores 1
spark.driver.host {HOST}
spark.driver.bindAddress {HOST}
spark.local.dir {{scratch}}
"""


@dataclass(frozen=True)
class Run:
    """One audit: seconds of the command and of the audit inside it, the highest memory of each kind, MiB, and the
    processor time of driver and executors with all that they start."""

    gigabytes: float
    master: str
    command_s: float
    audit_s: float
    bytes: int
    batches: int
    driver_python: float
    driver_jvm: float
    driver_both: float
    """Of both, what they had at one time: the JVM ends before the verdicts, for which Python needs most."""
    python_worker: float
    executors: float
    cpu_s: float
    cpu_python_s: float
    """Of that, Python's: the driver and all workers. The rest is that of JVMs."""
    pythons: int
    """How many Python processes there were, the driver left out."""
    executors_cpu_s: tuple[float, ...]
    """Of each executor, with its Python workers; nothing of a local master."""
    others: float
    found: str
    tree: str = "now"
    tasks: str = ""


def main() -> int:
    arguments = parse()
    signal.signal(signal.SIGTERM, _stop)
    folder = Path(tempfile.mkdtemp(prefix="odradek-audit-scale-", dir=arguments.dir))
    runs: list[Run] = []
    failed = 0
    try:
        for size in arguments.sizes:
            made, logs = _make(folder, size, arguments)
            for master in arguments.masters:
                for name, tree in rounds(arguments):
                    try:
                        run = _play(folder, logs, made, size, master, tree, tasks=arguments.tasks)
                        runs.append(replace(run, tree=name))
                        print(f"  {runs[-1]}", file=sys.stderr, flush=True)
                    except (RuntimeError, TimeoutError):  # the other runs still say something
                        failed += 1
                        traceback.print_exc()
                    if not arguments.keep:
                        shutil.rmtree(_out(folder, size, master), ignore_errors=True)
            shutil.rmtree(logs)
    finally:
        if arguments.keep:
            print(f"kept: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        if runs:  # also those before a failure
            print_table(runs, arguments)
    wrong = [run for run in runs if run.found != "as planted" and run.tree == "now"]
    for run in wrong:
        print(f"WRONG: {run.gigabytes} GB, {run.master}: {run.found}", file=sys.stderr)
    return 1 if wrong or failed else 0


def rounds(arguments: argparse.Namespace) -> list[tuple[str, str | None]]:
    """The checkouts that are measured, one after the other, each as often as asked for."""
    both = [("before", arguments.against)] if arguments.against else []
    return [*both, ("now", arguments.tree)] * arguments.rounds


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.audit_scale", description=__doc__)
    parser.add_argument("--sizes", type=_numbers, default=[1, 2, 5, 10], help="gigabytes, separated by commas")
    parser.add_argument("--masters", type=_masters, default=list(MASTERS), help=f"of {', '.join(MASTERS)}")
    parser.add_argument("--batch-bytes", type=int, default=16 << 10, help="size of a batch")
    parser.add_argument("--producers", type=int, default=5, help="of each topic; 1 writes all of a partition")
    parser.add_argument(
        "--partitions", type=_partitions, default=(4, 2), help="of transactions, and of idempotent producers: 4,2"
    )
    parser.add_argument("--tree", default=None, help="a checkout whose audit is measured in place of this one")
    parser.add_argument("--against", default=None, help="a checkout whose audit is measured beside it, in turn")
    parser.add_argument("--segment-mb", type=int, default=256, help="size of a segment, MiB")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is measured")
    parser.add_argument("--no-hanging", action="store_true", help="without the one planted transaction that hangs")
    parser.add_argument(
        "--compacted", action="store_true", help="the cleaner has gone over the topic of idempotent producers"
    )
    parser.add_argument(
        "--skew", type=float, default=0, help="the part of all bytes that the topic of idempotent producers has"
    )
    parser.add_argument(
        "--linked", action="store_true", help="the partitions of a topic are hard links to its first, and take no space"
    )
    parser.add_argument("--tasks", action="store_true", help="list stages, and what each executor had of them")
    parser.add_argument("--dir", default=None, help="where the logs are made; 1.4 times the largest size must fit")
    parser.add_argument("--keep", action="store_true", help="leave results and Spark's logs there")
    return parser.parse_args()


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def _partitions(text: str) -> tuple[int, int]:
    transactional, idempotent = (int(part) for part in text.split(","))
    return transactional, idempotent


def _masters(text: str) -> list[str]:
    wanted = text.split(",")
    unknown = set(wanted) - set(MASTERS)
    if unknown:
        raise argparse.ArgumentTypeError(f"no such master: {', '.join(sorted(unknown))}")
    return wanted


def _stop(*_: int | FrameType | None) -> None:
    raise SystemExit(143)


def _make(folder: Path, size: float, arguments: argparse.Namespace) -> tuple[Made, Path]:
    logs = folder / f"logs-{size:g}"
    plan = Plan(
        int(size * GB),
        batch_bytes=arguments.batch_bytes,
        segment_bytes=arguments.segment_mb << 20,
        transactional_partitions=arguments.partitions[0],
        idempotent_partitions=arguments.partitions[1],
        producers=arguments.producers,
        hanging=not arguments.no_hanging and arguments.partitions[0] > 0,
        compacted=arguments.compacted,
        skew=arguments.skew,
        linked=arguments.linked,
    )
    free = shutil.disk_usage(folder).free
    needed = plan.total_bytes * (NEEDED - 1) + plan.disk_bytes
    if free < needed:
        raise SystemExit(f"{folder} has {free / GB:.1f} GB left, {needed / GB:.1f} are needed")
    began = time.perf_counter()
    made = make_logs(logs, plan)
    print(f"{size:g} GB: {made}, {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    return made, logs


def _out(folder: Path, size: float, master: str) -> Path:
    return folder / f"out-{size:g}-{MASTERS.index(master)}"


def _play(folder: Path, logs: Path, made: Made, size: float, master: str, tree: str | None, *, tasks: bool) -> Run:
    scratch = folder / "scratch"
    configuration = folder / "conf"
    events = folder / "events"
    shutil.rmtree(events, ignore_errors=True)
    for path in (scratch, configuration, events):
        path.mkdir(exist_ok=True)
    defaults = DEFAULTS.format(scratch=scratch)
    if tasks:
        defaults += SETTINGS.format(folder=events)
    if tree is not None:  # else the workers of a cluster would run this checkout's audit for the driver of another
        defaults += f"spark.executorEnv.PYTHONPATH {_path_of(tree)}\n"
    (configuration / "spark-defaults.conf").write_text(defaults)
    with _started(master, folder) as (address, workers):
        out = _out(folder, size, master)
        began = time.perf_counter()
        watch, code = _command(
            ["audit", "logs", str(logs), "--master", address, "--out", str(out)], folder, workers, tree
        )
        seconds = time.perf_counter() - began
    if not (out / "summary.json").exists():
        raise RuntimeError(f"the audit ended with exit code {code}:\n{(folder / 'audit.log').read_text()[-4000:]}")
    summary = json.loads((out / "summary.json").read_text())
    driver = watch.roots[0]
    jvms = watch.below([driver], "java")
    pythons = watch.below(watch.roots, "python")
    return Run(
        size,
        master,
        seconds,
        summary["seconds"],
        summary["bytes"],
        summary["batches"],
        watch.memory(driver),
        max((one.memory for one in jvms), default=0.0),
        watch.together,
        max((one.memory for one in pythons), default=0.0),
        sum(one.memory for one in watch.below(workers, "java")),
        watch.cpu,
        watch.spent([driver], only=True) + sum(one.cpu for one in pythons),
        len(pythons),
        tuple(watch.spent([worker]) for worker in workers),
        watch.others,
        _found(out, made, code),
        tasks=table_of(stages_of(read_events(events))) if tasks else "",
    )


@contextlib.contextmanager
def _started(master: str, folder: Path) -> Iterator[tuple[str, list[int]]]:
    if master.startswith("local"):
        yield master, []
        return
    with spark_cluster(int(master.removeprefix("cluster-")), folder / "cluster") as cluster:
        yield cluster.master, cluster.workers


def _command(arguments: list[str], folder: Path, workers: Sequence[int], tree: str | None) -> tuple[Watch, int]:
    environment = os.environ | {
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_IP": HOST,
        "TMPDIR": str(folder / "scratch"),
    }
    if tree is not None:
        environment["PYTHONPATH"] = _path_of(tree)
    with (folder / "audit.log").open("wb") as log:
        command = [sys.executable, "-m", "odradek", *arguments]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    with ended_with(process), Watch(process.pid, *workers) as watch:
        code = process.wait()
    return watch, code


def _path_of(tree: str) -> str:
    """Where Python finds the packages of a checkout."""
    return f"{tree}/broker:{tree}/pipeline"


def _found(out: Path, made: Made, code: int) -> str:
    """Whether the audit has found what was planted, and nothing else."""
    anomalies = pq.read_table(out / "anomalies.parquet").to_pylist()
    rows = [
        (row["anomaly"], row["severity"], row["topic"], row["partition"], row["offset"])
        for row in anomalies
        if row["severity"] != "allowed"
    ]
    # All partitions of a topic are written alike, and the audit says so.
    problems = [one for one in pq.read_table(out / "problems.parquet").to_pylist() if one["problem"] != "same-batches"]
    planted = [] if made.hanging is None else [("txn-hanging", "bad", TRANSFERS, 0, made.hanging)]
    if rows == planted and not problems and code == (1 if planted else 0):
        return "as planted"
    return f"exit code {code}, {rows[:5]} in place of {planted}, problems {problems[:5]}"


# ---------------------------------------------------------------------- the table

COLUMNS = (
    "GB",
    "master",
    "audit of",
    "audit, s",
    "command, s",
    "s per GB",
    "MB/s",
    "CPU, s",
    "of it Python, s",
    "Python processes",
    "of each executor, s",
    "driver Python, MiB",
    "driver JVM, MiB",
    "both at once, MiB",
    "largest Python worker, MiB",
    "executor JVMs, MiB",
    "others, %",
)


def print_table(runs: Sequence[Run], arguments: argparse.Namespace) -> None:
    """Markdown, to be pasted: the runs, then for each master how linear they are."""
    print(
        f"Batches of {arguments.batch_bytes // 1024} KiB, segments of {arguments.segment_mb} MiB, "
        f"driver memory {DRIVER_MEMORY}, executors of one core and {EXECUTOR_MEMORY}; "
        f"{os.cpu_count()} processors."
    )
    print()
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + " ---: |" * len(COLUMNS))
    for run in sorted(runs, key=lambda run: (MASTERS.index(run.master), run.gigabytes, run.tree)):
        cells = (
            f"{run.gigabytes:g}",
            f"`{run.master}`",
            run.tree,
            f"{run.audit_s:.1f}",
            f"{run.command_s:.1f}",
            f"{run.audit_s / (run.bytes / GB):.2f}",
            f"{run.bytes / 1e6 / run.audit_s:,.0f}",
            f"{run.cpu_s:.1f}",
            f"{run.cpu_python_s:.1f}",
            f"{run.pythons}",
            ", ".join(f"{seconds:.1f}" for seconds in run.executors_cpu_s),
            f"{run.driver_python:.0f}",
            f"{run.driver_jvm:.0f}",
            f"{run.driver_both:.0f}",
            f"{run.python_worker:.0f}",
            f"{run.executors:.0f}" if run.executors else "",
            f"{100 * run.others:.0f}",
        )
        print("| " + " | ".join(cells) + " |")
    print()
    for run in runs:
        if run.tasks:
            print(f"{run.gigabytes:g} GB, `{run.master}`, {run.tree}:\n\n{run.tasks}\n")
    for master in arguments.masters:
        for tree in ("before", "now"):
            mine = [run for run in runs if (run.master, run.tree) == (master, tree)]
            if mine:
                print(linearity(f"{master}, {tree}", mine))


def linearity(master: str, runs: Sequence[Run]) -> str:
    """The straight line through the runs, how far they lie beside it, and what the driver's memory does."""
    sizes = [run.bytes / GB for run in runs]
    line = f"- `{master}`: "
    if len({run.gigabytes for run in runs}) > 1:
        slope, start = straight(sizes, [run.audit_s for run in runs])
        off = max(
            abs(run.audit_s - (start + slope * size)) / run.audit_s for run, size in zip(runs, sizes, strict=True)
        )
        line += f"{start:.1f} s + {slope:.2f} s per GB, no run further than {100 * off:.0f} % beside that line; "
    peaks = [run.driver_both for run in sorted(runs, key=lambda run: run.gigabytes)]
    return line + "driver's peak, Python and JVM at once, MiB: " + ", ".join(f"{peak:.0f}" for peak in peaks) + "."


def straight(across: Sequence[float], up: Sequence[float]) -> tuple[float, float]:
    """Slope and start of the line with the least squares."""
    middle, height = sum(across) / len(across), sum(up) / len(up)
    spread = sum((value - middle) ** 2 for value in across)
    slope = sum((x - middle) * (y - height) for x, y in zip(across, up, strict=True)) / spread
    return slope, height - slope * middle


if __name__ == "__main__":
    raise SystemExit(main())
