"""A transactional producer of confluent-kafka in a loop: so many records of 100 bytes in each transaction.

python bench/transactions/confluent.py --bootstrap 127.0.0.1:9092 --topic t
"""

import argparse
import json
import time

from confluent_kafka import KafkaError, Message, Producer

WAITS_SECONDS = 30.0
VALUE = bytes(100)


class Load:
    """One producer, and how long its transactions and their commits alone took (seconds)."""

    def __init__(self, bootstrap: str, topic: str, records: int, partitions: int) -> None:
        self.topic, self.records, self.partitions = topic, records, partitions
        self.failed: KafkaError | None = None
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": f"bench-{time.time_ns()}", "linger.ms": 0}
        )
        self.producer.init_transactions(WAITS_SECONDS)

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        self.failed = error or self.failed

    def transaction(self) -> tuple[float, float]:
        """How long a transaction has taken, and its commit."""
        began = time.perf_counter()
        self.producer.begin_transaction()
        for number in range(self.records):
            self.producer.produce(self.topic, VALUE, partition=number % self.partitions, on_delivery=self.delivered)
        self.producer.flush(WAITS_SECONDS)
        if self.failed is not None:
            raise RuntimeError(self.failed.str())
        sent = time.perf_counter()
        self.producer.commit_transaction(WAITS_SECONDS)
        ended = time.perf_counter()
        return ended - began, ended - sent

    def run(self, seconds: float, warm_up: float) -> dict[str, float]:
        """Transactions for so long, after others that do not count; the figures in milliseconds."""
        self.transaction()  # finds the coordinator and the leaders
        measured = time.perf_counter() + warm_up
        while time.perf_counter() < measured:
            self.transaction()
        times = []
        while time.perf_counter() < measured + seconds:
            times.append(self.transaction())
        found = {"transactions_per_second": len(times) / seconds}
        for name, took in zip(("transaction", "commit"), zip(*times, strict=True), strict=True):
            ordered = sorted(took)
            for share in (50, 95, 99):
                found[f"{name}_p{share}_ms"] = 1000 * ordered[len(ordered) * share // 100]
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--records", type=int, default=1, help="of a transaction")
    parser.add_argument("--partitions", type=int, default=1, help="they go to")
    parser.add_argument("--seconds", type=float, default=3, help="to measure")
    parser.add_argument("--warm-up", type=float, default=1, help="seconds before the measurement")
    given = parser.parse_args()
    load = Load(given.bootstrap, given.topic, given.records, given.partitions)
    print(json.dumps(load.run(given.seconds, given.warm_up)))


if __name__ == "__main__":
    main()
