"""Programs of other projects that read our declarations, built from pinned Go modules."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.clients.toolchain import MissingToolchain, digest, need, once, sh

__all__ = ["HERE", "ROOT", "declared", "go_tool", "missing", "said"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TIMEOUT_S = 300


def missing(reason: object) -> NoReturn:
    """What this machine lacks is no fault of ours, except where everything is meant to be installed."""
    if os.environ.get("CI") == "true":
        pytest.fail(str(reason))
    pytest.skip(str(reason))


def go_tool(name: str) -> Path:
    """The program of a folder of this package, built once; the test is skipped where there is no Go."""
    folder = HERE / name
    pinned = sorted([*folder.glob("*.go"), folder / "go.mod", folder / "go.sum"])

    def build(target: Path) -> None:
        sh("go", "build", "-buildvcs=false", "-o", target / "program", ".", cwd=folder)

    try:
        need("go")
        return once(f"packaging-{name}-{digest(*pinned)}", build) / "program"
    except MissingToolchain as lacking:
        missing(lacking)


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
