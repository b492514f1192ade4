"""The files of a log on a disk of the machine: their room grows as it is used, and nothing is made ready in vain."""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

import pytest
from tests.unit.log.helpers import NOW, TOPIC_ID
from tests.unit.log.test_file_log import append, lead, log_bytes

from odradek.cli.logs import make_logger
from odradek.log.file_log import FileLog
from odradek.log.file_store import FileStore
from odradek.net.disk import FIRST_RESERVED_BYTES, MAPPED_BYTES, RESERVED_BYTES, LocalDisk, LocalFile

BLOCK_BYTES = 512
SEGMENT = "topic-0/00000000000000000000.log"


def mapped(tmp_path: Path, *, until: int = 0) -> LocalFile:
    return LocalDisk(tmp_path, make_logger(level="error")).map("file", 4 * MAPPED_BYTES, until=until)


def test_room_is_reserved_in_pieces_that_grow(tmp_path: Path) -> None:
    file, path = mapped(tmp_path), tmp_path / "file"
    ends, end = [], 0
    while end < 4 * RESERVED_BYTES:
        end = file.reserve(end + 1)
        ends.append(end)
        assert path.stat().st_blocks * BLOCK_BYTES >= end
    kib = [end // 1024 for end in ends]
    assert [64, 128, 256, 512, 1024, 2048, 3072, 4096] == kib


def test_there_is_room_where_the_system_has_no_call_that_reserves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS: what is written to the mapping later must not meet a full disk."""
    monkeypatch.setattr("odradek.net.disk._RESERVE", None)
    end = mapped(tmp_path).reserve(1)
    assert (tmp_path / "file").stat().st_blocks * BLOCK_BYTES >= end


def test_old_bytes_stay_where_room_is_made_behind_them(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    mapped(tmp_path, until=100).reserve(101)
    assert b"x" * 100 + b"\0" * 100 == (tmp_path / "file").read_bytes()[:200]


@pytest.mark.parametrize("until", [1, FIRST_RESERVED_BYTES, 200_000, RESERVED_BYTES - 1, 3 * RESERVED_BYTES + 5])
@pytest.mark.parametrize("size", [1, 70_000, 900_000, 5_000_000])
def test_there_is_room_for_what_is_asked_for(tmp_path: Path, until: int, size: int) -> None:
    (tmp_path / "file").write_bytes(b"x" * until)
    file = mapped(tmp_path, until=until)
    room = file.reserve(until + size)
    assert until + size <= room <= until + size + max(RESERVED_BYTES, size)
    file.buffer[until : until + size] = b"y" * size
    assert b"x" * until + b"y" * size == (tmp_path / "file").read_bytes()[: until + size]


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux which pages of a file are in memory")
def test_the_first_page_of_a_file_brings_no_others(tmp_path: Path) -> None:
    """A device reads ahead, some of them megabytes: that much memory for each new log."""
    file = mapped(tmp_path)
    file.reserve(1)
    assert pages_in_memory(file) * mmap.PAGESIZE <= FIRST_RESERVED_BYTES


def pages_in_memory(file: LocalFile) -> int:
    count = len(file.buffer) // mmap.PAGESIZE
    found = (ctypes.c_ubyte * count)()
    start = ctypes.addressof(ctypes.c_char.from_buffer(file.buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    assert 0 == libc.mincore(ctypes.c_void_p(start), ctypes.c_size_t(len(file.buffer)), found)
    return sum(each & 1 for each in found)


def opened(path: Path) -> FileStore:
    store = FileStore(LocalDisk(path, make_logger(level="error")), node_id=1, now=lambda: NOW, unique=lambda: "0" * 32)
    store.begin()
    return store


def found_log(store: FileStore) -> FileLog:
    log = store.find(TOPIC_ID, 0)
    assert isinstance(log, FileLog)
    return log


def test_a_file_is_made_ready_for_more_at_the_first_append(tmp_path: Path) -> None:
    store = opened(tmp_path)
    partition = lead(store, 0)
    append(partition, b"a")
    append(partition, b"b")
    written = found_log(store).size_bytes
    store.close(broker_epoch=0)
    for epoch in (1, 2):
        store = opened(tmp_path)
        partition = lead(store, epoch)
        assert 2 == len(log_bytes(partition))
        assert written == (tmp_path / SEGMENT).stat().st_size
        store.close(broker_epoch=0)
        assert written == (tmp_path / SEGMENT).stat().st_size
    partition = lead(opened(tmp_path), 3)
    append(partition, b"c")
    assert written < (tmp_path / SEGMENT).stat().st_size
    again = lead(opened(tmp_path), 4)
    assert 3 == len(log_bytes(again))
    assert log_bytes(partition) == log_bytes(again)


def test_what_a_killed_process_had_reserved_is_cut_off_without_an_append(tmp_path: Path) -> None:
    store = opened(tmp_path)
    append(lead(store, 0), b"a")
    written = found_log(store).size_bytes
    assert written < (tmp_path / SEGMENT).stat().st_size
    store = opened(tmp_path)
    store.close(broker_epoch=0)
    assert written == (tmp_path / SEGMENT).stat().st_size
