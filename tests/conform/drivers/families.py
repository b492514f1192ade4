"""The drivers of `odradek conform` for the families of the matrix: from a family and a release to a command line."""

import dataclasses
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

from tests.clients.environments import python_for
from tests.clients.toolchain import JAVA, cache, digest, jars, java_classes, need, node_itself, node_modules, once, sh

from odradek.conform.skeletons import FOLDER

__all__ = ["FAMILIES", "Family", "command"]

HERE = Path(__file__).resolve().parent


def java(version: str) -> list[str]:
    sources = [FOLDER / "Driver.java", HERE / "java" / "JavaDriver.java"]
    return [*JAVA, "-cp", java_classes("conform-java", sources, jars(HERE / "java" / "pom.xml", version)), "JavaDriver"]


def python(family: str) -> Callable[[str], list[str]]:
    def interpreted(version: str) -> list[str]:
        """The loop is found on the path of modules, which `env` extends."""
        program = HERE / "python" / f"{family.replace('-', '_')}_driver.py"
        return ["env", f"PYTHONPATH={FOLDER}", python_for(family, version), str(program)]

    return interpreted


def go(family: str, newest: str) -> Callable[[str], list[str]]:
    """The skeleton is package main; a family's file puts its own verbs in the place of the empty ones.

    The newest release is pinned by go.mod and go.sum, any other by VERSION.mod and VERSION.sum, with the tag `older`.
    """

    def built(version: str) -> list[str]:
        need("go")
        folder = HERE / "go" / family
        module = folder / ("go.mod" if version == newest else f"v{version}.mod")
        sources = [FOLDER / "driver.go", *sorted((HERE / "go" / "shared").glob("*.go")), *sorted(folder.glob("*.go"))]
        pinned = [module, module.with_suffix(".sum")]

        def build(target: Path) -> None:
            for file in (*sources, *pinned):
                shutil.copy(file, target)
            given = ["-buildvcs=false", f"-modfile={module.name}", "-tags=older" if version != newest else "-tags="]
            # a module is named go.mod for Go to see one, whichever is then taken
            shutil.copy(module, target / "go.mod")
            sh("go", "build", *given, "-o", target / "program", ".", cwd=target)

        return [str(once(f"conform-{family}-{digest(*sources, *pinned)}", build, about_s=40) / "program")]

    return built


def node(family: str) -> Callable[[str], list[str]]:
    def of_release(version: str) -> list[str]:
        """The program and the skeleton lie beside the modules, because Node looks for them from there."""
        modules = node_modules(HERE / "node" / family / version)
        sources = [FOLDER / "driver.mjs", HERE / "node" / "clients.mjs", HERE / "node" / family / "program.mjs"]

        def build(target: Path) -> None:
            for source in sources:
                shutil.copy(source, target)
            (target / "node_modules").symlink_to(modules)

        program = once(f"conform-{family}-{version}-{digest(str(modules), *sources)}", build, about_s=0)
        return [str(node_itself()), str(program / "program.mjs")]

    return of_release


def rust(family: str) -> Callable[[str], list[str]]:
    def of_release(version: str) -> list[str]:
        need("cargo", "cc")
        pinned = [HERE / "rust" / family / version / name for name in ("Cargo.toml", "Cargo.lock")]
        sources = [FOLDER / "driver.rs", HERE / "rust" / "library.rs", HERE / "rust" / family / "main.rs"]

        def build(target: Path) -> None:
            (target / "src").mkdir()
            for file in pinned:
                shutil.copy(file, target)
            for file in sources:
                shutil.copy(file, target / "src")
            compiled = cache() / f"conform-{family}-{version}-target"  # kept: libraries take longer than drivers
            given: list[str | Path] = [
                "--quiet",
                "--locked",
                "--target-dir",
                compiled,
                "--config",
                f"env.CRATE_VERSION='{version}'",
            ]
            sh("cargo", "build", *given, cwd=target)
            shutil.copy2(compiled / "debug" / f"conform-{family}", target / "program")

        return [str(once(f"conform-{family}-{version}-{digest(*pinned, *sources)}", build, about_s=180) / "program")]

    return of_release


# From the number of a release to a command line.
BUILT_BY: dict[str, Callable[[str], list[str]]] = {
    "java": java,
    "confluent-kafka": python("confluent-kafka"),
    "aiokafka": python("aiokafka"),
    "kafka-python": python("kafka-python"),
    "franz-go": go("franz-go", "1.22.2"),
    "sarama": go("sarama", "1.61.1"),
    "kafka-go": go("kafka-go", "0.4.51"),
    "kafkajs": node("kafkajs"),
    "platformatic": node("platformatic"),
    "rdkafka": rust("rdkafka"),
    "krafka": rust("krafka"),
    "rskafka": rust("rskafka"),
}


@dataclasses.dataclass(frozen=True)
class Family:
    """A client library and the releases of it that have a report card; the newest is the last one."""

    name: str
    releases: tuple[str, ...]
    without_kip_890: tuple[str, ...]
    """Those of the releases that know nothing of KIP-890."""
    note: str


def _families() -> dict[str, Family]:
    listed = tomllib.loads((HERE / "families.toml").read_text())
    return {
        name: Family(name, tuple(row["releases"]), tuple(row["without_kip_890"]), row["note"])
        for name, row in listed.items()
    }


FAMILIES: dict[str, Family] = _families()


def command(family: str, version: str | None = None) -> list[str]:
    """The command line of a driver, which is built the first time; without a version that of the newest release.

    Raises MissingToolchain where the machine lacks a compiler, and KeyError for a family that has no driver.
    """
    return BUILT_BY[family](version or FAMILIES[family].releases[-1])
