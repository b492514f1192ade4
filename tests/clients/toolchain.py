"""Compiled programs and Maven jars, built once each into a cache outside the repository."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

__all__ = [
    "JAVA",
    "BuildFailed",
    "MissingToolchain",
    "cache",
    "digest",
    "go_program",
    "jars",
    "java_classes",
    "need",
    "node_itself",
    "node_modules",
    "node_program",
    "once",
    "python_with",
    "resolved",
    "rust_program",
    "sh",
    "telling",
]

JAVA = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
JAVA += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]


WORTH_TELLING_S = 3


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


def _to_standard_error(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


_tell: list[Callable[[str], None]] = [_to_standard_error]


@contextlib.contextmanager
def telling(tell: Callable[[str], None]) -> Iterator[None]:
    """Inside, whoever waits for a build is told so in this way."""
    _tell.append(tell)
    try:
        yield
    finally:
        _tell.pop()


def once(name: str, build: Callable[[Path], None], *, about_s: int) -> Path:
    """The folder that `build` fills; other processes wait for the first one, and a failed build leaves nothing.

    What it takes about so many seconds to build, on two cores and with a good network, is announced.
    """
    folder = cache() / name
    if folder.is_dir():
        return folder
    with locked(cache() / f"{name}.lock"):
        if not folder.is_dir():
            unfinished = cache() / f"{name}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            if about_s >= WORTH_TELLING_S:
                _tell[-1](f"Building {name}, this once: about {about_s} s ...")
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
    return resolved(pom, {"kafka.version": version} if version else {})


def resolved(pom: Path, properties: Mapping[str, str]) -> Path:
    """The folder of the jars that the pom names with these properties; Maven is asked the first time only."""
    given = [f"-D{key}={value}" for key, value in properties.items()]

    def build(folder: Path) -> None:
        need("mvn")
        target = f"-DoutputDirectory={folder}"
        sh("mvn", "-q", "-B", "-f", pom, *given, "dependency:copy-dependencies", target, cwd=pom.parent)

    return once(f"{pom.parent.name}-jars-{digest(pom, *given)}", build, about_s=20)


def java_classes(name: str, sources: Sequence[Path], libraries: Path) -> str:
    """The class path of the compiled sources and their libraries."""
    need("javac")

    def build(folder: Path) -> None:
        sh("javac", "-nowarn", "-d", folder, "-cp", f"{libraries}/*", *sources, cwd=folder)

    return f"{once(f'{name}-classes-{digest(libraries.name, *sources)}', build, about_s=5)}:{libraries}/*"


def go_program(folder: Path, version: str | None = None) -> Path:
    """The program of a Go module's folder, linked with what all of them share.

    The newest release of its library is pinned by go.mod and go.sum, any other by VERSION.mod and VERSION.sum; that is
    built with the tag `older`, for what it lacks.
    """
    need("go")
    module, shared = folder / "go.mod", folder.parent / "go"
    if version is not None and f"/{folder.name} {version}\n" not in module.read_text():
        module = folder / f"{version}.mod"
    tags = "" if module.name == "go.mod" else "older"
    sources = sorted([*folder.glob("*.go"), *shared.glob("*.go"), *shared.glob("go.mod")])

    def build(target: Path) -> None:
        given = ["-buildvcs=false", f"-modfile={module}", f"-tags={tags}"]
        sh("go", "build", *given, "-o", target / "program", ".", cwd=folder)

    return once(f"{folder.name}-{digest(module, module.with_suffix('.sum'), *sources)}", build, about_s=40) / "program"


def need_rust(least: str) -> None:
    need("cargo", "rustc", "cc")
    # asked, because rustup leaves stand-ins on PATH even where it has installed nothing
    said = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=False).stdout
    found = said.split()[1].partition("-")[0] if said else "0"
    if as_numbers(found) < as_numbers(least):
        raise MissingToolchain(f"Rust {least} or newer is needed, found {said.strip() or 'none'}")


def as_numbers(release: str) -> list[int]:
    return [int(part) for part in release.split(".")]


def rust_program(folder: Path, library: str) -> Path:
    """The program of a library, of a Cargo project's folder that has one for each."""
    project = folder / "Cargo.toml"
    need_rust(tomllib.loads(project.read_text())["package"]["rust-version"])
    sources = sorted([*(folder / "src").rglob("*.rs"), project, folder / "Cargo.lock"])

    def build(target: Path) -> None:
        compiled = cache() / f"{folder.name}-target"  # kept, because the libraries take longer than the programs
        sh("cargo", "build", "--quiet", "--locked", "--target-dir", compiled, cwd=folder)
        for program in (compiled / "debug").glob("*-program"):
            shutil.copy2(program, target)

    return once(f"{folder.name}-{digest(*sources)}", build, about_s=90) / f"{library}-program"


def node_modules(package: Path) -> Path:
    """What the lock file in a package's folder names, installed."""
    need("npm")
    pinned = [package / "package.json", package / "package-lock.json"]

    def build(target: Path) -> None:
        for file in pinned:
            shutil.copy(file, target)
        sh("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=target)

    return once(f"{package.parent.name}-{package.name}-modules-{digest(*pinned)}", build, about_s=15) / "node_modules"


def node_itself() -> Path:
    """Node is a package too."""
    package = Path(__file__).resolve().parent / "node"
    node = node_modules(package) / ".bin" / "node"
    if not node.exists():
        raise MissingToolchain(f"no Node for this machine in {package / 'package.json'}")
    return node


def node_program(folder: Path, version: str | None = None) -> list[str]:
    """The start of the command line of a Node program; each release of its client has a folder with a lock file.

    Node itself is a package too. The program is copied beside its modules, because Node looks for them from there.
    """
    releases = {file.parent.name: file.parent for file in folder.glob("*/package.json")}
    chosen = version or max(releases, key=lambda release: [int(part) for part in release.split(".")])
    shared = folder.parent / "node"
    node, modules = node_itself(), node_modules(releases[chosen])
    sources = sorted([*folder.glob("*.mjs"), *shared.glob("*.mjs")])

    def build(target: Path) -> None:
        for source in sources:
            (target / source.parent.name).mkdir(exist_ok=True)
            shutil.copy(source, target / source.parent.name)
        (target / folder.name / "node_modules").symlink_to(modules)

    program = once(f"{folder.name}-{chosen}-{digest(str(modules), *sources)}", build, about_s=0)
    return [str(node), str(program / folder.name / "program.mjs")]


def interpreter(package: str, latest: tuple[int, int] | None) -> str:
    """The Python that runs this; where it is newer than `latest`, the one of that version."""
    if latest is None or sys.version_info[:2] <= latest:
        return sys.executable
    version = ".".join(map(str, latest))
    name = f"python{version}"
    # asked, because version managers leave stand-ins on PATH for versions that are not switched on
    asked = [name, "-c", "import sys; print(sys.executable)"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False) if shutil.which(name) else None
    if done is None or done.returncode != 0:
        raise MissingToolchain(f"{package} needs Python {version} or older, and no {name} that runs is on PATH")
    return done.stdout.strip()


def python_with(*requirements: str, latest: tuple[int, int] | None = None) -> str:
    """An interpreter, not newer than `latest`, that has exactly these packages, each pinned (`name==version`)."""
    package = requirements[0].replace("==", " ")
    base = interpreter(package, latest)

    def build(folder: Path) -> None:
        sh(base, "-m", "venv", folder, cwd=folder)
        install = ["-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        sh(folder / "bin" / "python", *install, "--no-deps", "--only-binary", ":all:", *requirements, cwd=folder)

    folder = once(f"{package.replace(' ', '-')}-{digest(os.path.realpath(base), *requirements)}", build, about_s=15)
    return str(folder / "bin" / "python")
