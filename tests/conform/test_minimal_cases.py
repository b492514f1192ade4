"""The pages of docs/conformance with programs: each program, alone in a folder, prints what stands below it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.clients.environments import python_for
from tests.clients.lacking import with_toolchains
from tests.clients.toolchain import node_itself, node_modules
from tests.conform.conformance import FOLDER
from tests.conform.drivers import families

from odradek.testing import Cluster

PAGES = {"after-a-refused-record": 4, "two-partitions-at-once": 1}
CASE = re.compile(r"```(python|js)\n(.*?)```\n\n```text\n(.*?)```", re.S)
FOUND = {name: CASE.findall((FOLDER / f"{name}.md").read_text(encoding="utf-8")) for name in PAGES}
CASES = [
    pytest.param(*case, id=f"{name}-{case[1].split(chr(10))[0].split()[-1]}") for name in FOUND for case in FOUND[name]
]
INSTALLS = re.compile(r"(?:pip|npm) install (?:@(\w+)/kafka@|([\w-]+)==)([\d.]+)")


def test_there_is_one_for_each_library() -> None:
    for name, count in PAGES.items():
        libraries = {INSTALLS.search(program)[0] for _, program, _ in FOUND[name]}  # type: ignore[index]
        assert count == len(FOUND[name]) == len(libraries)


@pytest.mark.client
@pytest.mark.slow
@pytest.mark.parametrize(("language", "program", "prints"), CASES)
def test_its_text_alone_shows_it(language: str, program: str, prints: str, tmp_path: Path) -> None:
    said = INSTALLS.search(program)
    assert said is not None
    scope, package, version = said.groups()
    with with_toolchains(f"a program with {scope or package} {version}"):
        if language == "js":
            (tmp_path / "node_modules").symlink_to(
                node_modules(Path(families.__file__).parent / "node" / scope / version)
            )
            line = [str(node_itself()), "case.mjs"]
        else:
            line = [python_for(package, version), "case.py"]
    (tmp_path / line[-1]).write_text(program)
    with Cluster() as cluster:
        done = subprocess.run(
            [*line, cluster.bootstrap], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )
    assert prints == done.stdout, done.stderr
