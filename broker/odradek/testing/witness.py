"""The section about clusters for a failed test: what is stuck, the newest events, and a file with all events.

Under pytest the plugin shows it as a section of the report; elsewhere it is a note of the exception that leaves
`with Cluster(…)` (PEP 678), which every framework prints.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections import deque
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from msgspec import Struct

from odradek.core.wording import counted
from odradek.testing import recordings
from odradek.testing.loops import in_loop

if TYPE_CHECKING:
    from odradek.control.messages.why import WhyView
    from odradek.net.cluster import RunningCluster
    from odradek.net.recent import Recent

__all__ = ["ENDED", "FOLDER", "RUNNING", "leaves", "named_folder", "section"]

__tracebackhide__ = True
FOLDER = "ODRADEK_EVENTS_DIR"
"""The environment variable with the folder for event files; the helpers of other languages use it, too."""
RUNNING: WeakKeyDictionary[RunningCluster, Recent] = WeakKeyDictionary()
"""The clusters of tests that run now, and their newest events."""
if hasattr(os, "register_at_fork"):  # Windows forks nothing
    # The clusters of a parent do not answer in a forked process.
    os.register_at_fork(after_in_child=RUNNING.clear)
LOOK_S = 5.0
"""A cluster that does not answer in this time is left out."""
CLUSTERS_MAX = 5
DAMAGE_MAX = 10
SHOWN = "\nIn a browser, with what is stuck: odradek show {path} --open"
STEM_MAX = 100
NO_FAILURES = frozenset({"SkipTest", "Skipped", "GeneratorExit", "KeyboardInterrupt", "SystemExit"})


class Told(Struct, frozen=True):
    """The report about one cluster."""

    bootstrap: str
    recent: Recent
    why: WhyView | None
    lost: str | None = None
    """A sentence in place of everything else, if the cluster does not answer."""
    damage: Sequence[str] = ()
    """Warnings about the data directory; more may come until the cluster has ended."""
    recording: str | None = None
    """Where everything is recorded, or why it is not."""

    @property
    def rank(self) -> int:
        """Clusters in which a rule keeps a request come first, then those in which something else is stuck."""
        reasons = [] if self.why is None else self.why.reasons
        if reasons and reasons[0].about == "rule" and reasons[0].stuck:
            return 0
        return 1 if any(reason.stuck for reason in reasons) else 2

    @property
    def sentences(self) -> list[str]:
        """Sentences about what is stuck, one line each."""
        return [self.lost or ""] if self.why is None else self.why.sentences


ENDED: deque[Told] = deque(maxlen=CLUSTERS_MAX)
"""Clusters that ended during the present test of pytest."""


def leaves(cluster: RunningCluster, error: BaseException | None) -> str | None:
    """Make the report about a cluster that is about to end, with this error of the test.

    Returns a note for the error of the test; pytest's plugin needs none.
    """
    recent = RUNNING.get(cluster)
    if recent is None:
        return None
    plugin = sys.modules.get("odradek.testing.pytest_plugin")
    if plugin is not None and plugin.playing:
        # It is not known yet whether the test fails.
        ENDED.append(_look(cluster, recent))
        return None
    fails = cluster.has_rules and bool(cluster.rules.complaints()) if error is None else _is_failure(error)
    return _text([_look(cluster, recent)], _folder(), "test") if fails else None


def _is_failure(error: BaseException) -> bool:
    return type(error).__name__ not in NO_FAILURES


def section(folder: Path | None, test: str) -> str:
    """The section for a failed test, empty without clusters. Event files go to the folder, or to a temporary one."""
    told = [*ENDED, *(_look(cluster, recent) for cluster, recent in list(RUNNING.items()))]
    return _text(told, folder or _folder(), test) if told else ""


def _look(cluster: RunningCluster, recent: Recent) -> Told:
    try:
        from odradek.control.why import why  # the hub's words, which a start does not need

        told = in_loop(cluster.loop, lambda: why(cluster, recent), timeout_s=LOOK_S)
    except Exception as error:  # an error here must not hide the failure of the test
        said = str(error) or f"its event loop is busy for {LOOK_S:g} s"
        lost = f"What is stuck cannot be told ({type(error).__name__}): {said}."
        return Told(cluster.bootstrap, recent, None, lost, cluster.warnings, recordings.sentence(cluster))
    return Told(cluster.bootstrap, recent, told, damage=cluster.warnings, recording=recordings.sentence(cluster))


def _text(told: list[Told], folder: Path, test: str) -> str:
    """The section: the clusters that explain most come first, and of very many some are left out."""
    told = sorted(told, key=lambda each: each.rank)
    parts = ["\n".join(_lines(each, folder, test, alone=len(told) == 1)) for each in told[:CLUSTERS_MAX]]
    if len(told) > CLUSTERS_MAX:
        parts.append(f"And {counted(len(told) - CLUSTERS_MAX, 'more cluster')}.")
    return "\n\n".join(parts)


def _lines(told: Told, folder: Path, test: str, *, alone: bool) -> list[str]:
    first, *others = told.sentences
    events = [] if told.why is None else told.why.events
    total, kept = told.recent.last, told.recent.last - told.recent.first + 1
    newest = f"The newest {len(events)} of {counted(total, 'event')} (the brokers' clock, UTC):"
    shown = (
        [newest, *(f"  {line}" for line in events)] if events else ["Nothing has happened since the cluster started."]
    )
    whole = f"All {counted(total, 'event')}" if kept == total else f"The newest {counted(kept, 'event')}"
    return [
        first if alone else f"Cluster {told.bootstrap}: {first}",
        *others,
        *(f"In the data directory: {line}" for line in told.damage[:DAMAGE_MAX]),
        *shown,
        *([f"{whole}: {_written(told, folder, test)}"] if kept else []),
        *([told.recording] if told.recording is not None else []),
    ]


def named_folder() -> Path | None:
    """The folder from the environment variable."""
    named = os.environ.get(FOLDER)
    return Path(named) if named else None


def _folder() -> Path:
    return named_folder() or _temporary()


@cache
def _temporary() -> Path:
    return Path(tempfile.mkdtemp(prefix="odradek-events-"))


def _written(told: Told, folder: Path, test: str) -> str:
    """A sentence with the path of a new event file and its use, or the reason why there is none.

    The last line of the file has the state of stuck partitions and transactions.
    """
    lines = [*told.recent.lines(), *([] if told.why is None else [told.recent.behind("why", {"why": told.why})])]
    stem = re.sub(r"[^A-Za-z0-9._-]+", "_", test).strip("_")[-STEM_MAX:] or "test"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number = 1
        while True:
            path = folder / f"{stem}-{number}.jsonl"
            try:
                file = path.open("xb")
            except FileExistsError:
                number += 1
                continue
            with file:
                file.writelines(line + b"\n" for line in lines)
            return f"{path}{SHOWN.format(path=shlex.quote(str(path)))}"
    except OSError as error:
        return f"they cannot be written to {folder}: {error.strerror or error}."
