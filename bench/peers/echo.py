"""The limit: a bare uvloop protocol that answers each frame with a canned response of the right size.

`python echo.py PORT TOPIC`.
It knows the three requests of the load generator (ApiVersions 0, Produce 9, Fetch 11) and stores nothing.
The first frame of a connection decides what all its frames are answered with.
"""

import asyncio
import struct
import sys
from typing import cast

import uvloop

__all__ = ["Echo"]

PRODUCE, FETCH, API_VERSIONS = 0, 1, 18
FETCH_BYTES = 1 << 20
HEADER = struct.Struct(">hhi")  # api key, version, correlation id


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def produce_answer(topic: bytes) -> bytes:
    partition = struct.pack(">ihqqq", 0, 0, 0, -1, 0) + b"\x01\x00\x00"  # no record errors, no message, no tags
    topics = b"\x02" + bytes([len(topic) + 1]) + topic + b"\x02" + partition + b"\x00"
    return framed(struct.pack(">i", 1) + b"\x00" + topics + struct.pack(">i", 0) + b"\x00")


def fetch_answer(topic: bytes, batch: bytes) -> bytes:
    records = batch * max(1, FETCH_BYTES // len(batch))
    head = struct.pack(">iihi", 1, 0, 0, 0)
    end = 1 << 40
    topics = struct.pack(">ih", 1, len(topic)) + topic + struct.pack(">i", 1)
    return framed(head + topics + struct.pack(">ihqqqiii", 0, 0, end, end, 0, -1, -1, len(records)) + records)


def first_batch(frame: bytes, topic: bytes) -> bytes:
    """The records of a Produce request 9, whose client id is four bytes long."""
    at = 8 + 2 + 4 + 1 + 1 + 2 + 4 + 1 + 1 + len(topic) + 1 + 4
    size = shift = 0
    while True:
        size |= (frame[at] & 0x7F) << shift
        shift += 7
        at += 1
        if frame[at - 1] < 0x80:
            return frame[at : at + size - 1]


class Echo(asyncio.Protocol):
    batch = b""  # of whoever produced last: what a fetch is answered with

    def __init__(self, topic: bytes) -> None:
        self.topic = topic
        self.first = bytearray()
        self.answer = b""
        self.head = b""
        self.missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        if not self.answer:
            self.first += data
            if len(self.first) < 4 or len(self.first) < 4 + int.from_bytes(self.first[:4], "big"):
                return
            self.answer = self.canned(bytes(self.first[4:]))
            data = bytes(self.first)
        count = self.whole_frames(data)
        if count:
            self.transport.write(self.answer * count)

    def canned(self, frame: bytes) -> bytes:
        key, _, correlation_id = HEADER.unpack_from(frame)
        if key == PRODUCE:
            Echo.batch = first_batch(frame, self.topic)
            return produce_answer(self.topic)
        if key == FETCH:
            return fetch_answer(self.topic, Echo.batch)
        assert key == API_VERSIONS
        return framed(struct.pack(">ihi", correlation_id, 0, 0))

    def whole_frames(self, data: bytes) -> int:
        """The number of frames that end in this data."""
        at = count = 0
        while at < len(data):
            if self.missing == 0:
                need = 4 - len(self.head)
                self.head += data[at : at + need]
                at += need
                if len(self.head) < 4:
                    break
                self.missing = int.from_bytes(self.head, "big")
                self.head = b""
            taken = min(self.missing, len(data) - at)
            at += taken
            self.missing -= taken
            count += self.missing == 0
        return count


async def main(port: int, topic: bytes) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Echo(topic), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.install()
    asyncio.run(main(int(sys.argv[1]), sys.argv[2].encode()))
