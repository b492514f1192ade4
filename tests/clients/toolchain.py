"""Compiled programs and Maven jars, built once each into a cache outside the repository."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

__all__ = ["JAVA", "BuildFailed", "MissingToolchain", "go_program", "jars", "java_classes", "need", "once"]

JAVA = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
JAVA += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]


class MissingToolchain(Exception):
    """A compiler or build tool is not on PATH."""


class BuildFailed(Exception):
    """A build tool ended with an error; its output."""


def cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "odradek-clients"


def digest(*parts: Path | str) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part.read_bytes() if isinstance(part, Path) else part.encode())
    return whole.hexdigest()[:12]


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def once(name: str, build: Callable[[Path], None]) -> Path:
    """The folder that `build` fills; other processes wait for the first one, and a failed build leaves nothing."""
    folder = cache() / name
    if folder.is_dir():
        return folder
    with locked(cache() / f"{name}.lock"):
        if not folder.is_dir():
            unfinished = cache() / f"{name}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            build(unfinished)
            unfinished.rename(folder)
    return folder


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            raise MissingToolchain(f"{program} is not on PATH")


def sh(*arguments: str | Path, cwd: Path) -> None:
    done = subprocess.run([str(a) for a in arguments], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildFailed(f"{' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")


def jars(pom: Path, version: str | None = None) -> Path:
    """The folder of the jars that the pom names, with another `kafka.version` if one is given."""
    need("java", "mvn")

    def build(folder: Path) -> None:
        chosen = [f"-Dkafka.version={version}"] if version else []
        target = f"-DoutputDirectory={folder}"
        sh("mvn", "-q", "-B", "-f", pom, *chosen, "dependency:copy-dependencies", target, cwd=pom.parent)

    return once(f"{pom.parent.name}-jars-{digest(pom, version or '')}", build)


def java_classes(name: str, sources: Sequence[Path], libraries: Path) -> str:
    """The class path of the compiled sources and their libraries."""
    need("javac")

    def build(folder: Path) -> None:
        sh("javac", "-nowarn", "-d", folder, "-cp", f"{libraries}/*", *sources, cwd=folder)

    return f"{once(f'{name}-classes-{digest(libraries.name, *sources)}', build)}:{libraries}/*"


def go_program(folder: Path) -> Path:
    """The program of a Go module's folder."""
    need("go")
    sources = sorted([*folder.glob("*.go"), folder / "go.mod", folder / "go.sum"])

    def build(target: Path) -> None:
        sh("go", "build", "-o", target / "program", ".", cwd=folder)

    return once(f"{folder.name}-{digest(*sources)}", build) / "program"
