"""A real Kafka and Odradek take turns on one directory, with the same clients; nothing that counts changes.

`make swap` plays all of it, some minutes long; it needs Java, and Maven once for Kafka's jars.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.net.test_formatted import voters
from tests.oracle.real_kafka import free_port
from tests.swap.judges import DECODERS, audit, dump, metadata_shell, rooms
from tests.swap.look import look
from tests.swap.members import wait_for
from tests.swap.states import TIMEOUT_S, WORN, Clients
from tests.swap.stopped import leave_open, plant_older, wear_out
from tests.swap.systems import OFTEN, SHARED, Kafka, Odradek, System, directory, folders, is_cut
from tests.swap.turns import LARGE, at_rest, both, differences, played, ready, settled, until

from odradek.log.files.checkpoints import read_offsets
from odradek.log.files.names import CLEAN_STOP, LOG_STARTS
from odradek.log.metadata_log import METADATA_FOLDER, METADATA_TOPIC
from odradek.metadata.features import KRAFT_VERSION
from odradek.net.cluster import RunningCluster
from odradek.testing import Cluster
from odradek.txn.entry import EPOCH_LAST_USABLE

pytestmark = pytest.mark.skipif(not os.environ.get("ODRADEK_SWAP"), reason="make swap: it needs a real Kafka")


class Play(NamedTuple):
    """Two systems take turns on the directory of one cluster."""

    first: type[System]
    ends: Sequence[str]
    """How each turn ends but the last one, which is stopped."""
    level: int = 2
    """Of transaction.version."""
    brokers: int = 1
    features: Mapping[str, int] = {}
    """Levels of other features, where they are not those of a new cluster."""
    is_small: bool = False
    """Whether it is played for each change."""

    @property
    def id(self) -> str:
        others = [f"{name.removesuffix('.version')}-{level}" for name, level in self.features.items()]
        cluster = [] if self.brokers == 1 else [f"{self.brokers}-brokers"]
        return "-".join([self.first.name, f"tv{self.level}", *cluster, *others, *self.ends])


ENDS = (("stop", "stop"), ("kill", "kill"))
THERE_AND_BACK_FIVE_TIMES = (*("stop", "kill", "kill", "stop") * 2, "kill", "stop")
LEVELS = (0, 1, 2)
WITHOUT_FEATURES: Mapping[str, int] = {
    "group.version": 0,
    "share.version": 0,
    "streams.version": 0,
    "eligible.leader.replicas.version": 0,
}
VOTERS_IN_LOG = {KRAFT_VERSION: 1}
LEAVES_ROOM: Mapping[str, set[str]] = {Kafka.name: {METADATA_FOLDER}, Odradek.name: set()}
"""The folders whose indexes a clean stop does not cut to their size."""
PLAYS = (
    *(
        Play(first, ends, level, is_small=(first, level) == (Odradek, 2))
        for first in (Odradek, Kafka)
        for level in LEVELS
        for ends in ENDS
    ),
    *(Play(Kafka, THERE_AND_BACK_FIVE_TIMES, level) for level in LEVELS),
    *(Play(first, ends, brokers=3) for first in (Odradek, Kafka) for ends in ENDS),
    *(Play(first, ends, brokers=3, features=VOTERS_IN_LOG) for first in (Odradek, Kafka) for ends in ENDS),
    *(Play(first, ends, features=WITHOUT_FEATURES) for first in (Odradek, Kafka) for ends in ENDS),
)


def prepare(system: System, clients: Clients, root: Path) -> None:
    """What is there before the first turn; a transactional id that has come to its last epoch among it."""
    try:
        system.start()
        clients.prepare()
        producer = clients.transactional(WORN)
        producer.begin_transaction()
        clients.add(producer, "of the worn one")
        producer.commit_transaction(TIMEOUT_S)
        until(system, lambda seen: seen["transactions"][WORN][0] == "CompleteCommit")
    finally:
        system.stop()
    now = int(time.time() * 1000)
    wear_out(folders(root), now)
    plant_older(folders(root), now)


def have_starts(paths: Sequence[Path], seen: Mapping[str, Any]) -> bool:
    """Whether the files say where the logs begin: a checkpoint does where records were deleted within a segment."""
    for path in paths:
        found = read_offsets((path / LOG_STARTS).read_bytes())
        written = {f"{topic}-{index}": start for (topic, index), start in found.items()}
        for name, log in seen["logs"].items():
            first = min(int(each.stem) for each in (path / name).glob("*.log"))
            if log["start"] != max(first, written.get(name, 0)):
                return False
    return True


@pytest.mark.parametrize(
    "play", [pytest.param(each, id=each.id, marks=[] if each.is_small else LARGE) for each in PLAYS]
)
def test_nothing_changes_when_the_other_system_goes_on(tmp_path: Path, play: Play) -> None:
    """Each system in turn works, is looked at, and ends so; the next one has to show the same, and go on."""
    voters_in_log = KRAFT_VERSION in play.features
    played(tmp_path, partial(take_turns, play), play.level, brokers=play.brokers, voters_in_log=voters_in_log)


def take_turns(play: Play, root: Path, kafka: Kafka, odradek: Odradek) -> None:
    """Play all turns."""
    systems: Sequence[System] = (odradek, kafka) if play.first is Odradek else (kafka, odradek)
    clients = Clients(systems[0].bootstrap, replicas=play.brokers, features=play.features)
    before: Mapping[str, Any] | None = None
    killed = False

    def missing(seen: Mapping[str, Any]) -> list[str]:
        return [state.name for state in clients.states() if not state.is_there(seen)]

    prepare(systems[0], clients, root)
    for system, end in zip(islice(cycle(systems), len(play.ends) + 1), [*play.ends, "stop"], strict=True):
        try:
            system.start()
            if before is not None:
                seen = settled(system, before)
                assert [] == [*differences(before, seen)], system.name
            clients.work()
            before = at_rest(system, lambda seen: not missing(seen))
            assert [] == missing(before)
            assert clients.round > 1 or before["transactions"][WORN][2] == EPOCH_LAST_USABLE
            if end == "kill":
                # Both write this checkpoint from time to time, and at a clean stop.
                wait_for(partial(have_starts, folders(root), before), "checkpoints are written")
            assert play.features.items() <= {**dict.fromkeys(play.features, 0), **before["features"]}.items()
            if KRAFT_VERSION in play.features:
                assert list(range(1, play.brokers + 1)) == sorted(node_id for node_id, _ in voters(system.bootstrap))
        finally:
            getattr(system, end)()
        for each in folders(root):
            assert [] == audit(each, root / "audit" / each.name)
            assert (each / CLEAN_STOP).exists() is (end == "stop")
            assert end == "kill" or rooms(each) <= LEAVES_ROOM[system.name]
        assert [] == [line for line in system.complaints() if not (killed and is_cut(line))]
        killed = end == "kill"
    for each in folders(root):
        assert [] == dump(each)


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
        assert [] == [line for line in system.complaints() if not (end == "kill" and is_cut(line))]


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
    with Cluster(data_dir=directory(tmp_path), config={**SHARED, **OFTEN}) as cluster:
        running = cluster._running
        data_dir = running.data_dir
        assert data_dir is not None
        before = look(cluster.bootstrap)
        for one in data_dir.dirs.values():
            cluster._call(partial(one.snapshots.write, running.controller.node.image))
        log = data_dir.store.find(METADATA_TOPIC, 0)
        assert log is not None
        log.seal()
        cluster._call(lambda: log.advance_start(image_end(running)))
    folder = directory(tmp_path) / METADATA_FOLDER
    assert f"{0:020d}.log" not in os.listdir(folder)
    judged: set[str] = set()
    assert [] == dump(directory(tmp_path), judged=judged)
    assert set(DECODERS) == judged
    [snapshot] = [path for path in folder.glob("*.checkpoint") if not path.name.startswith(f"{0:020d}")]
    # The shell begins to print while it still loads.
    assert any("/image/topics/byName/ledger/0" in metadata_shell(snapshot, "find", "/image") for _ in range(5))
    for system in (kafka, odradek):
        system.start()
        try:
            assert before == settled(system, before)
        finally:
            system.stop()
        assert [] == system.complaints()


def image_end(running: RunningCluster) -> int:
    return running.controller.node.image.offset + 1
