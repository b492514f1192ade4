"""The garbage collector rests while modules are imported, and works as before afterwards."""

from __future__ import annotations

import gc

import pytest

from odradek.cli.imports import NoCollections


def test_nothing_is_collected_inside() -> None:
    assert gc.isenabled()
    with NoCollections():
        assert not gc.isenabled()
    assert gc.isenabled()


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
