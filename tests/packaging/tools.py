"""Programs of other projects that read our declarations, built from pinned Go modules."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.clients.lacking import with_toolchains
from tests.clients.toolchain import go_program

__all__ = ["HERE", "ROOT", "declared", "go_tool", "said"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TIMEOUT_S = 300


def go_tool(name: str) -> Path:
    """The program of a folder of this package, built once; the test is skipped where there is no Go."""
    with with_toolchains(name):
        return go_program(HERE / name)


def said(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """A program that has ended, with what it said."""
    return subprocess.run(
        [str(argument) for argument in arguments], capture_output=True, text=True, timeout=TIMEOUT_S, **options
    )


def declared(kind: str, path: Path, *more: object) -> Any:
    """What a compose file, a Dockerfile, an ignore file or another YAML file means; AssertionError if it is wrong."""
    done = said(go_tool("declared"), kind, path, *more)
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout)
