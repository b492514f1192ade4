"""How an interpreter was built, and what its build is worth: compilers optimize it in different ways.

    python -m bench.interpreter /usr/bin/python3 ../other/.venv/bin/python   # this one and others, in turns
    python -m bench.interpreter --rounds 5 --produces 2000 /usr/bin/python3

Each has to find what Odradek needs, and pytest; `PYTHONPATH` of the caller stays in force. Measured are the processor
time of `odradek serve` until it has been ready and was told to end (the median of the rounds), and the steps of a
transaction of one record and the bytes of it alone (`bench.node_cost`, the least of all: other work makes times longer,
never shorter).
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["built"]

TREE = Path(__file__).resolve().parents[1]
READY = "odradek ready"

_ASK = """
import platform, sysconfig
given = sysconfig.get_config_var("CONFIG_ARGS") or ""
flags = " ".join(str(value) for value in sysconfig.get_config_vars().values())
named = [name for name, signs in {
    "PGO": ("--enable-optimizations" in given, "-fprofile-use " in sysconfig.get_config_var("PY_CORE_CFLAGS") or ""),
    "LTO": ("--with-lto" in given, "-flto" in flags),
}.items() if True in signs]
print(platform.python_implementation(), platform.python_version(), "with " + " and ".join(named) if named else
      "(sysconfig names neither PGO nor LTO)")
"""

_STEPS = """
import sys
from bench.node_cost import bare_us, least_us
print(*least_us(int(sys.argv[1])), bare_us(int(sys.argv[1]))[0])
"""


def built(python: str) -> str:
    """Version and optimizations of an interpreter, as its own `sysconfig` names them."""
    asked = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, check=True)
    return asked.stdout.strip()


def _environment() -> dict[str, str]:
    """That of a user: modules are compiled once, and our own are those of this working copy."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    given = kept.get("PYTHONPATH", "").split(os.pathsep)
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, [*given, str(TREE / "broker"), str(TREE)]))}


def _start_ms(python: str) -> float:
    """Processor time of a start and its end."""
    command = [python, "-m", "odradek", "serve", "--port", "0", "--log-level", "error"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(command, env=_environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None, "it is a pipe"
        line = process.stdout.readline()
        process.terminate()
    if not line.startswith(READY):
        raise RuntimeError(f"{' '.join(command)} has never been ready.")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def _steps_us(python: str, produces: int) -> list[float]:
    """A transaction, its EndTxn, and the bytes of it alone."""
    command = [python, "-c", _STEPS, str(produces)]
    done = subprocess.run(command, env=_environment(), cwd=TREE, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def main(words: Sequence[str]) -> None:
    """Measure in turns, and print a table."""
    parser = argparse.ArgumentParser(prog="bench.interpreter", description=__doc__)
    parser.add_argument("others", nargs="*", metavar="PYTHON", help="other interpreters; this one is measured too")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--produces", type=int, default=1500, help="transactions in each turn")
    given = parser.parse_args(words)
    pythons = list(dict.fromkeys([sys.executable, *given.others]))
    starts: dict[str, list[float]] = {python: [] for python in pythons}
    steps: dict[str, list[list[float]]] = {python: [] for python in pythons}
    for python in pythons:
        _start_ms(python)  # it compiles the modules
    for _ in range(given.rounds):
        for python in pythons:
            starts[python].append(_start_ms(python))
            steps[python].append(_steps_us(python, given.produces))
    print(f"Load average {os.getloadavg()[0]:.0f}.\n")
    print("| interpreter | start, ms of processor | transaction, µs | its EndTxn | bytes alone | to the first |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    least = {python: [min(column) for column in zip(*steps[python], strict=True)] for python in pythons}
    for python in pythons:
        figures = " | ".join(f"{figure:.1f}" for figure in least[python])
        ratio = least[python][0] / least[pythons[0]][0]
        print(f"| {built(python)} | {statistics.median(starts[python]):.0f} | {figures} | {ratio:.2f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
