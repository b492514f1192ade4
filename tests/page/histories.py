"""Histories made by hand, small enough to know what the page has to show of them."""

from __future__ import annotations

from typing import Any

from odradek.show.history import History, Lane, Step

__all__ = ["LANES", "Telling", "a_failure", "a_transaction", "long", "two_runs"]

LANES = (
    Lane(key="client:till", kind="client", name="till", about="confluent-kafka 2.16"),
    Lane(key="broker:1", kind="broker", name="broker 1", about="leader of orders-2"),
    Lane(key="broker:2", kind="broker", name="broker 2"),
    Lane(key="coordinator:1", kind="coordinator", name="broker 1", about="coordinator of till-2"),
    Lane(key="partition:orders-2", kind="partition", name="orders-2", about="led by broker 1"),
)
CLIENT, BROKER, OTHER, COORDINATOR, PARTITION = range(5)


class Telling:
    """Steps one after the other, a millisecond apart unless something is said to last."""

    def __init__(self, lanes: tuple[Lane, ...] = LANES) -> None:
        self.lanes = lanes
        self.steps: list[Step] = []
        self.at_ms = 0.0

    def step(self, kind: str, source: int, target: int, text: str, **more: Any) -> Step:
        """A step of any kind."""
        seq = len(self.steps) + 1
        made = Step(seq=seq, at_ms=self.at_ms, kind=kind, source=source, target=target, text=text, **more)
        self.steps.append(made)
        self.at_ms += 1
        return made

    def mark(self, kind: str, lane: int, text: str, **more: Any) -> Step:
        """A mark at one lane."""
        return self.step(kind, lane, lane, text, **more)

    def ask(self, source: int, target: int, api: str, version: int, body: object = None, **more: Any) -> Step:
        """A request."""
        fields = {"api": api, "version": version, "correlation": len(self.steps), "connection": 7, "client_id": "till"}
        return self.step(
            "request", source, target, f"{name_of(api)} v{version}", fields=fields | {"body": body}, **more
        )

    def answer(self, request: Step, body: object = None, error: str = "", **more: Any) -> Step:
        """Its response."""
        text = f"{name_of(request.fields['api'])} answered{f': {error}' if error else ''}"
        fields = dict(request.fields) | {"error": error or "NONE", "duration_ns": 3_100_000, "body": body}
        ids = {"transactional_id": request.transactional_id, "producer_id": request.producer_id, "kip": request.kip}
        return self.step(
            "response",
            request.target,
            request.source,
            text,
            answer_to=request.seq,
            error=error,
            fields=fields,
            **ids,
            **more,
        )

    def pause(self, ms: float) -> None:
        """Time in which nothing happens."""
        self.at_ms += ms

    def history(self, title: str = "events.jsonl", **more: Any) -> History:
        """All of it."""
        ids = dict.fromkeys(step.transactional_id for step in self.steps if step.transactional_id is not None)
        facts: dict[str, Any] = {"events": len(self.steps), **more}
        return History(
            title=title, lanes=self.lanes, steps=tuple(self.steps), transactions=tuple(i for i in ids if i), **facts
        )


def name_of(api: str) -> str:
    """END_TXN is EndTxn."""
    return "".join(word.capitalize() for word in api.split("_"))


def tell(telling: Telling, transactional_id: str, producer_id: int, *, commits: bool = True) -> None:
    """A transaction of one record, from InitProducerId to its marker."""
    tx: dict[str, Any] = {"transactional_id": transactional_id, "producer_id": producer_id}
    state = {"kip": "KIP-890", **tx}
    begun = telling.ask(
        CLIENT,
        COORDINATOR,
        "INIT_PRODUCER_ID",
        5,
        {"transactional_id": transactional_id, "transaction_timeout_ms": 60000, "producer_id": -1},
        kip="KIP-360",
        **tx,
    )
    telling.mark("init_producer_id", COORDINATOR, f"producer {producer_id}, epoch 0 is given out", **state)
    telling.answer(begun, {"throttle_time_ms": 0, "error_code": 0, "producer_id": producer_id, "producer_epoch": 0})
    produced = telling.ask(
        CLIENT,
        BROKER,
        "PRODUCE",
        12,
        {
            "transactional_id": transactional_id,
            "acks": -1,
            "timeout_ms": 30000,
            "topicData": [{"name": "orders", "partitionData": [{"index": 2, "records": {"batches": 1, "records": 3}}]}],
        },
        kip="KIP-890",
        **tx,
    )
    telling.mark("parked", PARTITION, "the batch for orders-2 is parked", **state)
    verified = telling.step("verify_start", BROKER, COORDINATOR, "AddPartitionsToTxn of orders-2", **state)
    telling.mark("partitions_added", COORDINATOR, "orders-2 is part of the transaction", **state)
    telling.mark("state_change", COORDINATOR, "Empty → Ongoing, epoch 0", **state)
    telling.step("verify_end", COORDINATOR, BROKER, "accepted", answer_to=verified.seq, **state)
    telling.mark("resumed", PARTITION, "the batch for orders-2 goes on", **state)
    telling.mark("transaction_opened", PARTITION, "open: the LSO stays at 302", **tx)
    telling.answer(
        produced,
        {"responses": [{"name": "orders", "partition_responses": [{"index": 2, "error_code": 0, "base_offset": 302}]}]},
    )
    telling.pause(1_250)
    ended = telling.ask(
        CLIENT,
        COORDINATOR,
        "END_TXN",
        5,
        {
            "transactional_id": transactional_id,
            "producer_id": producer_id,
            "producer_epoch": 0,
            "committed": commits,
        },
        kip="KIP-890",
        **tx,
    )
    word = "Commit" if commits else "Abort"
    telling.mark("state_change", COORDINATOR, f"Ongoing → Prepare{word}, epoch 1", **state)
    telling.answer(ended, {"throttle_time_ms": 0, "error_code": 0, "producer_id": producer_id, "producer_epoch": 1})
    marked = telling.ask(COORDINATOR, BROKER, "WRITE_TXN_MARKERS", 2, kip="KIP-1228", **tx)
    telling.mark(
        "marker_written",
        PARTITION,
        f"marker {word.upper()} at offset 305",
        fields={"topic": "orders", "partition": 2, "offset": 305, "commit": commits},
        **tx,
    )
    telling.mark("transaction_closed", PARTITION, "closed: the LSO goes on", **tx)
    telling.mark("lso_moved", PARTITION, "LSO 306, high watermark 306", **tx)
    telling.answer(marked)
    telling.mark("state_change", COORDINATOR, f"Prepare{word} → Complete{word}, epoch 1", **state)


def a_transaction() -> History:
    """One transactional id, `till-2`, that commits."""
    telling = Telling()
    tell(telling, "till-2", 4000)
    return telling.history()


def a_failure() -> History:
    """Three transactional ids, and errors: till-3 aborts, till-4 is fenced."""
    telling = Telling()
    asked = telling.ask(CLIENT, OTHER, "METADATA", 13, {"topics": [{"name": "orders"}]})
    telling.answer(asked, {"brokers": [{"node_id": 1}, {"node_id": 2}]})
    tell(telling, "till-2", 4000)
    tell(telling, "till-3", 4001, commits=False)
    late = telling.ask(
        CLIENT, BROKER, "PRODUCE", 12, {"transactional_id": "till-4"}, transactional_id="till-4", producer_id=4002
    )
    telling.answer(
        late,
        {
            "responses": [
                {"name": "orders", "partitionResponses": [{"index": 2, "errorCode": 47, "errorMessage": None}]}
            ]
        },
        error="INVALID_PRODUCER_EPOCH",
    )
    telling.mark("fenced", COORDINATOR, "the producer is fenced, epoch 7", transactional_id="till-4", producer_id=4002)
    telling.pause(61_000)
    again = telling.ask(CLIENT, OTHER, "FIND_COORDINATOR", 6, {"key_type": 1, "coordinator_keys": ["till-4"]})
    telling.answer(again, {"coordinators": []}, error="COORDINATOR_NOT_AVAILABLE")
    return telling.history()


def long(steps: int) -> History:
    """So many steps at least, of ten transactional ids one after the other."""
    telling = Telling()
    while len(telling.steps) < steps:
        tell(telling, f"till-{len(telling.steps) % 10}", 4000 + len(telling.steps) % 10)
    return telling.history()


def two_runs() -> tuple[History, History]:
    """The same test twice: `till-2` commits in the first run, and aborts in the second, which has a request more."""
    first, second = Telling(), Telling()
    tell(first, "till-2", 4000)
    second.answer(second.ask(CLIENT, OTHER, "METADATA", 13))
    tell(second, "till-2", 5007, commits=False)
    return first.history("passed.jsonl"), second.history("failed.jsonl")
