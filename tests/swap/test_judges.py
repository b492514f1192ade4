"""The judges of a directory see all of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.clients.lacking import with_toolchains
from tests.swap.judges import dump

pytestmark = pytest.mark.client

OF_AN_ARGUMENT = 128 * 1024
"""Bytes of the longest argument that Linux hands to a program (`MAX_ARG_STRLEN`)."""


def test_a_directory_of_more_files_than_one_argument_holds(tmp_path: Path) -> None:
    folder = tmp_path / f"{'a' * 200}-0"
    folder.mkdir()
    logs = [folder / f"{number:020}.log" for number in range(OF_AN_ARGUMENT // len(str(folder)))]
    for log in logs:
        log.touch()
    assert len(",".join(map(str, logs))) > OF_AN_ARGUMENT
    with with_toolchains("java"):
        assert [] == dump(tmp_path)
        logs[-1].with_suffix(".index").write_bytes(bytes([1] * 16))
        assert [] != dump(tmp_path)
