"""The garbage collector rests while modules are imported, and works as before afterwards."""

from __future__ import annotations

import gc
import json
import sys
from importlib.machinery import FileFinder
from pathlib import Path

import pytest

from odradek.cli import imports
from odradek.cli.imports import NoCollections, find_sources_first


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
