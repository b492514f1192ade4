"""The whole tests in Go, Java and JavaScript at the top of docs/other-languages.md, each played as it stands."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.clients.lacking import with_toolchains
from tests.clients.toolchain import need, node_modules
from tests.hub.helpers import HubBeside
from tests.packaging.test_tour import FENCED
from tests.packaging.tools import ROOT, said

pytestmark = [pytest.mark.client, pytest.mark.slow]

HELPERS = ROOT / "helpers"
PAGE = (ROOT / "docs" / "other-languages.md").read_text().partition("## What a helper has\n")[0]
FIRST = dict(reversed(FENCED.findall(PAGE)))
"""The first block of each language."""
OLDER_JUNIT = "5.11.4"
"""Its engine lacks a class that the API of 5.12 and newer asks for."""
PARENT = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>orders</groupId>
  <artifactId>both</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <modules><module>java</module><module>orders</module></modules>
</project>
"""
PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>orders</groupId>
  <artifactId>orders</artifactId>
  <version>1</version>
  <properties>
    <maven.compiler.release>17</maven.compiler.release>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    HELPER
    <dependency>
      <groupId>org.junit.jupiter</groupId>
      <artifactId>junit-jupiter</artifactId>
      <version>JUNIT</version>
      <scope>test</scope>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-clients</artifactId>
      <version>4.4.0</version>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin><artifactId>maven-compiler-plugin</artifactId><version>3.14.0</version></plugin>
      <plugin><artifactId>maven-surefire-plugin</artifactId><version>3.5.3</version></plugin>
    </plugins>
  </build>
</project>
"""


def _go(folder: Path) -> list[str]:
    """In the module of the helper's example, whose dependencies are pinned."""
    need("go")
    shutil.copytree(HELPERS / "go", folder, dirs_exist_ok=True)
    (folder / "example" / "hard_cases_test.go").unlink()
    (folder / "example" / "commit_test.go").write_text(FIRST["go"])
    return ["go", "test", "-C", "example", "-count=1", "-v", "./..."]


def _js(folder: Path) -> list[str]:
    need("node")
    shutil.copy(HELPERS / "node" / "odradek.mjs", folder)
    (folder / "node_modules").symlink_to(node_modules(HELPERS / "node" / "example"))
    (folder / "first.test.mjs").write_text(FIRST["js"])
    return ["node", "--test", "--test-reporter=tap"]


def _java(folder: Path) -> list[str]:
    """In a project of its own, with an older JUnit than the helper's."""
    need("java", "mvn")
    shutil.copytree(HELPERS / "java", folder / "java", ignore=shutil.ignore_patterns("target", "test"))
    test = folder / "orders" / "src" / "test" / "java" / "CommitTest.java"
    test.parent.mkdir(parents=True)
    test.write_text(FIRST["java"])
    (folder / "pom.xml").write_text(PARENT)
    project = PROJECT.replace("HELPER", FIRST["xml"]).replace("JUNIT", OLDER_JUNIT)
    (folder / "orders" / "pom.xml").write_text(project)
    return ["mvn", "-B", "test"]


RUNS: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "go": (_go, "--- PASS: TestACommitWhoseAnswerIsLost"),
    "js": (_js, "ok 1 - a record whose answer is lost is stored once"),
    "java": (_java, "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0"),
}


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    with HubBeside() as beside:
        yield beside.url


@pytest.mark.parametrize("language", RUNS)
def test_a_first_test(language: str, hub: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_HUB", hub)
    run, passes = RUNS[language]
    with with_toolchains(language):
        done = said(*run(tmp_path), cwd=tmp_path)
    assert 0 == done.returncode, done.stdout + done.stderr
    assert passes in done.stdout, done.stdout


def test_where_go_finds_the_helper(tmp_path: Path) -> None:
    [command] = re.findall(r"^    (go mod edit .*) && go mod tidy$", PAGE, re.MULTILINE)
    with with_toolchains("go"):
        need("go")
        for line in ("go mod init orders", command):
            subprocess.run(line.split(), cwd=tmp_path, check=True, capture_output=True)
    assert "replace odradek.dev/helpers/go => /path/to/odradek/helpers/go" in (tmp_path / "go.mod").read_text()
