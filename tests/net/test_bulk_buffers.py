"""The buffers of long requests: whose they are, what is copied, and when they serve again."""

from __future__ import annotations

import gc
import tracemalloc
from mmap import mmap

import pytest

from odradek.core.spare_pages import SparePages
from odradek.host.events import Event, Gathered, Received
from odradek.net import bulk_pages
from odradek.net.bulk_pages import BulkPages
from odradek.net.protocol import Bulk

KIB = 1024
LONG = 900 * KIB


class Client:
    """What `Bulk` knows of its `ClientProtocol`; its node lets long requests be gathered."""

    conn = 1

    def __init__(self, pages: BulkPages) -> None:
        self.heard: list[Event] = []
        self.shorts = 0
        self.bulk = Bulk(self, pages)  # type: ignore[arg-type]
        self.wanted = 0
        """How long the next request is that begins where a read begins; 0: short ones."""

    def hear(self, event: Event) -> None:
        self.heard.append(event)
        if isinstance(event, Received) and event.data and self.wanted:
            assert self.bulk.gather((event.data,), self.wanted)

    def read_short(self) -> None:
        self.shorts += 1

    def read(self, data: bytes) -> None:
        """What an event loop does with bytes of a socket."""
        while data:
            place = self.bulk.get_buffer(-1)
            count = min(len(place), len(data))
            place[:count] = data[:count]
            del place
            self.bulk.buffer_updated(count)
            data = data[count:]

    def whole(self) -> memoryview:
        event = self.heard.pop()
        assert isinstance(event, Gathered)
        return event.data


def buffer_of(view: memoryview) -> mmap:
    assert isinstance(view.obj, mmap)
    return view.obj


def test_the_request_lies_in_one_buffer_and_the_next_one_is_received_where_it_stays() -> None:
    client = Client(BulkPages())
    assert client.bulk.gather((b"ab", b"cd"), LONG)
    client.read(bytes(LONG - 5))
    assert [Received(1, b"")] == client.heard
    client.read(b"x")
    assert b"abcd" + bytes(LONG - 5) + b"x" == client.whole()
    client.wanted = LONG
    client.read(b"e" * (LONG - 1))
    begun = client.heard.pop()
    assert isinstance(begun, Received)
    client.read(b"f")
    whole = client.whole()
    assert b"e" * (LONG - 1) + b"f" == whole
    assert whole.obj is begun.data.obj  # type: ignore[union-attr]
    assert 0 == client.shorts


def test_a_buffer_serves_again_when_nobody_has_a_view_of_it() -> None:
    client = Client(BulkPages())
    client.bulk.gather((b"a",), LONG)
    client.read(bytes(LONG - 1))
    first = client.whole()
    client.wanted = LONG
    client.read(b"2" * (LONG - 1))
    client.read(b"2")
    second = buffer_of(client.whole())
    assert second is not first.obj
    assert b"a" == bytes(first[:1])
    before = {id(first.obj), id(second)}
    client.heard.clear()
    del first
    client.wanted = 0
    client.bulk.gather((b"3",), LONG)
    client.read(bytes(LONG - 1))
    again = client.whole()
    assert id(again.obj) in before
    assert b"3" == bytes(again[:1])


def test_short_requests_end_it_and_their_buffer_is_nobody_elses() -> None:
    pages = BulkPages()
    client, other = Client(pages), Client(pages)
    client.bulk.gather((b"a",), LONG)
    client.read(bytes(LONG - 1))
    client.whole()
    client.read(b"short")
    assert 1 == client.shorts
    other.read(b"OTHER")
    [short, others] = client.heard.pop(), other.heard.pop()
    assert isinstance(short, Received)
    assert isinstance(others, Received)
    assert (b"short", b"OTHER") == (short.data, others.data)


def test_a_long_request_that_comes_with_one_read_is_followed_by_others() -> None:
    client = Client(BulkPages())
    client.bulk.gather((b"a",), LONG)
    client.read(bytes(LONG - 1))
    client.read(b"2" * LONG)
    assert Received(1, memoryview(b"2" * LONG)) == client.heard.pop()
    assert 0 == client.shorts


def test_a_connection_without_a_request_under_way_has_no_buffer() -> None:
    pages = BulkPages()
    clients = [Client(pages) for _ in range(50)]
    places = [client.bulk.get_buffer(-1) for client in clients]
    assert 1 == len({id(place.obj) for place in places})


def test_a_longer_request_than_the_buffer_is_moved_and_one_behind_others_stays() -> None:
    client = Client(BulkPages())
    client.wanted = 2 * LONG
    client.read(b"h" * 1000)
    client.read(bytes(2 * LONG - 1000))
    assert b"h" * 1000 + bytes(2 * LONG - 1000) == client.whole()
    client = Client(BulkPages())
    client.bulk.gather((b"a",), LONG)
    client.read(bytes(LONG - 1))
    client.whole()
    place = client.bulk.get_buffer(-1)
    place[:10] = b"shortBEGIN"
    buffer = place.obj
    del place

    def after_short(event: Event) -> None:
        assert isinstance(event, Received)
        client.bulk.gather((memoryview(event.data)[5:],), LONG - 100 * KIB)

    client.hear = after_short  # type: ignore[method-assign]
    client.bulk.buffer_updated(10)
    del client.hear
    client.read(b"z" * (LONG - 100 * KIB - 5))
    whole = client.whole()
    assert (b"BEGIN" + b"z" * (LONG - 100 * KIB - 5), True) == (bytes(whole), whole.obj is buffer)


def test_without_memory_nothing_is_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(size: int) -> mmap:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(bulk_pages, "new_pages", refused)
    client = Client(BulkPages())
    assert not client.bulk.gather((b"a",), LONG)


def test_the_promise_of_a_very_long_request_takes_no_memory() -> None:
    client = Client(BulkPages())
    tracemalloc.start()
    try:
        assert client.bulk.gather((b"a",), 100_000_000)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 100 * KIB
    finally:
        tracemalloc.stop()
    client.read(bytes(99_999_999))
    client.whole()
    assert len(client.bulk.get_buffer(-1)) <= 4 * KIB * KIB


def test_pages_that_nobody_has_needed_go_back() -> None:
    spare = SparePages(1 << 20)
    spare.keep(mmap(-1, 1 << 20))
    spare.give_back(60_000)
    spare.give_back(120_000)
    assert 0 == spare.bytes_kept
