"""A real Kafka and Odradek take turns on one directory, with the same clients; nothing that counts changes.

`make swap` plays all of it, some minutes long; it needs Java, and Maven once for Kafka's jars.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.cimpl import NewTopic
from tests.oracle.real_kafka import class_path, free_port, java, pom_property
from tests.swap.look import NotReady, look
from tests.swap.states import TIMEOUT_S, Clients
from tests.swap.systems import SHARED, Kafka, Odradek, System, directory

from odradek.cli.logs import make_logger
from odradek.core.machine import LogRecord
from odradek.log.file_store import FileStore
from odradek.log.metadata_log import METADATA_FOLDER, METADATA_TOPIC
from odradek.net.cluster import RunningCluster
from odradek.net.disk import LocalDisk
from odradek.records.batch import CONTROL
from odradek.records.plain import plain_batch
from odradek.records.state import encode_metadata
from odradek.testing import Cluster
from odradek.wire.messages.begin_transaction_record import BeginTransactionRecord
from odradek.wire.messages.topic_record import TopicRecord

pytestmark = pytest.mark.skipif(not os.environ.get("ODRADEK_SWAP"), reason="make swap: it needs a real Kafka")

SETTLES_S = 20
CUT = ("Found invalid messages in log segment", "Corruption found in segment")
"""Kafka's lines for the room that a killed process had reserved in a file and not written to, which is cut off then."""
LARGE = pytest.mark.skipif(os.environ.get("ODRADEK_SWAP") == "small", reason="the smaller part")


def take_turns(systems: Sequence[System], ends: Sequence[str]) -> None:
    """Each system in turn works, is looked at, and ends so; the next one has to show the same, and go on."""
    clients = Clients(systems[0].bootstrap)
    before: Mapping[str, Any] | None = None
    killed = False
    for system, end in zip(islice(cycle(systems), len(ends) + 1), [*ends, "stop"], strict=True):
        system.start()
        try:
            if before is None:
                clients.prepare()
            else:
                assert before == settled(system, before), f"{system.name} shows something else"
            clients.work()
            before = settled(system)
        finally:
            getattr(system, end)()
        assert [] == [line for line in system.complaints() if not (killed and is_cut(line))]
        killed = end == "kill"


def is_cut(line: str) -> bool:
    return any(words in line for words in CUT)


def settled(system: System, expected: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """What is seen when leaders and coordinators have come up: as expected, or else what stays for a while."""
    ends = time.monotonic() + SETTLES_S
    while True:
        try:
            seen = look(system.bootstrap)
            if expected in (None, seen) or time.monotonic() > ends:
                return seen
        except NotReady:
            if time.monotonic() > ends:
                raise
        time.sleep(0.1)


def both(root: Path, level: int = 2) -> tuple[Kafka, Odradek]:
    port = free_port()
    return Kafka(root, port, level=level), Odradek(root, port, level=level)


@pytest.mark.parametrize("ends", [("stop", "stop"), ("kill", "kill")], ids=["clean", "killed"])
def test_odradek_then_kafka_then_odradek(tmp_path: Path, ends: Sequence[str]) -> None:
    kafka, odradek = both(tmp_path)
    take_turns([odradek, kafka], ends)


@LARGE
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("ends", [("stop", "stop"), ("kill", "kill")], ids=["clean", "killed"])
def test_kafka_then_odradek_then_kafka(tmp_path: Path, ends: Sequence[str], level: int) -> None:
    kafka, odradek = both(tmp_path, level)
    take_turns([kafka, odradek], ends)


@LARGE
def test_there_and_back_five_times(tmp_path: Path) -> None:
    kafka, odradek = both(tmp_path)
    take_turns([kafka, odradek], ["stop", "kill", "kill", "stop"] * 2 + ["kill", "stop"])


HELD = """\
rules:
  - match: {api: WRITE_TXN_MARKERS}
    act: {hold: true}
"""


def ready(system: System, topic: str = "orders") -> Clients:
    """The system runs, with a topic."""
    system.start()
    clients = Clients(system.bootstrap)
    for made in clients.admin.create_topics([NewTopic(topic, 1, 1)]).values():
        made.result(TIMEOUT_S)
    return clients


@pytest.mark.parametrize("end", [pytest.param("stop", marks=LARGE), "kill"])
@pytest.mark.parametrize("commits", [True, pytest.param(False, marks=LARGE)], ids=["commit", "abort"])
def test_kafka_writes_the_markers_that_odradek_owed(tmp_path: Path, end: str, commits: bool) -> None:
    kafka, odradek = both(tmp_path / "swap")
    odradek.faults = tmp_path / "held.yaml"
    odradek.faults.write_text(HELD)
    try:
        clients = ready(odradek)
        producer = clients.transactional("owed")
        producer.begin_transaction()
        producer.produce("orders", "decided")
        producer.flush(TIMEOUT_S)
        (producer.commit_transaction if commits else producer.abort_transaction)(TIMEOUT_S)
        seen = look(odradek.bootstrap)
    finally:
        getattr(odradek, end)()
    state = "PrepareCommit" if commits else "PrepareAbort"
    assert state == seen["transactions"]["owed"][0]
    assert (0, 1) == (seen["logs"]["orders-0"]["stable"], seen["logs"]["orders-0"]["end"])
    kafka.start()
    try:
        done = until(kafka, lambda now: now["logs"]["orders-0"]["stable"] == 2)
    finally:
        kafka.stop()
    log = done["logs"]["orders-0"]
    assert ([] if commits else [(seen["transactions"]["owed"][1], 0)]) == log["aborted"]
    assert [b"decided"] == [record[3] for record in log["records"] if not record[-1] & CONTROL]


@pytest.mark.parametrize("end", [pytest.param("stop", marks=LARGE), "kill"])
def test_neither_shows_a_topic_of_a_metadata_transaction_that_was_left_open(tmp_path: Path, end: str) -> None:
    """KIP-868: whoever becomes the controller next ends it with an Abort."""
    _, odradek = both(tmp_path)
    try:
        ready(odradek)
    finally:
        getattr(odradek, end)()
    leave_open(directory(tmp_path), end)
    kafka_first = tmp_path.with_name(f"{tmp_path.name}-kafka")
    shutil.copytree(tmp_path, kafka_first)
    for system in (odradek, Kafka(kafka_first, free_port())):
        system.start()
        try:
            seen = settled(system)
        finally:
            system.stop()
        assert ["orders"] == [topic for topic in seen["topics"] if not topic.startswith("__")]
        assert [] == [line for line in system.complaints() if not is_cut(line)]


def test_kafka_goes_on_from_a_snapshot_that_odradek_took(tmp_path: Path) -> None:
    """The metadata log begins at the snapshot then, as Kafka's does."""
    kafka, odradek = both(tmp_path)
    odradek.start()
    try:
        clients = Clients(odradek.bootstrap)
        clients.prepare()
        clients.work()
    finally:
        odradek.stop()
    with Cluster(data_dir=directory(tmp_path), config=SHARED) as cluster:
        running = cluster._running
        data_dir = running.data_dir
        assert data_dir is not None
        before = look(cluster.bootstrap)
        cluster._call(lambda: data_dir.write_snapshot(running.controller.node.image))
        log = data_dir.store.find(METADATA_TOPIC, 0)
        assert log is not None
        log.seal()
        cluster._call(lambda: log.advance_start(image_end(running)))
    folder = directory(tmp_path) / METADATA_FOLDER
    assert f"{0:020d}.log" not in os.listdir(folder)
    judge(tmp_path)
    for system in (kafka, odradek):
        system.start()
        try:
            assert before == settled(system, before)
        finally:
            system.stop()
        assert [] == system.complaints()


def image_end(running: RunningCluster) -> int:
    return running.controller.node.image.offset + 1


def judge(root: Path) -> None:
    """Kafka's own reader has nothing to say against any file."""
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
    files = [path for path in directory(root).glob("*/*") if path.suffix in suffixes]
    metadata = [
        path for path in files if path.parent.name == METADATA_FOLDER and path.suffix in (".log", ".checkpoint")
    ]
    for options, of in (
        (["--deep-iteration"], files),
        (["--index-sanity-check"], [path for path in files if path.suffix in (".index", ".timeindex")]),
        (["--cluster-metadata-decoder"], metadata),
        (
            ["--transaction-log-decoder"],
            [p for p in files if p.parent.name.startswith("__tran") and p.suffix == ".log"],
        ),
        (["--offsets-decoder"], [p for p in files if p.parent.name.startswith("__cons") and p.suffix == ".log"]),
    ):
        assert of
        told = subprocess.run(
            [
                *(java(), "-cp", class_path(properties={"kafka.version": pom_property("kafka.tools.version")})),
                *("org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, of))),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        wrong = [
            line
            for line in told.stdout.splitlines()
            if any(word in line for word in ("Mismatch", "mismatch", "isvalid: false", "Could not", "Found", "out of"))
        ]
        assert (0, [], False) == (told.returncode, wrong, "Exception" in told.stderr), (options, told.stderr[-2000:])


def leave_open(path: Path, end: str) -> None:
    """Append the beginning of a metadata transaction, as a controller that ends within it leaves it."""
    disk = LocalDisk(path, make_logger(level="error"))
    store = FileStore(disk, node_id=1, now=lambda: int(time.time() * 1000), unique=lambda: "0" * 32)
    was_clean, epoch = store.was_clean, store.broker_epoch
    assert was_clean is (end == "stop")
    store.begin()
    log = store.find(METADATA_TOPIC, 0)
    assert log is not None
    records = [BeginTransactionRecord(name="half"), TopicRecord(name="never", topic_id=b"n" * 16)]
    batch = plain_batch([LogRecord(None, encode_metadata(each, 0)) for each in records], timestamp=store.now())
    log.append(batch, leader_epoch=log.leader_epoch, now=store.now())
    if was_clean:
        store.close(broker_epoch=epoch)
    disk.close()


def until(system: System, holds: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
    ends = time.monotonic() + SETTLES_S
    while True:
        seen = settled(system)
        if holds(seen) or time.monotonic() > ends:
            return seen
        time.sleep(0.2)
