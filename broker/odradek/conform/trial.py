"""`odradek conform --try`: one transaction and one read, with every line of the driver, for authors of drivers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from odradek.cli.logs import make_logger
from odradek.conform.driver import DriverFault, DriverProcess, started
from odradek.conform.protocol import (
    VERBS,
    Abort,
    Begin,
    Close,
    Commit,
    Flush,
    Init,
    Offset,
    Poll,
    Request,
    Role,
    Send,
    SendOffsets,
    Subscribe,
    Value,
    verb_of,
)
from odradek.control.hub import Hub
from odradek.control.messages.clusters import NewCluster

__all__ = ["try_driver"]

TOPIC = "tried"
GROUP = "readers"
TRANSACTIONAL_ID = "trial"
MARKS = {">": "-> ", "<": "<- ", "2": "   "}


async def try_driver(command: Sequence[str], say: Callable[[str], None]) -> bool:
    """Whether the driver serves all requests; `say` is called with each request and answer, a line at a time."""

    def heard(stream: str, data: bytes) -> None:
        for line in data.decode("utf-8", "replace").splitlines():
            say(f"{MARKS[stream]}{line}")

    hub = Hub(log=make_logger(level="error"))
    try:
        hosted = await hub.make(NewCluster(topics=[TOPIC]))
        async with started(command, heard=heard) as driver:
            unknown = set(driver.hello.verbs) - set(VERBS)
            if unknown:
                say(f"Verbs that there are not: {', '.join(sorted(unknown))}.")
            refused = await _refused(driver, hosted.running.bootstrap)
    except DriverFault as fault:
        say(str(fault))
        return False
    finally:
        await hub.close()
    say(f"Not done: {', '.join(refused)}." if refused else "Everything that was asked was done.")
    return not refused


async def _refused(driver: DriverProcess, bootstrap: str) -> list[str]:
    """The verbs that were answered with an error, or as unsupported."""
    found: dict[str, None] = {}
    for make in _requests(bootstrap):
        request = make(driver.next_id())
        answer = await driver.ask(request)
        if answer.done is None:
            found[verb_of(request)] = None
    return list(found)


def _requests(bootstrap: str) -> Iterator[Callable[[int], Request]]:
    producer: dict[str, Value] = {
        "client.id": "p1",
        "transactional.id": TRANSACTIONAL_ID,
        "transaction.timeout.ms": 60_000,
    }
    consumer: dict[str, Value] = {
        "client.id": "c1",
        "group.id": GROUP,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "group.protocol": "classic",
    }
    offsets = [Offset(topic=TOPIC, partition=0, offset=2)]
    yield lambda id: Init(id=id, client="p1", role=Role.PRODUCER, bootstrap=bootstrap, config=producer)
    yield lambda id: Begin(id=id, client="p1")
    yield lambda id: Send(id=id, client="p1", topic=TOPIC, partition=0, key="k", value="one")
    yield lambda id: Send(id=id, client="p1", topic=TOPIC, partition=0, value="two", wait=True)
    yield lambda id: Init(id=id, client="c1", role=Role.CONSUMER, bootstrap=bootstrap, config=consumer)
    yield lambda id: Subscribe(id=id, client="c1", topics=[TOPIC])
    yield lambda id: Flush(id=id, client="p1")
    yield lambda id: Commit(id=id, client="p1")
    yield lambda id: Poll(id=id, client="c1", max=2, timeout_ms=10_000)
    yield lambda id: Begin(id=id, client="p1")
    yield lambda id: SendOffsets(id=id, client="p1", group=GROUP, consumer="c1", offsets=offsets)
    yield lambda id: Commit(id=id, client="p1")
    yield lambda id: Begin(id=id, client="p1")
    yield lambda id: Send(id=id, client="p1", topic=TOPIC, partition=0, value="three")
    yield lambda id: Abort(id=id, client="p1")
    yield lambda id: Close(id=id, client="c1")
    yield lambda id: Close(id=id, client="p1")
