"""`make release`: what a release consists of, in one folder, beside the wheel and the sdist.

    python -m tests.packaging.release FOLDER [TAG]

Python's standard library, Maven and npm are enough. It refuses in one sentence where the versions differ.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["NotReady", "go_module", "main", "notes", "version"]

ROOT = Path(__file__).resolve().parent.parent.parent
GO, JAVA, NODE = (ROOT / "helpers" / language for language in ("go", "java", "node"))
CHANGES = r"^## {version} \((?:\d{{4}}-\d\d-\d\d)\)\n(.*?)(?=^## |\Z)"
FIRST_DATE = (1980, 1, 1, 0, 0, 0)
"""Of files in archives, so that the same commit makes the same ones."""


class NotReady(Exception):
    """This commit is no release; the text is one sentence."""


def version(root: Path = ROOT, tag: str = "") -> str:
    """The one version that everything in the checkout has, and the tag. Raises NotReady."""
    places = {
        "broker/odradek/__init__.py": r'^__version__ = "(.+)"$',
        "helpers/java/pom.xml": r"<artifactId>odradek-junit</artifactId>\s*<version>(.+)</version>",
        "helpers/node/package.json": r'"version": "(.+)"',
        "CHANGELOG.md": r"^## (\d\S*)",
    }
    found = {}
    for name, pattern in places.items():
        match = re.search(pattern, (root / name).read_text(), re.MULTILINE)
        if match is None:
            raise NotReady(f"There is no version in {name}.")
        found[name] = match[1]
    if tag:
        found["the tag"] = tag.removeprefix("v")
    if len(set(found.values())) > 1:
        raise NotReady(f"The versions differ: {', '.join(f'{each} in {name}' for name, each in found.items())}.")
    return found["CHANGELOG.md"]


def notes(changelog: str, number: str) -> str:
    """What the changelog says of a version, which has to have a date. Raises NotReady."""
    found = re.search(CHANGES.format(version=re.escape(number)), changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        raise NotReady(f"CHANGELOG.md has no section of {number} with a date, such as ## {number} (2026-01-31).")
    return found[1].strip() + "\n"


def go_module(target: Path, number: str) -> Path:
    """The helper for Go as a module's zip file: without the example, which is a module of its own."""
    module = re.search(r"^module (\S+)$", (GO / "go.mod").read_text(), re.MULTILINE)
    assert module is not None
    path = target / f"odradek-go-{number}.zip"
    files = {each.name: each for each in sorted(GO.iterdir()) if each.is_file()} | {"LICENSE": ROOT / "LICENSE"}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, each in files.items():
            archive.writestr(zipfile.ZipInfo(f"{module[1]}@v{number}/{name}", FIRST_DATE), each.read_bytes())
    return path


def _jar(target: Path, number: str) -> None:
    with tempfile.TemporaryDirectory() as work:
        _run("mvn", "-B", "-q", "-f", JAVA / "pom.xml", "package", "-DskipTests", f"-Dodradek.build={work}")
        shutil.copy(Path(work) / f"odradek-junit-{number}.jar", target)
    shutil.copy(JAVA / "pom.xml", target / f"odradek-junit-{number}.pom")


def _npm_package(target: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        for each in (NODE / "package.json", NODE / "odradek.mjs", ROOT / "LICENSE"):
            shutil.copy(each, work)
        _run("npm", "pack", "--silent", "--pack-destination", target, work)


def _run(*words: object) -> None:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise NotReady(f"{words[0]} has failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def main(words: Sequence[str]) -> int:
    """Fill the folder; the exit code."""
    target, tag = Path(words[0]).resolve(), words[1] if len(words) > 1 else ""
    try:
        number = version(tag=tag)
        text = notes((ROOT / "CHANGELOG.md").read_text(), number)
        target.mkdir(parents=True, exist_ok=True)
        (target / "notes.md").write_text(text)
        go_module(target, number)
        _jar(target, number)
        _npm_package(target)
    except NotReady as reason:
        print(f"make release: {reason}", file=sys.stderr)
        return 2
    print(f"The release {number} is in {target}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
