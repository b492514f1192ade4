"""Fixtures for tests that need a broker; installed with the package.

A test fails at its end if an expectation of a rule is not met; the report of a failed test has a section `odradek`
about the state of its clusters.
Override `kafka_cluster_options` in a conftest.py to choose brokers, topics or configuration.

pytest imports this module in every run: it imports nothing of odradek itself until a test does.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import ExceptionRepr

if TYPE_CHECKING:
    from odradek.testing import Cluster

__all__ = ["kafka_bootstrap", "kafka_cluster", "kafka_cluster_options"]


def _hides(error: pytest.ExceptionInfo[BaseException] | None) -> bool:
    """Whether these frames are left out of a traceback; pytest remarks on a traceback without any frame."""
    return error is None or not error.errisinstance(pytest.fail.Exception)


__tracebackhide__ = _hides
SECTION = "odradek"
playing = False
"""Whether a test runs, whose report may get a section about its clusters."""
record_folder: str | None = None
"""Where the clusters of failed tests are recorded."""
records_secrets = False
"""Whether those with security are recorded, too."""
test = ""
"""The name of the test that runs, or was the last."""


class _AsTheyAre(MetaPathFinder):
    """Finds the modules of odradek before pytest does, which would rewrite the asserts of every plugin's package.

    A broker imports modules in its own thread while a test imports others, and `ast.parse` does not bear that in
    CPython 3.11: "SystemError: AST constructor recursion depth mismatch".
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path) if name.startswith("odradek.") else None


sys.meta_path.insert(0, _AsTheyAre())


@pytest.fixture
def kafka_cluster_options() -> dict[str, Any]:
    """Keyword arguments of `odradek.testing.Cluster`."""
    return {}


@pytest.fixture
def kafka_cluster(kafka_cluster_options: dict[str, Any]) -> Iterator[Cluster]:
    """A fresh cluster for each test, in a thread of its own."""
    from odradek.testing import Cluster

    with Cluster(**kafka_cluster_options) as cluster:
        yield cluster


@pytest.fixture
def kafka_bootstrap(kafka_cluster: Cluster) -> str:
    """The bootstrap servers: `HOST:PORT`, several separated by commas."""
    return kafka_cluster.bootstrap


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--odradek-events DIR`, `--odradek-record DIR`, `--odradek-record-secrets`."""
    group = parser.getgroup("odradek")
    group.addoption(
        "--odradek-events",
        metavar="DIR",
        help="where the events of the clusters of a failed test are written; else $ODRADEK_EVENTS_DIR, or pytest's"
        " folder for temporary files",
    )
    group.addoption(
        "--odradek-record",
        metavar="DIR",
        help="record every cluster there, and keep the files of failed tests, for odradek replay",
    )
    group.addoption(
        "--odradek-record-secrets",
        action="store_true",
        help="also record clusters with SASL, TLS or passwords: the files then hold them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Clusters of this run are recorded, or not."""
    global record_folder, records_secrets
    record_folder = config.getoption("--odradek-record")
    records_secrets = config.getoption("--odradek-record-secrets")


def pytest_sessionfinish() -> None:
    """Delete recordings that no failed test needs."""
    recordings = sys.modules.get("odradek.testing.recordings")
    if recordings is not None:
        recordings.end()


def pytest_runtest_logstart(nodeid: str) -> None:
    """Forget clusters of earlier tests when a test begins."""
    global test
    test = nodeid
    _play(True)


def pytest_runtest_logfinish() -> None:
    """A test is over."""
    _play(False)
    recordings = sys.modules.get("odradek.testing.recordings")
    if recordings is not None:
        recordings.test_is_over()


def _play(plays: bool) -> None:
    global playing
    playing = plays
    witness = sys.modules.get("odradek.testing.witness")
    if witness is not None:
        witness.ENDED.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Check the rules of the running clusters at the end of a test."""
    try:
        yield
    except BaseException as error:
        _verify(error)
        raise
    _verify(None)


def _verify(error: BaseException | None) -> None:
    module = sys.modules.get("odradek.testing.proof")  # a test that has not imported it has no cluster
    unmet = None if module is None else module.verify_running(error)
    if unmet is not None:
        pytest.fail(unmet, pytrace=False)  # only the sentence: there is no line of the test to show


# Outermost, so that tests that are expected to fail are known as such.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the section about clusters to the report of a test that failed, in any phase."""
    report = yield
    witness = sys.modules.get("odradek.testing.witness")
    if witness is not None and report.failed:
        sys.modules["odradek.testing.recordings"].failed()
        text = witness.section(_events_folder(item.config), item.nodeid)
        if text:
            if isinstance(report.longrepr, ExceptionRepr):
                report.longrepr.addsection(SECTION, text)
            else:
                report.sections.append((SECTION, text))
    return report


def _events_folder(config: pytest.Config) -> Path | None:
    """The folder for event files, if one was given or pytest has one for output of a run."""
    named = config.getoption("--odradek-events")
    if named:
        return Path(named)
    witness = sys.modules["odradek.testing.witness"]
    factory = getattr(config, "_tmp_path_factory", None)
    if factory is None or witness.named_folder() is not None:
        return None
    base: Path = factory.getbasetemp()
    return base / "odradek-events"
