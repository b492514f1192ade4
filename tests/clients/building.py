"""What is built within a test is told on the terminal, so that nobody waits for minutes without knowing for what."""

from collections.abc import Iterator

import pytest
from tests.clients.toolchain import telling

__all__ = ["builds_are_told"]


@pytest.fixture(scope="session", autouse=True)
def builds_are_told(pytestconfig: pytest.Config) -> Iterator[None]:
    capture = pytestconfig.pluginmanager.get_plugin("capturemanager")
    reporter = pytestconfig.pluginmanager.get_plugin("terminalreporter")

    def tell(text: str) -> None:
        if capture is not None and reporter is not None:  # as in a worker of pytest-xdist
            with capture.global_and_fixture_disabled():
                reporter.ensure_newline()
                reporter.write_line(text)

    with telling(tell):
        yield
