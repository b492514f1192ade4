"""The garbage collector rests while modules are imported, and works as before afterwards."""

from __future__ import annotations

import functools
import gc
import inspect
import json
import platform
import subprocess
import sys
import typing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.machinery import FileFinder
from pathlib import Path
from types import ModuleType

import pytest
import typing_extensions

from odradek.cli import imports
from odradek.cli.imports import WAITING, NoCollections, WaitingModule, find_sources_first, let_modules_wait


def test_nothing_is_collected_inside() -> None:
    assert gc.isenabled()
    with NoCollections():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_was_made_inside_is_not_visited_afterwards() -> None:
    before = gc.get_freeze_count()
    try:
        with NoCollections():
            made: list[list[int]] = [[] for _ in range(100)]
        assert gc.get_freeze_count() >= before + len(made)
    finally:
        gc.unfreeze()


def test_folders_of_the_package_are_searched_for_sources_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path_hooks", [*sys.path_hooks])
    find_sources_first()
    find_sources_first()
    [hook, *others] = sys.path_hooks
    assert hook not in others
    finder = hook(str(Path(imports.__file__).parent))
    assert isinstance(finder, FileFinder)
    found = finder.find_spec("odradek.cli.imports")
    assert found is not None
    assert imports.__file__ == found.origin
    for elsewhere in (tmp_path, Path(imports.__file__).parent / "nowhere", Path(json.__file__).parent):
        with pytest.raises(ImportError):
            hook(str(elsewhere))


def test_the_collector_works_again_after_an_import_that_failed() -> None:
    with pytest.raises(ImportError), NoCollections():
        raise ImportError
    assert gc.isenabled()


def test_a_process_without_collections_stays_without() -> None:
    gc.disable()
    try:
        with NoCollections():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


WAITS = """
import sys
from odradek.cli.imports import WAITING, WaitingModule, let_modules_wait

let_modules_wait()
let_modules_wait()
import asyncio, msgspec, uvloop
waiting = {name for name in WAITING if type(sys.modules.get(name)) is WaitingModule}
print(*sorted(waiting))
print(*sorted({"ast", "dis", "tokenize"} & set(sys.modules)))
import inspect, textwrap
assert inspect.isgenerator(each for each in ()) and not inspect.isfunction(len)
assert "inspect" in waiting and type(inspect) is WaitingModule
assert str(inspect.signature(lambda one, two: None)) == "(one, two)"
assert not isinstance(inspect, WaitingModule) and inspect.isfunction.__module__ == "inspect"
assert textwrap.dedent("  x") == "x"
assert msgspec.json.schema(int) == {"type": "integer"}
from typing_extensions import TypedDict
"""


def test_what_uvloop_and_msgspec_import_without_a_need_waits_for_its_first_use() -> None:
    done = subprocess.run([sys.executable, "-c", WAITS], capture_output=True, text=True, check=False)
    assert "" == done.stderr
    waiting, needed = done.stdout.splitlines()
    assert {"asyncio.sslproto", "inspect", "msgspec.inspect", "typing_extensions"} <= set(waiting.split())
    assert "" == needed


async def coroutine_function() -> None: ...


def generator_function() -> Iterator[int]:
    yield 1


@functools.wraps(generator_function)
def wrapper() -> None: ...


class Called:
    async def __call__(self) -> None: ...

    async def method(self) -> None: ...


class Hinted(typing.TypedDict):
    name: typing.NotRequired[str]
    size: typing.Annotated[int, "bytes"]


ASKED = (
    coroutine_function,
    generator_function,
    generator_function(),
    wrapper,
    functools.partial(coroutine_function),
    Called(),
    Called().method,
    len,
    Called,
    3,
)


@pytest.mark.parametrize("name", ["iscoroutinefunction", "isfunction", "isgenerator", "unwrap"])
def test_a_module_that_waits_answers_as_the_module_does(name: str) -> None:
    answer, own = WAITING["inspect"]()[name], getattr(inspect, name)
    assert callable(answer)
    assert [own(each) for each in ASKED] == [answer(each) for each in ASKED]


def test_of_other_modules_the_answers_are_the_same_too() -> None:
    assert {"iscoroutinefunction", "isfunction", "isgenerator", "unwrap"} == set(WAITING["inspect"]())
    system = WAITING["platform"]().get("system", platform.system)
    assert callable(system)
    assert platform.system() == system()
    told = WAITING["typing_extensions"]()
    assert typing_extensions.Required is told["Required"]
    assert typing_extensions.NotRequired is told["NotRequired"]
    hints = told["get_type_hints"]
    assert callable(hints)
    assert typing_extensions.get_type_hints(Hinted, include_extras=True) == hints(Hinted, include_extras=True)


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module that waits, fails at its first load, and takes a while."""
    name = "a_module_that_waits"
    (tmp_path / f"{name}.py").write_text(
        "import builtins, time\n"
        "if not hasattr(builtins, 'tried'):\n"
        "    builtins.tried = True\n"
        "    raise OSError('no descriptor')\n"
        "time.sleep(0.05)\n"
        "last = told = 1\n"
    )
    monkeypatch.setattr(imports, "WAITING", {name: lambda: {"told": 0}})
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.syspath_prepend(tmp_path)
    let_modules_wait()
    yield import_module(name)
    del sys.modules[name]
    if hasattr(__builtins__, "tried"):
        del __builtins__.tried


def test_a_load_that_failed_is_tried_again_by_the_next_use(slow: ModuleType) -> None:
    assert isinstance(slow, WaitingModule)
    assert 0 == slow.told
    with pytest.raises(OSError, match="no descriptor"):
        _ = slow.last
    assert isinstance(slow, WaitingModule)
    with ThreadPoolExecutor(4) as threads:
        assert [1] * 4 == [each.result() for each in [threads.submit(getattr, slow, "last") for _ in range(4)]]
    assert not isinstance(slow, WaitingModule)
    assert 1 == slow.told
    with pytest.raises(AttributeError, match="no attribute 'more'"):
        _ = slow.more
