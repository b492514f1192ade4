"""A page of docs/recipes, run in a folder of its own as its reader would run it: from the top, block by block."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.clients.toolchain import digest, once, sh
from tests.packaging.processes import Places, environment, serving
from tests.packaging.test_tour import FENCED, PROMISE
from tests.packaging.tools import ROOT

__all__ = ["FOLDER", "Command", "Recipe"]

FOLDER = ROOT / "docs" / "recipes"
NAME = re.compile(r"(?:<!--|//|#) ([\w.]+\.\w+)")
DOWNLOAD = re.compile(r"^mvn ", re.MULTILINE)
INSTALL = re.compile(r"^pip install ", re.MULTILINE)
SERVE = re.compile(r"^(odradek serve .*) &\n", re.MULTILINE)
LOOK = re.compile(r"^cat ")
BACKGROUND = re.compile(r" &(?=\s)")
REGISTRY, CONNECT = 8080, 8083  # their ports, on the pages
PATIENCE_S = 60
TIMEOUT_S = 120
JVM = "-Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"


class Command(NamedTuple):
    """A block for the shell, and the lines that it promises to print."""

    code: str
    prints: list[str]

    def kept(self, printed: str) -> bool:
        """Whether that was printed, and nothing else."""
        return not self.prints or printed.splitlines() == self.prints


class Recipe:
    """The files and the commands of a page, and the folder in which they are run.

    `python` is the interpreter that has what the page installs; `instead` maps words of the page to those for here.
    """

    def __init__(self, name: str, folder: Path, *, python: str = sys.executable, instead: Mapping[str, str]) -> None:
        self.name = name
        self.folder = folder
        self.files: dict[str, str] = {}
        self.downloads: list[str] = []
        self.installs: list[str] = []
        self.commands: list[Command] = []
        self._instead = {"odradek serve": "odradek serve --port 9092", **instead}
        self._places = Places(REGISTRY, CONNECT)
        self._env = environment(Path(sys.prefix), JDK_JAVA_OPTIONS=JVM, SPARK_LOCAL_IP="127.0.0.1")
        self._env["PATH"] = f"{Path(python).parent}{os.pathsep}{self._env['PATH']}"
        self._brokers: list[subprocess.Popen[str]] = []
        self._background = ExitStack()
        for language, code in FENCED.findall((FOLDER / f"{name}.md").read_text()):
            self._sort(language, code)

    def _sort(self, language: str, code: str) -> None:
        if named := NAME.match(code):
            self.files[named[1]] = code
        elif DOWNLOAD.search(code):
            self.downloads.append(code)
        elif INSTALL.match(code):
            self.installs.append(code)
        else:
            assert "sh" == language, code
            self.commands.append(Command(code, PROMISE.findall(code)))

    def here(self, code: str) -> str:
        """The code as this machine has to run it, on ports that are free here."""
        for there, here in self._instead.items():
            code = code.replace(there, here)
        return self._places(code)

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Inside, the page's files and downloads are there; by its end the brokers' rules must have been hit."""
        if self.downloads:
            cached = once(f"recipe-{self.name}-{digest(self._pom, *self.downloads)}", self._download, about_s=20)
            for entry in cached.iterdir():
                (self.folder / entry.name).symlink_to(entry)
        for name, code in self.files.items():
            (self.folder / name).write_text(self.here(code))
        with self._background:
            yield
        codes = [broker.returncode for broker in self._brokers]
        assert [0] == codes, f"exit codes of the brokers: {codes}; 3 says that a rule has not seen what it expects"

    @property
    def _pom(self) -> str:
        return self.files.get("pom.xml", "")

    def _download(self, folder: Path) -> None:
        if self._pom:
            (folder / "pom.xml").write_text(self._pom)
        for code in self.downloads:
            sh("sh", "-ec", code, cwd=folder)
        (folder / "pom.xml").unlink(missing_ok=True)

    def run(self, command: Command) -> None:
        """Run a block, and see that it keeps its promise; what it starts with `&` runs until the recipe ends."""
        for line in SERVE.findall(command.code):
            serve = shlex.split(self.here(line))
            broker, _ = self._background.enter_context(serving(serve, self._env, cwd=self.folder))
            self._brokers.append(broker)
        rest = self.here(SERVE.sub("", command.code))
        end = time.monotonic() + PATIENCE_S
        looks = LOOK.match(rest) is not None
        printed = self._printed(rest, may_fail=looks)
        while looks and not command.kept(printed) and time.monotonic() < end:
            time.sleep(0.1)  # others write what is looked at
            printed = self._printed(rest, may_fail=looks)
        assert command.kept(printed), f"{rest}\nprinted\n{printed}"

    def _printed(self, code: str, *, may_fail: bool) -> str:
        # Into files, because what stays in the background would keep pipes open.
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            shell = subprocess.Popen(
                ["sh", "-ec", code],
                cwd=self.folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
            if BACKGROUND.search(code):
                self._background.callback(_end, shell.pid)
            try:
                status = shell.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                _end(shell.pid)
                raise
            output.seek(0)
            errors.seek(0)
            printed = output.read()
            assert may_fail or 0 == status, f"{code}\nended with {status} and printed\n{printed}{errors.read()}"
        return printed


def _end(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
