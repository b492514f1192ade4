"""`make release`: what it makes is complete, and can be used; what is no release is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.clients.lacking import with_toolchains
from tests.clients.toolchain import need
from tests.packaging import release
from tests.packaging.tools import ROOT, said

import odradek

VERSION = odradek.__version__
VERSIONED = (
    "broker/odradek/__init__.py",
    "helpers/java/pom.xml",
    "helpers/node/package.json",
    "CHANGELOG.md",
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that have a version."""
    for name in VERSIONED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_one_version_everywhere(checkout: Path) -> None:
    assert VERSION == release.version(checkout) == release.version(checkout, f"v{VERSION}")


@pytest.mark.parametrize("name", VERSIONED)
def test_another_version_in_one_place_is_refused(checkout: Path, name: str) -> None:
    text = (checkout / name).read_text()
    (checkout / name).write_text(text.replace(VERSION, "9.9.9", 1))
    with pytest.raises(release.NotReady, match=rf"The versions differ: .*\b9\.9\.9 in {name}"):
        release.version(checkout)
    (checkout / name).write_text("")
    with pytest.raises(release.NotReady, match=rf"There is no version in {name}\."):
        release.version(checkout)


def test_a_tag_of_another_version_is_refused(checkout: Path) -> None:
    with pytest.raises(release.NotReady, match=r"9\.9\.9 in the tag"):
        release.version(checkout, "v9.9.9")


def test_the_notes_are_the_section_of_the_version() -> None:
    page = "# Changelog\n\n## 0.2.0 (2027-01-31)\n\nTwo.\n\n### Added\n- This.\n\n## 0.1.0 (2026-11-25)\n\nOne.\n"
    assert "Two.\n\n### Added\n- This.\n" == release.notes(page, "0.2.0")
    assert "One.\n" == release.notes(page, "0.1.0")
    for undated in ("## 0.1.0\n\nOne.\n", "## 0.1.0 (unreleased)\n\nOne.\n", "", page.replace("0.1.0", "0.1.01")):
        with pytest.raises(release.NotReady, match=r"CHANGELOG\.md has no section of 0\.1\.0 with a date"):
            release.notes(undated, "0.1.0")


def test_this_version_has_notes() -> None:
    assert "### Added" in release.notes((ROOT / "CHANGELOG.md").read_text(), VERSION)


@pytest.mark.slow
@pytest.mark.builds
def test_a_release_in_a_folder(tmp_path: Path) -> None:
    """The dry run: all of it but for what a registry, or a signature of the platform, adds."""
    with with_toolchains("the release"):
        need("java", "mvn", "npm", "go")
    folder = tmp_path / "dist"
    done = said("make", "release", f"DIST={folder}", f"TAG=v{VERSION}", f"VENV={sys.prefix}", cwd=ROOT)
    assert 0 == done.returncode, done.stdout + done.stderr
    assert {
        f"odradek-{VERSION}-py3-none-any.whl",
        f"odradek-{VERSION}.tar.gz",
        f"odradek-junit-{VERSION}.jar",
        f"odradek-junit-{VERSION}.pom",
        f"odradek-go-{VERSION}.zip",
        f"odradek-helper-{VERSION}.tgz",
        "notes.md",
    } == {each.name for each in folder.iterdir()}

    classes = zipfile.ZipFile(folder / f"odradek-junit-{VERSION}.jar").namelist()
    assert {"dev/odradek/OdradekExtension.class", "dev/odradek/OdradekContainer.class"} <= set(classes)
    assert not any("example" in name for name in classes)
    with tarfile.open(folder / f"odradek-helper-{VERSION}.tgz") as package:
        assert {f"package/{name}" for name in ("package.json", "odradek.mjs", "LICENSE")} == set(package.getnames())
        package.extractall(tmp_path, filter="data")
    assert VERSION == json.loads((tmp_path / "package" / "package.json").read_text())["version"]
    script = "import('./package/odradek.mjs').then((helper) => console.log(typeof helper.newCluster))"
    assert "function\n" == said("node", "-e", script, cwd=tmp_path).stdout
    _go_takes(folder / f"odradek-go-{VERSION}.zip", tmp_path / "go")

    wrong = said("make", "release", f"DIST={folder}", "TAG=v9.9.9", f"VENV={sys.prefix}", cwd=ROOT)
    assert 0 != wrong.returncode
    assert "make release: The versions differ: " in wrong.stderr


def _go_takes(module: Path, folder: Path) -> None:
    """Go finds the module in its own layout of a file system, and builds it."""
    folder.mkdir()
    with zipfile.ZipFile(module) as archive:
        archive.extractall(folder)
    [inside] = folder.glob("odradek.dev/helpers/go@*")
    (folder / "go.mod").write_text(
        f"module x\n\ngo 1.25\n\nrequire odradek.dev/helpers/go v{VERSION}\n\n"
        f"replace odradek.dev/helpers/go => ./{inside.relative_to(folder)}\n"
    )
    (folder / "x.go").write_text('package x\n\nimport odradek "odradek.dev/helpers/go"\n\nvar _ = odradek.New\n')
    done = subprocess.run(["go", "build", "./..."], cwd=folder, capture_output=True, text=True)
    assert 0 == done.returncode, done.stdout + done.stderr
