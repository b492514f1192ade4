"""`python -m tests`: all tests, in two stages, with pytest's arguments; what `make test` runs.

The quick ones come first.
Those that build programs of others and talk to them come behind them, each file in one process: what is set up for a
file, such as a wheel, is set up once.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

__all__ = ["STAGES", "WITH_OTHERS", "Stage", "main"]

WITH_OTHERS = "client or builds"


class Stage(NamedTuple):
    """Some of the tests, and how they are played."""

    about: str
    markers: str
    options: tuple[str, ...]


STAGES = (
    Stage(
        "The broker by itself: seven minutes on two cores.",
        f"not ({WITH_OTHERS})",
        ("-n", "auto", "--dist", "worksteal"),
    ),
    Stage(
        "Real clients, the demo, the packages: about ten minutes on two cores.\n"
        "The first time, the clients' programs are built as they come, and each says so: five to ten minutes more.",
        WITH_OTHERS,
        ("-n", "auto", "--dist", "loadfile"),
    ),
)
ENDS_IT = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR)


def main(arguments: Sequence[str], run: Callable[[list[str]], int]) -> int:
    """The worst exit code of the stages; that there are no tests in one of them is no failure."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-m", dest="markers", default="")
    parser.add_argument("-x", "--exitfirst", action="store_true", dest="first")
    asked, rest = parser.parse_known_args(arguments)
    codes = []
    for number, stage in enumerate(STAGES, 1):
        print(f"Stage {number} of {len(STAGES)}. {stage.about}", flush=True)
        markers = f"({stage.markers}) and ({asked.markers})" if asked.markers else stage.markers
        codes.append(run([*stage.options, "-m", markers, *(["-x"] if asked.first else []), *rest]))
        if codes[-1] in ENDS_IT or (asked.first and codes[-1] == pytest.ExitCode.TESTS_FAILED):
            return codes[-1]
    failed = [code for code in codes if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)]
    return max(failed, default=min(codes))


def _pytest(arguments: list[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], _pytest))
