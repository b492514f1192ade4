"""A broker is killed under load, again and again, and goes on with its directory; a real Kafka takes over now and then.

`ODRADEK_KILLS=1000 make swap ARGS="-k kills"` is a night's run, in rounds of 30 kills; every second kill is followed by
the other system. Without a real Kafka, as in `make test`, Odradek goes on alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.clients.lacking import with_toolchains
from tests.oracle.real_kafka import free_port
from tests.swap.hands import Hands
from tests.swap.judges import audit, dump
from tests.swap.kills import PARTITIONS, SETTINGS, TOPIC, Turns, client_classes, faults_of, make_topic, writing
from tests.swap.systems import Kafka, Odradek, System, directory, is_cut
from tests.swap.turns import LARGE

pytestmark = [pytest.mark.client, pytest.mark.slow]

OF_A_ROUND = 30
SWAP = os.environ.get("ODRADEK_SWAP")
KILLS = int(os.environ.get("ODRADEK_KILLS", str(OF_A_ROUND)))
SEEDS = range(1, 1 + -(-KILLS // OF_A_ROUND))
EVERY = 10 if SWAP == "small" else 2
"""Each so-manieth kill is followed by the other system."""
LOOKS_EVERY = 10
WITHOUT_MARKERS = ("hanging-transaction", "txn-without-marker")
"""Incidents of an audit: the second one where the producer's next transaction has ended the records."""


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_acknowledged_is_lost_and_nothing_aborted_is_seen(tmp_path: Path, seed: int) -> None:
    with with_toolchains("java"):
        client_classes()
    play(tmp_path, [Odradek(tmp_path, free_port(), settings=SETTINGS)], seed)


@pytest.mark.skipif(not SWAP, reason="make swap: it needs a real Kafka")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("level", [pytest.param(0, marks=LARGE), pytest.param(1, marks=LARGE), 2])
def test_nor_where_the_other_system_takes_over(tmp_path: Path, seed: int, level: int) -> None:
    port = free_port()
    systems = [system(tmp_path, port, level=level, settings=SETTINGS) for system in (Odradek, Kafka)]
    hands = play(tmp_path, systems, seed)
    assert [] == dump(directory(tmp_path))
    assert [] == audited(tmp_path, "audit", hands)


def audited(root: Path, name: str, hands: Hands) -> list[str]:
    """Complaints of the audit, but for transactions that Kafka has completed without markers: they hang, or lack them.

    A Kafka that was killed leads its partitions before it has registered anew. If its coordinator finds a prepared
    transaction then, it takes the partitions for deleted, and skips them.
    """
    complaints = audit(directory(root), root / name)
    alerts = root / name / "alerts.json"
    if not complaints or not alerts.exists():
        return complaints
    forgotten = {id for (id, *_), turn in hands.forgotten.items() if turn.system == Kafka.name}
    incidents = json.loads(alerts.read_text())["incidents"]
    of_others = [
        each
        for each in incidents
        if each["incident"] not in WITHOUT_MARKERS or each["transactional_id"] not in forgotten
    ]
    if not incidents or of_others:
        return complaints
    print(f"{root.name}, {name}: Kafka has completed without markers: {hands.forgotten}")
    return []


def play(root: Path, systems: Sequence[System], seed: int) -> Hands:
    """A round of kills; what has become of each value, and in whose hands."""
    turns = Turns(systems, kills=min(KILLS, OF_A_ROUND), seed=seed, every=EVERY)
    hands = Hands(directory(root), TOPIC, PARTITIONS)
    last = systems[0]
    hands.begin(last.name)
    last.start()
    try:
        make_topic(last.bootstrap)
        with writing(last.bootstrap, seed, hands) as load:
            for number, (system, seconds, torn) in enumerate(turns):
                last.kill()
                hands.look()
                if SWAP and not number % LOOKS_EVERY:
                    assert [] == audited(root, f"audit-{number}", hands)
                hands.begin(system.name)
                if torn is not None:
                    system.start_in_vain(torn)
                system.start()
                last = system
                turns.live(seconds)
            last.kill()
            hands.look()
            last = systems[0]
            hands.begin(last.name)
            last.start()
        faults = list(faults_of(last.bootstrap, load))
    finally:
        last.stop()
    hands.look()
    assert {"committed", "aborted"} <= set(load.transactional.outcomes.values())
    assert "committed" in load.plain.outcomes.values()
    told = [f"seed {seed}, lost by {hands.loser(fault)}: {hands.story(fault)}" for fault in faults]
    if told:
        print("\n".join(told))
    of_kafka = [fault for fault in faults if hands.loser(fault) == Kafka.name]
    assert [] == [story for fault, story in zip(faults, told, strict=True) if fault not in of_kafka]
    for system in systems:
        assert [] == [line for line in system.complaints() if not is_cut(line)]
    return hands
