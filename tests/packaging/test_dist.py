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
from tests.packaging.tools import ROOT, said

import odradek

REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))
PINNED = "run.txt"


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
def test_names_carry_the_version(dist: Dist) -> None:
    assert f"odradek-{odradek.__version__}-py3-none-any.whl" == dist.wheel.name
    assert f"odradek-{odradek.__version__}.tar.gz" == dist.sdist.name


@pytest.mark.slow
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
def test_the_sdist_has_the_sources_only(dist: Dist) -> None:
    with tarfile.open(dist.sdist) as sdist:
        names = [name.split("/", 1)[1] for name in sdist.getnames()]
    tops = {name.split("/")[0] for name in names}
    files = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO"}
    assert {"broker", "pipeline", "protocol_schemas", *files} == tops - {".gitignore"}
    assert not [name for name in names if name.startswith("broker/odradek/wire/messages/")]


@pytest.mark.slow
@pytest.mark.client
@pytest.mark.parametrize("kind", Dist._fields)
def test_it_installs_and_serves(dist: Dist, kind: str, tmp_path: Path) -> None:
    empty = tmp_path / "environment"
    venv.create(empty, with_pip=False)
    constraint = str(ROOT / "requirements" / PINNED)
    pip = [sys.executable, "-m", "pip", "--python", empty / "bin" / "python", "--disable-pip-version-check"]
    installed = said(
        *pip,
        "install",
        "--quiet",
        "--constraint",
        constraint,
        getattr(dist, kind),
        cwd=tmp_path,
        env=environment(empty),
    )
    assert 0 == installed.returncode, installed.stdout + installed.stderr
    program = str(empty / "bin" / "odradek")
    env = environment(empty)
    assert f"odradek {odradek.__version__}\n" == said(program, "--version", cwd=tmp_path, env=env).stdout
    with serving([program, "serve", "--port", "0", "--brokers", "3"], env, cwd=tmp_path) as (_, bootstrap):
        health = said(program, "health", "--bootstrap", bootstrap, cwd=tmp_path, env=env)
        assert 0 == health.returncode, health.stderr
        produce_and_consume(bootstrap)
    lacking = said(program, "demo", "--seconds", "1", cwd=tmp_path, env=env)
    assert (2, "odradek: This command needs confluent-kafka: pip install odradek[demo]\n") == (
        lacking.returncode,
        lacking.stderr,
    )


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
