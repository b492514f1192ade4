"""What is built within a test is told on the terminal, so that nobody waits for minutes without knowing for what."""

import sys
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from tests.clients.toolchain import telling

__all__ = ["builds_are_told"]


@pytest.fixture(scope="session", autouse=True)
def builds_are_told(pytestconfig: pytest.Config) -> Iterator[None]:
    capture = pytestconfig.pluginmanager.get_plugin("capturemanager")
    reporter = pytestconfig.pluginmanager.get_plugin("terminalreporter")

    def tell(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture is not None else nullcontext():
            if hasattr(pytestconfig, "workerinput"):  # of pytest-xdist, whose reporter nobody hears
                print(f"\n{text}", file=sys.stderr, flush=True)
            elif reporter is not None:
                reporter.ensure_newline()
                reporter.write_line(text)

    with telling(tell):
        yield
