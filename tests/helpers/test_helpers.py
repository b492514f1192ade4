"""The helpers for other languages play their examples against a real hub, and a rule that was hit in vain fails."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.clients.lacking import with_toolchains
from tests.clients.toolchain import need, node_modules

pytestmark = [pytest.mark.client, pytest.mark.slow]

ROOT = Path(__file__).parent.parent.parent
HELPERS = ROOT / "helpers"
LINES_MAX = 300
READY_S = 60


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the command `odradek` of this checkout."""
    script = tmp_path_factory.mktemp("bin") / "odradek"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT / "broker"}" exec "{sys.executable}" -m odradek "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script.parent


@pytest.fixture(scope="module")
def hub(command: Path) -> Iterator[str]:
    """The URL of a hub that runs already."""
    arguments = [
        str(command / "odradek"),
        "hub",
        "--listen",
        "127.0.0.1:0",
        "--until-stdin-ends",
        "--log-level",
        "error",
    ]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        line = process.stdout.readline()
        assert line.startswith("odradek hub ready url="), line
        yield line.strip().removeprefix("odradek hub ready url=")
        process.stdin.close()
        assert 0 == process.wait(READY_S)


class Suite:
    """The example of one language in a folder of its own, with the helper beside it."""

    def __init__(
        self, language: str, folder: Path, run: Callable[[Path, str | None], list[str]], wrong: tuple[str, str]
    ):
        self.folder = folder / language
        self._run = run
        self._wrong = wrong
        shutil.copytree(HELPERS / language, self.folder, ignore=shutil.ignore_patterns("node_modules", "target"))

    def play(self, environment: Mapping[str, str], only: str | None = None) -> subprocess.CompletedProcess[str]:
        where = self.folder if (self.folder / "pom.xml").exists() else self.folder / "example"
        return subprocess.run(
            self._run(where, only),
            cwd=where,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def expect_what_is_not_so(self) -> None:
        """Have the first case expect that its rule is not hit."""
        before, after = self._wrong
        changed = 0
        for file in self.folder.rglob("*ard*ases*"):
            text = file.read_text()
            if before in text:
                file.write_text(text.replace(before, after, 1))
                changed += 1
        assert 1 == changed


def _go(where: Path, only: str | None) -> list[str]:
    need("go")
    return ["go", "test", "-count=1", "-v", *(["-run", only] if only else []), "./..."]


def _node(where: Path, only: str | None) -> list[str]:
    need("node")
    modules = where / "node_modules"
    if not modules.exists():
        modules.symlink_to(node_modules(HELPERS / "node" / "example"))
    return ["node", "--test", "--test-reporter=tap", *([f"--test-name-pattern={only}"] if only else [])]


def _java(where: Path, only: str | None) -> list[str]:
    need("java", "mvn")
    return ["mvn", "-B", "-q", "test", *([f"-Dtest=HardCasesTest#{only}"] if only else [])]


SUITES: dict[str, tuple[Callable[[Path, str | None], list[str]], tuple[str, str], str]] = {
    "go": (_go, ("odradek.Hits(1)", "odradek.Hits(0)"), "TestACommitWhoseAnswerIsLost"),
    "node": (_node, ("expect: { hits: 3 }", "expect: { hits: 0 }"), "a former self"),
    "java": (_java, ('Map.of("hits", 1)', 'Map.of("hits", 0)'), "aCommitWhoseAnswerIsLost"),
}


@pytest.fixture(params=SUITES)
def suite(request: pytest.FixtureRequest, tmp_path: Path) -> Suite:
    run, wrong, _ = SUITES[request.param]
    return Suite(request.param, tmp_path, run, wrong)


def test_the_example_passes(suite: Suite, hub: str) -> None:
    with with_toolchains(suite.folder.name):
        done = suite.play({"ODRADEK_HUB": hub})
    assert 0 == done.returncode, done.stdout + done.stderr


def test_a_hub_is_started_where_none_runs_and_an_unmet_rule_fails_the_test(suite: Suite, command: Path) -> None:
    suite.expect_what_is_not_so()
    environment = {"PATH": f"{command}:{os.environ['PATH']}", "ODRADEK_HUB": ""}
    with with_toolchains(suite.folder.name):
        done = suite.play(environment, SUITES[suite.folder.name][2])
    assert 0 != done.returncode, done.stdout + done.stderr
    hits = 3 if suite.folder.name == "node" else 1
    assert f"expects no hit and had {hits} hit" in done.stdout + done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("language", SUITES)
def test_a_helper_is_short(language: str) -> None:
    sources = [*(HELPERS / language).glob("*.go"), *(HELPERS / language).glob("*.mjs")]
    sources += (HELPERS / language).glob("src/main/**/*.java")
    assert 0 < sum(len(source.read_text().splitlines()) for source in sources) <= LINES_MAX
