"""`make dist`: what it makes installs into an empty environment, and serves."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.packaging.processes import environment, produce_and_consume, serving
from tests.packaging.test_tour import IN_A_TEST
from tests.packaging.tools import ROOT, said

import odradek

REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))
PINNED = "run.txt"
DIALECT_FILES = {".toml", ".json", ".md", ".py"}
INSTALL = re.findall(r"^    (pip install .*)$", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE)
NOT_PLAIN = {"click", "confluent-kafka", "numpy", "pandas", "pydantic", "pyspark", "pytest", "rich", "typer"}
# What a plain installation does not have.
LACKING = [
    (("demo", "--seconds", "1"), "confluent-kafka and rich", "demo"),
    (("demo", "produce"), "confluent-kafka", "demo"),
    (("demo", "consume"), "confluent-kafka", "demo"),
    (("certs", "."), "cryptography", "certs"),
    (("scan", "."), "numpy and rich", "audit"),
    (("audit", "logs", "."), "numpy and pandas and pyarrow", "audit"),
    (("report", "."), "matplotlib and numpy and pandas and pyarrow", "audit"),
]


class Dist(NamedTuple):
    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Dist:
    folder = tmp_path_factory.mktemp("dist")
    done = said("make", "dist", f"DIST={folder}", f"VENV={sys.prefix}", cwd=ROOT)
    assert 0 == done.returncode, done.stdout + done.stderr
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Dist(wheel, sdist)


@pytest.mark.slow
@pytest.mark.builds
def test_names_carry_the_version(dist: Dist) -> None:
    assert f"odradek-{odradek.__version__}-py3-none-any.whl" == dist.wheel.name
    assert f"odradek-{odradek.__version__}.tar.gz" == dist.sdist.name


@pytest.mark.slow
@pytest.mark.builds
def test_the_wheel_has_the_generated_codecs_and_no_tests(dist: Dist) -> None:
    with zipfile.ZipFile(dist.wheel) as wheel:
        names = wheel.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {"odradek", "odradek_pipeline", f"odradek-{odradek.__version__}.dist-info"} == tops
    assert {
        "odradek/py.typed",
        "odradek/demo/director.py",
        "odradek/wire/messages/produce_request.py",
        f"odradek-{odradek.__version__}.dist-info/licenses/LICENSE",
    } <= set(names)


@pytest.mark.slow
@pytest.mark.builds
def test_the_wheel_has_the_whole_folder_of_each_dialect(dist: Dist) -> None:
    with zipfile.ZipFile(dist.wheel) as wheel:
        names = set(wheel.namelist())
    folder = ROOT / "broker"
    files = {path for path in (folder / "odradek" / "releases" / "dialects").rglob("*") if path.suffix in DIALECT_FILES}
    assert {"dialect.toml", "README.md", "EndTxnRequest.json", "tables.py", "producer.py"} <= {
        path.name for path in files
    }
    assert set() == {str(path.relative_to(folder)) for path in files} - names


@pytest.mark.slow
@pytest.mark.builds
def test_the_wheel_has_the_whole_page_with_its_stories(dist: Dist) -> None:
    with zipfile.ZipFile(dist.wheel) as wheel:
        names = set(wheel.namelist())
    folder = ROOT / "broker"
    files = {path for path in (folder / "odradek" / "page").rglob("*.*") if path.suffix != ".pyc"}
    assert {"index.html", "story.js", "epoch-overflow.toml", "epoch-overflow.jsonl", "outcomes.json"} <= {
        path.name for path in files
    }
    assert set() == {str(path.relative_to(folder)) for path in files} - names


@pytest.mark.slow
@pytest.mark.builds
def test_the_sdist_has_the_sources_only(dist: Dist) -> None:
    with tarfile.open(dist.sdist) as sdist:
        names = [name.split("/", 1)[1] for name in sdist.getnames()]
    tops = {name.split("/")[0] for name in names}
    files = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO"}
    assert {"broker", "pipeline", "protocol_schemas", *files} == tops - {".gitignore"}
    assert not [name for name in names if name.startswith("broker/odradek/wire/messages/")]


class Project(NamedTuple):
    """Somebody else's project, with an environment of its own."""

    folder: Path

    @property
    def env(self) -> dict[str, str]:
        return environment(self.folder / "venv")

    def pip(self, *words: object) -> str:
        """What pip says when it is told to do something in this environment."""
        python = self.folder / "venv" / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
        done = said(*pip, *words, cwd=self.folder, env=self.env)
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout

    def odradek(self, *words: object) -> tuple[int, str, str]:
        """Exit code, output and complaints."""
        done = said(self.program, *words, cwd=self.folder, env=self.env)
        return done.returncode, done.stdout, done.stderr

    @property
    def program(self) -> str:
        return str(self.folder / "venv" / "bin" / "odradek")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    venv.create(tmp_path / "venv", with_pip=False)
    return Project(tmp_path)


def serves(project: Project) -> None:
    """The command is there, several brokers start, and a client is served."""
    assert (0, f"odradek {odradek.__version__}\n", "") == project.odradek("--version")
    command = [project.program, "serve", "--port", "0", "--brokers", "3"]
    with serving(command, project.env, cwd=project.folder) as (_, bootstrap):
        assert (0, "", "") == project.odradek("health", "--bootstrap", bootstrap)
        produce_and_consume(bootstrap)


@pytest.mark.slow
@pytest.mark.client
def test_the_sdist_installs_with_what_is_pinned_and_serves(dist: Dist, project: Project) -> None:
    project.pip("install", "--quiet", "--constraint", ROOT / "requirements" / PINNED, dist.sdist)
    serves(project)


@pytest.mark.slow
@pytest.mark.client
@pytest.mark.parametrize("number", range(len(INSTALL)), ids=["checkout", "wheel", "git"])
def test_it_installs_into_a_project_as_the_page_says(dist: Dist, project: Project, number: int) -> None:
    program, command, what = INSTALL[number].split()
    assert ("pip", "install") == (program, command)
    wheel = f"/path/to/odradek/dist/{dist.wheel.name}"
    here = what.replace(wheel, str(dist.wheel)).replace("/path/to/odradek", str(ROOT))
    assert "/path/" not in here
    project.pip("install", "--quiet", here)
    assert set() == NOT_PLAIN & {line.split("==")[0].lower() for line in project.pip("freeze").split()}
    serves(project)
    for words, needed, extra in LACKING:
        sentence = f"odradek: This command needs {needed}: pip install 'odradek[{extra}]'\n"
        assert (2, "", sentence) == project.odradek(*words)


@pytest.mark.slow
@pytest.mark.client
def test_a_plain_installation_has_the_fixtures_and_an_extra_can_follow(dist: Dist, project: Project) -> None:
    project.pip("install", "--quiet", "--constraint", ROOT / "requirements" / "dev.txt", dist.wheel, "pytest")
    project.pip("install", "--quiet", "odradek[demo]")  # as its own sentence says; no index has odradek
    (project.folder / "test_example.py").write_text(IN_A_TEST[0].code)
    python = project.folder / "venv" / "bin" / "python"
    done = said(python, "-m", "pytest", "-q", "test_example.py", cwd=project.folder, env=project.env)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    code, told, _ = project.odradek("demo", "--seconds", "2", "--crash-every", "0")
    assert (0, True) == (code, "Exactly-once held" in told), told


def test_the_version_stands_in_one_place() -> None:
    tracked = subprocess.run(
        ["grep", "-rlF", "--include=*.py", "--include=*.toml", odradek.__version__, "broker", "pyproject.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    named = [path for path in tracked.stdout.split() if _assigns_version(ROOT / path)]
    assert ["broker/odradek/__init__.py"] == named


def _assigns_version(path: Path) -> bool:
    return re.search(r"^\s*(__)?version(__)?\s*=\s*\"", path.read_text(), re.MULTILINE) is not None


def test_the_changelog_is_about_this_version() -> None:
    top = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert top is not None
    assert odradek.__version__ in top[1] or "unreleased" in top[1].lower()


def test_two_requirement_files_do_not_pin_different_releases() -> None:
    pins: defaultdict[str, set[str]] = defaultdict(set)
    for path in REQUIREMENTS:
        for line in path.read_text().splitlines():
            name, equals, release = line.partition("==")
            if line.startswith(("#", "-r ")) or not line:
                continue
            assert equals, f"{path.name}: {line} is not pinned"
            pins[re.sub(r"[-_.]+", "-", name).lower()].add(release.strip())
    assert {} == {name: releases for name, releases in pins.items() if len(releases) > 1}
