"""The image without Docker: each step of the Dockerfile is done here, each stage in an environment of its own.

What a stage copies from the build context is all that it finds, so a file that the Dockerfile forgets is missed here
as well. What changes the system (a user, for instance) is left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.packaging.processes import environment
from tests.packaging.tools import ROOT, declared

__all__ = ["BuiltImage", "build_image", "context_files"]

IGNORE = ROOT / ".dockerignore"
SYSTEM = ("useradd",)
STEPS_WITHOUT_FILES = ("USER", "LABEL", "EXPOSE", "HEALTHCHECK", "ENV", "ENTRYPOINT", "CMD")


class BuiltImage:
    """The last stage: an environment, and the configuration of the image."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        self.folder = folder
        self.config = config

    @property
    def env(self) -> dict[str, str]:
        """The variables of the image, but for the path, which is that of the environment."""
        said = dict(variable.split("=", 1) for variable in self.config["Env"])
        said.pop("PATH", None)
        return environment(self.folder, **said)

    @property
    def entrypoint(self) -> list[str]:
        """What every command begins with, as a program of the environment."""
        return self.within(self.config["Entrypoint"])

    def within(self, command: list[str]) -> list[str]:
        """A command whose program must be one of the environment."""
        program = self.folder / "bin" / command[0]
        assert program.exists(), f"the image has no {command[0]}"
        return [str(program), *command[1:]]


def build_image(dockerfile: Path, root: Path) -> BuiltImage:
    """Do all steps below `root`."""
    read = declared("dockerfile", dockerfile)
    venv = root
    for number, stage in enumerate(read["stages"]):
        venv = root / f"stage-{number}"
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        build = _Stage(root, venv)
        for step in stage["steps"]:
            build.do(step)
    return BuiltImage(venv, read["image"])


class _Stage:
    """One stage; absolute paths of the container lie below `root`."""

    def __init__(self, root: Path, venv: Path) -> None:
        self._root = root
        self._venv = venv
        self._folder = root
        self._kinds: dict[str, Callable[[dict[str, Any]], None]] = {
            "WORKDIR": self._workdir,
            "COPY": self._copy,
            "RUN": self._run,
            **dict.fromkeys(STEPS_WITHOUT_FILES, lambda _: None),
        }

    def do(self, step: dict[str, Any]) -> None:
        self._kinds[step["kind"]](step)

    def _workdir(self, step: dict[str, Any]) -> None:
        self._folder = self._root / step["target"].lstrip("/")
        self._folder.mkdir(parents=True, exist_ok=True)

    def _copy(self, step: dict[str, Any]) -> None:
        for source in step["sources"]:
            found = context_files(source)
            assert found, f"{source} is not in the build context"
            for path in found:
                inside = path.relative_to(source) if (ROOT / source).is_dir() else Path(path.name)
                target = self._folder / step["target"] / inside
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, target)

    def _run(self, step: dict[str, Any]) -> None:
        (line,) = step["run"]
        if line.split()[0] in SYSTEM:
            return
        done = subprocess.run(
            line.replace(" /", f" {self._root}/"),
            shell=True,
            cwd=self._folder,
            env=environment(self._venv, PIP_DISABLE_PIP_VERSION_CHECK="1"),
            capture_output=True,
            text=True,
        )
        assert 0 == done.returncode, f"{line}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"


def context_files(source: str) -> list[Path]:
    """What Docker would find of a path of the build context, relative to its root, without what is ignored."""
    paths = sorted(_walk(source))
    ignored = set(declared("ignored", IGNORE, *paths)) if paths else set()
    return [path for path in paths if str(path) not in ignored]


def _walk(source: str) -> Iterator[Path]:
    top = ROOT / source
    if top.is_file():
        yield Path(source)
    for folder, _, names in os.walk(top):
        yield from ((Path(folder) / name).relative_to(ROOT) for name in names)
