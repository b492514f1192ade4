"""The README's code, block by block, in its order: each is run, and prints what the README says it prints."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.clients.lacking import with_toolchains
from tests.clients.toolchain import JAVA, jars, need
from tests.packaging.processes import Places, environment, serving
from tests.packaging.tools import HERE, ROOT, said

pytestmark = [pytest.mark.slow, pytest.mark.client]

SECTIONS = ("Five minutes", "In a test")
BUG, FIX = re.compile(r"pay\(bootstrap, order\)  # the bug.*"), "till.commit_transaction()"
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMISE = re.compile(r"(?:#|//) prints (.*)$", re.MULTILINE)
END = re.compile(r"# ends in (.*)$", re.MULTILINE)
PATIENCE_S = 20


class Block(NamedTuple):
    """Code of the README, and what it is to print."""

    language: str
    code: str
    prints: list[str]
    ends_in: list[str]


def blocks(section: str) -> list[Block]:
    readme = (ROOT / "README.md").read_text()
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## )", readme, re.MULTILINE | re.DOTALL)
    return [Block(language, code, PROMISE.findall(code), END.findall(code)) for language, code in FENCED.findall(text)]


def first_screen() -> str:
    """The test at the top of the README."""
    top = (ROOT / "README.md").read_text().partition("\n## ")[0]
    [(language, code)] = FENCED.findall(top)
    assert "python" == language
    return str(code)


SERVE, *TOUR = blocks(SECTIONS[0])
IN_A_TEST = blocks(SECTIONS[1])


class Tour:
    """A reader's terminal: what stands in the README, on the ports and in the folder of this test."""

    def __init__(self, folder: Path) -> None:
        self.places = Places()
        self.folder = folder
        self.env = environment(Path(sys.prefix))
        self._printed: dict[int, str] = {}

    def here(self, code: str) -> str:
        """The code as this machine has to run it."""
        for there, here in (
            ("events.jsonl", str(self.folder / "events.jsonl")),
            (".venv/bin/", f"{sys.prefix}/bin/"),
            ('make run ARGS="', f'make run VENV={sys.prefix} ARGS="--port {self.places.ports[9092]} '),
            ("make demo", f'make demo VENV={sys.prefix} ARGS="--seconds 2"'),
        ):
            code = code.replace(there, here)
        return self.places(code)

    def printed(self, number: int) -> str:
        """What a block prints; one of the shell looks at what those in Python before it have done."""
        if number not in self._printed:
            if TOUR[number].language == "sh":
                for earlier in range(number):
                    if TOUR[earlier].language == "python":
                        self.printed(earlier)
            self._printed[number] = self.run(TOUR[number])
        return self._printed[number]

    def run(self, block: Block) -> str:
        """What a block prints."""
        return RUNNERS[block.language](self, self.here(block.code))


def shell(tour: Tour, code: str) -> str:
    return finished("sh", "-ec", code, cwd=ROOT, env=tour.env)


def python(tour: Tour, code: str) -> str:
    return finished(sys.executable, "-c", code, cwd=tour.folder, env=tour.env)


def java(tour: Tour, code: str) -> str:
    imports = re.findall(r"^import .*$", code, re.MULTILINE)
    body = "\n".join(line for line in code.splitlines() if line not in imports)
    wrapped = "\n".join([*imports, "class Tour {", "public static void main(String[] none) {", body, "}", "}"])
    (tour.folder / "Tour.java").write_text(wrapped)
    with with_toolchains("the tour in Java"):
        libraries = jars(ROOT / "tests" / "clients" / "java" / "pom.xml")
    return finished(*JAVA, "-cp", f"{libraries}/*", tour.folder / "Tour.java", cwd=tour.folder, env=tour.env)


def go(tour: Tour, code: str) -> str:
    with with_toolchains("the tour in Go"):
        need("go")
    module = tour.folder / "go"
    module.mkdir()
    for pinned in ("go.mod", "go.sum"):
        shutil.copy(HERE / "tour" / pinned, module)
    (module / "main.go").write_text(code)
    assert "" == finished("gofmt", "-l", ".", cwd=module, env=tour.env)
    return finished("go", "run", "-buildvcs=false", ".", cwd=module, env=tour.env)


RUNNERS: dict[str, Callable[[Tour, str], str]] = {"sh": shell, "python": python, "java": java, "go": go}


def finished(*command: object, cwd: Path, env: dict[str, str]) -> str:
    done = said(*command, cwd=cwd, env=env)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tour]:
    tour = Tour(tmp_path_factory.mktemp("tour"))
    with serving(tour.here(SERVE.code), tour.env, cwd=ROOT) as (_, bootstrap):
        assert 3 == len(bootstrap.split(","))
        yield tour


def test_the_tour_is_all_here() -> None:
    assert SERVE.code.startswith("make run ")
    assert ["sh", "python", "sh", "java", "go", "sh"] == [block.language for block in TOUR]
    assert ["python", "python"] == [block.language for block in IN_A_TEST]
    assert 1 == sum(len(block.ends_in) for block in TOUR)
    assert all(block.prints for block in TOUR if block.language in ("python", "java", "go"))


def test_the_two_commands_stand_on_top() -> None:
    top = (ROOT / "README.md").read_text().split("\n\n")[1].splitlines()
    assert ["make run", "make test"] == [line.strip().split("  ")[0] for line in top]


@pytest.mark.parametrize("number", range(len(TOUR)), ids=lambda number: f"{number + 1}-{TOUR[number].language}")
def test_a_block_of_the_tour(tour: Tour, number: int) -> None:
    block = TOUR[number]
    printed = tour.printed(number)
    end = time.monotonic() + PATIENCE_S
    while block.language == "sh" and not keeps(block, printed) and time.monotonic() < end:
        time.sleep(0.1)  # the coordinator completes a transaction after it has answered
        with suppress(AssertionError):
            printed = tour.run(block)
    assert keeps(block, printed), printed


def keeps(block: Block, printed: str) -> bool:
    ends = all(printed.rstrip().endswith(end) for end in block.ends_in)
    return ends and all(promise in printed for promise in block.prints)


def test_the_test_on_the_first_screen_finds_its_bug(tmp_path: Path) -> None:
    (tmp_path / "test_bug.py").write_text(first_screen())
    fixed, places = BUG.subn(FIX, first_screen())
    assert 1 == places
    (tmp_path / "test_fix.py").write_text(fixed)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--show-capture=no", "."]
    done = said(*command, cwd=tmp_path, env=environment(Path(sys.prefix)))
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "[b'order-7', b'order-7']" in done.stdout, done.stdout
    assert "FAILED test_bug.py::test_an_order_is_paid_once" in done.stdout


def test_the_pytest_example(tmp_path: Path) -> None:
    (tmp_path / "test_example.py").write_text(IN_A_TEST[0].code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    assert "1 passed" in finished(*command, cwd=tmp_path, env=environment(Path(sys.prefix)))


def test_the_cluster_example(tmp_path: Path) -> None:
    finished(sys.executable, "-c", IN_A_TEST[1].code, cwd=tmp_path, env=environment(Path(sys.prefix)))
