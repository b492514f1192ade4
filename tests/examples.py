"""How many examples Hypothesis tries, and whether they are the same each time.

Everybody who plays the tests gets the same examples, so that a run fails because of a change and not because of a draw.
`ODRADEK_HYPOTHESIS=nightly pytest ...` draws new ones, and many more; a failure prints what plays it again.
"""

from __future__ import annotations

import os

from hypothesis import settings

__all__ = ["NIGHTLY", "examples", "load_profile"]

NIGHTLY = os.environ.get("ODRADEK_HYPOTHESIS", "ci") == "nightly"
_NIGHTLY_TIMES = 10


def load_profile() -> None:
    """Choose the profile that `ODRADEK_HYPOTHESIS` names, for all tests of this process."""
    usual = settings.get_profile("default").max_examples
    settings.register_profile("ci", derandomize=True, database=None, deadline=None)
    settings.register_profile(
        "nightly", derandomize=False, max_examples=usual * _NIGHTLY_TIMES, deadline=None, print_blob=True
    )
    settings.load_profile(os.environ.get("ODRADEK_HYPOTHESIS", "ci"))


def examples(count: int, *, nightly: int | None = None, steps: int = 50) -> settings:
    """So many examples for one test (by night ten times as many), in a stateful test of so many steps each."""
    by_night = nightly if nightly is not None else count * _NIGHTLY_TIMES
    return settings(max_examples=by_night if NIGHTLY else count, stateful_step_count=steps)
