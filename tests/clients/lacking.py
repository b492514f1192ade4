"""What is done where a machine lacks a toolchain."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import NoReturn

import pytest
from tests.clients.toolchain import MissingToolchain

__all__ = ["missing", "with_toolchains"]


def missing(reason: object) -> NoReturn:
    """What this machine lacks is no fault of ours, except where everything is meant to be installed."""
    if os.environ.get("CI") == "true":
        pytest.fail(str(reason))
    pytest.skip(str(reason))


@contextlib.contextmanager
def with_toolchains(who: str) -> Iterator[None]:
    """Inside, something is built or run for whom a toolchain may be missing."""
    try:
        yield
    except MissingToolchain as lacking:
        missing(f"{who}: {lacking}")
