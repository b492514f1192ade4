"""KIP-890 in one picture: the same late produce, without verification at level 0 and with it at level 2.

`python -m odradek_pipeline.demo --out FOLDER` serves twice, commits transactions, and in the
middle sends a transactional batch of a transaction that has ended, straight to the partition. The audits of both event
logs and their reports end up in FOLDER.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from odradek.cli.parent import FLAG
from odradek.cli.usage import READY
from odradek.records.record import Record, build_batch
from odradek.wire.errors import ErrorCode
from odradek_pipeline.audit.result import Result, write_result
from odradek_pipeline.demo.raw_produce import produce_raw
from odradek_pipeline.jobs.audit_events import audit_events
from odradek_pipeline.report.pictures import lso_lag, standing_alone
from odradek_pipeline.report.write import write_report

__all__ = ["main", "served", "tell"]

LEVELS = {
    "level-0-unverified": ("--transaction-version", "0", "--set", "transaction.partition.verification.enable=false"),
    "level-2": ("--transaction-version", "2"),
}
TOPIC, VICTIM, OTHER = "orders", "late-shop", "other-shop"


@contextmanager
def served(*options: str, topics: tuple[str, ...] = (TOPIC,)) -> Iterator[str]:
    """A broker of its own process; the bootstrap address."""
    named = [word for topic in topics for word in ("--topic", topic)]
    command = [sys.executable, "-m", "odradek", "serve", "--port", "0", "--log-level", "error", FLAG, *named, *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith(READY):
                raise RuntimeError(f"the broker did not start: {line}")
            yield line.removeprefix(READY).strip()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def tell(events: Path, *options: str, transactions: int = 12) -> ErrorCode:
    """Commit transactions, send the late batch, commit some more; what the broker answered to the late batch."""
    with served("--events", str(events), *options) as bootstrap:
        victim = _producer(bootstrap, VICTIM)
        _commit(victim, 1)
        refused = ErrorCode(_late_batch(bootstrap, events))
        _commit(_producer(bootstrap, OTHER), transactions)
        time.sleep(0.2)
    return refused


def _producer(bootstrap: str, transactional_id: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0, "log_level": 2}
    )
    producer.init_transactions(30)
    return producer


def _commit(producer: Producer, count: int) -> None:
    for number in range(count):
        producer.begin_transaction()
        producer.produce(TOPIC, value=f"order {number}", partition=0)
        producer.flush(30)
        time.sleep(0.02)
        producer.commit_transaction(30)


def _late_batch(bootstrap: str, events: Path) -> int:
    """With the producer's id and epoch of then, and its next sequence: as if a network had held the request back."""
    state: dict[str, int] = {}
    deadline = time.monotonic() + 10
    while not state and time.monotonic() < deadline:
        for line in events.read_text().splitlines():
            event = json.loads(line)
            if event["kind"] == "transaction_opened" and event.get("topic") == TOPIC:
                state = event
        time.sleep(0.1)
    record = Record(value=b"late", timestamp=int(time.time() * 1000))
    batch = build_batch(
        [record],
        producer_id=state["producer_id"],
        producer_epoch=state["producer_epoch"],
        base_sequence=1,
        transactional=True,
    )
    return produce_raw(bootstrap, VICTIM, TOPIC, 0, batch)


def main() -> None:
    """Both levels, their audits and reports."""
    parser = argparse.ArgumentParser(description="The KIP-890 picture.")
    parser.add_argument("--out", type=Path, default=Path("audit-demo"))
    parser.add_argument("--pictures", type=Path, help="a folder for kip-890-level-0.svg and kip-890-level-2.svg")
    asked = parser.parse_args()
    out: Path = asked.out
    results: dict[str, Result] = {}
    for name, options in LEVELS.items():
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        events = folder / "events.jsonl"
        events.unlink(missing_ok=True)
        answer = tell(events, *options)
        result = audit_events([events])
        result.facts["late_produce"] = answer.name
        write_result(result, folder)
        write_report(folder)
        picture = lso_lag(folder) or ""
        (folder / "lso.svg").write_text(picture)
        if asked.pictures is not None and picture:
            level = options[options.index("--transaction-version") + 1]
            (asked.pictures / f"kip-890-level-{level}.svg").write_text(standing_alone(picture))
        results[name] = result
        print(
            f"{name}: the late produce was answered {answer.name}; anomalies: {result.counts() or 'none'}; "
            f"{folder / 'report.html'}"
        )
    hung, clean = results.values()
    told = "txn-hanging" in hung.counts() and not clean.is_bad
    sys.exit(0 if told else "The picture is not what KIP-890 says it should be.")


if __name__ == "__main__":
    main()
