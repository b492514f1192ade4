"""Transactions under faults, from seeds: exactly once all the same, and the same again for the same seed.

`ODRADEK_SIM_SEEDS=N` plays N seeds in place of the default, `ODRADEK_SIM_FIRST_SEED=S` begins with another one.
`odradek sim --seed S --workload FOCUS` repeats one by hand.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from odradek.sim import World
from odradek.sim import run as runs
from odradek.sim.run import Report, run
from odradek.sim.workloads.catalogue import FOCUSES
from odradek.sim.workloads.draw import draw

FIRST_SEED = int(os.environ.get("ODRADEK_SIM_FIRST_SEED", "1"))
SEEDS = int(os.environ.get("ODRADEK_SIM_SEEDS", "48"))
FOCUSED_SEEDS = max(1, SEEDS // 8)
"""Of each focus but the general one: together they play nearly as many runs as that."""
ROOT = Path(__file__).parents[2]


def played(seed: int, focus: str = "general") -> Report:
    """The run of a seed; what fails tells how to repeat it."""
    try:
        return run(draw(seed, focus))
    except Exception as error:
        error.add_note(f"Repeat it with: odradek sim --seed {seed} --workload {focus}")
        raise


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_exactly_once_under_faults(seed: int) -> None:
    report = played(seed)
    assert report.committed + report.aborted + report.unknown == report.transactions > 0


@pytest.mark.slow
@pytest.mark.parametrize("focus", [each for each in FOCUSES if each != "general"])
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + FOCUSED_SEEDS))
def test_exactly_once_where_one_race_is_looked_for(focus: str, seed: int) -> None:
    report = played(seed, focus)
    # In `lookups` brokers may be gone from the start, so that nobody comes to begin a transaction.
    assert report.transactions > 0 or (focus == "lookups" and report.met)


@pytest.mark.slow
@pytest.mark.parametrize("focus", FOCUSES)
def test_much_is_committed_whatever_goes_wrong(focus: str) -> None:
    assert sum(played(seed, focus).committed for seed in range(1, 3)) > 0


def test_the_same_seed_gives_the_same_trace() -> None:
    assert played(FIRST_SEED) == played(FIRST_SEED)


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["general", "lagging", "working"])
def test_the_trace_is_the_same_when_brokers_send_each_other_bytes(
    workload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed = played(FIRST_SEED, workload)
    monkeypatch.setattr(runs, "World", partial(World, encoded=True))
    assert handed == played(FIRST_SEED, workload)


def test_another_seed_gives_another_trace() -> None:
    assert played(FIRST_SEED).digest != played(FIRST_SEED + 1).digest


def pythons() -> list[str]:
    """This interpreter, those of pyenv and of ODRADEK_PYTHONS, as far as they have the packages that it takes."""
    others = [Path(each) for each in os.environ.get("ODRADEK_PYTHONS", "").split(os.pathsep) if each]
    others += sorted(Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python"))
    return [sys.executable, *(str(each) for each in others if has_packages(each))]


def has_packages(python: Path) -> bool:
    command = [str(python), "-c", "import msgspec, structlog, cramjam, crc32c, yaml"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("python", pythons())
def test_the_trace_does_not_depend_on_how_strings_are_hashed(python: str) -> None:
    traces = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'broker'}{os.pathsep}{ROOT}"}
        done = subprocess.run(
            [python, "-m", "odradek", "sim", "--seed", str(FIRST_SEED)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        traces.add(re.findall(r"trace (\w+)", done.stdout)[0])
    assert {played(FIRST_SEED).digest[:16]} == traces
