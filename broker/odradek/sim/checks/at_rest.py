"""Checks of a run that has come to rest: logs, journals of producers and reads of consumers agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from odradek.core.internal_topics import CoordinatorKind
from odradek.core.wording import counted
from odradek.log.partition import Partition
from odradek.records.batch import Batch
from odradek.records.record import iterate_records
from odradek.sim.checks.offsets import offset_at_rest
from odradek.sim.clients.consumers import Consumer, read_committed
from odradek.sim.clients.producers import LONG_MS, Producer, Transaction
from odradek.sim.clients.workers import WORK_GROUP
from odradek.sim.model.model import Fields
from odradek.sim.model.promises import Problem
from odradek.sim.model.reader import kind_of
from odradek.sim.schedules.schedule import REMADE
from odradek.sim.world.world import World
from odradek.txn.decision_tables import rules_of
from odradek.txn.states import PREPARED, RESTING, TxnState
from odradek.wire.errors import ErrorCode

__all__ = ["PARTITIONS", "TIMEOUT_CHECKS_MS", "Checks"]

TopicPartition = tuple[str, int]
TIMEOUT_CHECKS_MS = 1_000
"""How often coordinators look for transactions that have timed out."""
SLOWNESS_MS = 4_000
"""How long a broker, and the requests to it, may stand still."""
WORK_MS = 1_000
"""How long a broker may take that does not stand still."""
PARTITIONS: list[TopicPartition] = [("t", 0), ("t", 1), ("t", 2)]


class Checks:
    """Compares the journals of producers with the logs of brokers and the reads of consumers."""

    def __init__(
        self,
        world: World,
        producers: Sequence[Producer],
        consumers: Sequence[Consumer],
        journal: Sequence[Transaction],
        *,
        refuses: bool = False,
        forgets: bool = False,
        timeout_ms: int = 0,
        deleted_at: int = 0,
        stands_still: bool = True,
        days_pass: bool = False,
    ) -> None:
        """`refuses`: a rule has refused batches in place of their leader, which has not seen them.

        `forgets`: leaders expire idle producers. `timeout_ms`: the timeout of transactions.
        `deleted_at`: when the topic that is made again was deleted last.
        `stands_still`: a broker may stop for a while, or its replicas may stop to acknowledge.
        `days_pass`: the clock of a broker moved so far that offsets of groups may have expired.
        """
        self._days_pass = days_pass
        self._deleted_at = deleted_at
        self._stands_still = stands_still
        self._world = world
        self._producers = producers
        self._consumers = consumers
        self._journal = journal
        self._refuses = refuses
        self._forgets = forgets
        self._timeout_ms = timeout_ms
        self.committed: dict[TopicPartition, list[bytes | None]] = {}
        """The committed values of each partition, after `problems` has run."""
        self._values: set[bytes | None] = set()
        """All committed values."""
        self._read: dict[TopicPartition, list[Batch]] = {}
        self._values_at: dict[int, list[bytes | None]] = {}
        """Values by the identity of their batch, which `_read` keeps alive."""

    def problems(self) -> Iterator[Problem]:
        """All broken promises."""
        yield from self.open_ends()
        seen = {partition: read_committed(self._world, partition) for partition in PARTITIONS}
        for partition, (_, stable, end) in seen.items():
            if stable != end:
                yield Problem(
                    "hanging transaction", f"{_told(partition)} holds one open at {stable}; its log ends at {end}"
                )
        values = {partition: found for partition, (found, _, _) in seen.items()}
        self.committed.update(values)
        self._values = {value for found in values.values() for value in found}
        yield from self._wrong_records(values)
        for consumer in self._consumers:
            if consumer.seen != values[consumer.partition]:
                yield Problem(
                    "unrepeatable read",
                    f"the consumer of {_told(consumer.partition)} has seen something else",
                )
        yield from self._of_logs()
        if not self._days_pass:
            yield from self._wrong_offsets()
        yield from self._of_the_remade()

    def _of_the_remade(self) -> Iterator[Problem]:
        """A topic that was deleted and made again has only records since then, each committed record once."""
        if self._world.nodes[self._world.spec.controller_id].image.topic(REMADE) is None:
            return
        found, stable, end = read_committed(self._world, (REMADE, 0))
        if stable != end:
            yield Problem("hanging transaction", f"{REMADE}-0 holds one open at {stable}; its log ends at {end}")
        outcomes = {
            value: transaction.outcome
            for transaction in self._journal
            for values in transaction.elsewhere.values()
            for value in values
        }
        deleted = {
            value
            for transaction in self._journal
            for value, at in transaction.told_elsewhere.items()
            if at < self._deleted_at
        }
        for value, times in Counter(found).items():
            if value is None or value not in outcomes or times > 1:
                yield Problem("wrong records", f"{value!r} stands {counted(times, 'time')} in {REMADE}-0")
            elif value in deleted:
                yield Problem("wrong records", f"{value!r} was deleted with {REMADE}, and stands there again")
            elif outcomes[value] == "aborted":
                yield Problem("aborted read", f"{value!r} was aborted, and is seen in {REMADE}-0")

    def without_rest(self) -> Iterator[Problem]:
        """The checks that also apply to a run that does not come to rest, where final reads are unknown."""
        yield from self.open_ends()
        yield from self._of_logs()

    def _of_logs(self) -> Iterator[Problem]:
        yield from self._older_leaders()
        yield from self._wrong_places()
        yield from self._mixed_transactions()
        yield from self._late_records()
        yield from self._gaps()
        yield from self._refused_retries()
        yield from self._shut_out()
        yield from self._wrong_markers()
        yield from self._open_for_too_long()

    def _older_leaders(self) -> Iterator[Problem]:
        """Leader epochs grow along each log, also in those of coordinators."""
        for log in self._world.store.logs():
            last = -1
            for batch in log.batches():
                if batch.partition_leader_epoch < last:
                    where = f"{log.topic}-{log.index} at {batch.base_offset}"
                    yield Problem("older leader", f"{where} is of epoch {batch.partition_leader_epoch}, behind {last}")
                    break
                last = batch.partition_leader_epoch

    def _open_for_too_long(self) -> Iterator[Problem]:
        """A coordinator that is not replaced aborts transactions that are open beyond their timeout (KIP-98)."""
        opened: dict[str, tuple[int, int]] = {}
        longest_ms = self._timeout_ms + TIMEOUT_CHECKS_MS + (SLOWNESS_MS if self._stands_still else WORK_MS)
        for at, (node_id, fact) in zip(self._world.fact_times, self._world.facts, strict=True):
            fields: Fields = fact.fields
            if fact.kind == "leadership_taken" and fields["topic"] == CoordinatorKind.TRANSACTION.topic:
                opened.clear()
            if fact.kind != "state_change":
                continue
            name = fields["transactional_id"]
            if fields["state_to"] == TxnState.ONGOING.title:
                opened[name] = at, node_id
                continue
            began, by = opened.pop(name, (at, node_id))
            is_late = by == node_id and at - began > longest_ms and self._timeout_ms < LONG_MS
            # A coordinator cannot abort while its log has too few replicas in sync.
            if is_late and at - self._too_few_until(at) > longest_ms:
                yield Problem("unfinished transaction", f"{name} had one open for {at - began} ms")

    def _too_few_until(self, at: int) -> int:
        """When, before `at`, too few brokers ran for coordinators to write; the last such time, 0 if never."""
        world = self._world
        needed = min(len(world.nodes), world.config.transaction_state_log_min_isr)
        until, few = 0, False
        for changed_at, count in world.populations:
            if changed_at > at:
                break
            if few:
                until = changed_at
            few = count < needed
        return at if few else until

    def open_ends(self) -> Iterator[Problem]:
        """Requests, transactions and markers that the brokers have not finished."""
        for node in self._world.nodes.values():
            if len(node.purgatory):
                yield Problem("unfinished request", f"broker {node.node_id} still has requests parked")
            for shard in node.transaction_coordinators.led():
                for entry in shard.machine.entries():
                    if entry.state not in RESTING:
                        yield Problem("unfinished transaction", f"{entry.transactional_id} is in {entry.state.title}")
                if shard.machine.transactions_owing_markers:
                    yield Problem("unfinished transaction", f"broker {node.node_id} owes markers")
            for (topic, index), partition in node.partitions.items():
                if partition.last_stable_offset != partition.high_watermark:
                    yield Problem("hanging transaction", f"a transaction is open in {topic}-{index}")

    def _wrong_records(self, values: dict[TopicPartition, list[bytes | None]]) -> Iterator[Problem]:
        """Each transaction is there whole or not at all, as its producer was told; in order and without duplicates."""
        expected: dict[TopicPartition, list[bytes]] = {partition: [] for partition in PARTITIONS}
        for transaction in self._journal:
            if not transaction.values:
                continue
            is_seen = self._is_seen(transaction)
            name = f"{transaction.producer}/{transaction.number}"
            if transaction.outcome == "committed" and not is_seen:
                yield Problem("lost write", f"{name} was committed, and is missing")
            if transaction.outcome == "aborted" and is_seen:
                yield Problem("aborted read", f"{name} was aborted, and is seen")
            if is_seen:
                for partition, written in transaction.values.items():
                    expected[partition] += written
        for partition, found in values.items():
            if sorted(expected[partition]) != sorted(value or b"" for value in found):
                yield Problem(
                    "wrong records", f"{_told(partition)} has other records than those of committed transactions"
                )
            sent, read = _by_producer(expected[partition]), _by_producer(found)
            for producer in self._producers:
                own = producer.name.encode()
                if sent.get(own, []) != read.get(own, []):
                    yield Problem("reordered write", f"records of {producer.name} in {_told(partition)} changed places")

    def _wrong_places(self) -> Iterator[Problem]:
        """Each batch is at the offset in its acknowledgement, also in that of a retry."""
        found: dict[tuple[TopicPartition, int], list[bytes | None]] = {
            (key, batch.base_offset): self._values_of(batch)
            for key, batches in self._logs(PARTITIONS)
            for batch in batches
        }
        for transaction in self._journal:
            for partition, offset, values in transaction.told:
                if found.get((partition, offset)) != values:
                    yield Problem(
                        "wrong offset",
                        f"{transaction.producer} was told offset {offset} of {_told(partition)} for other records",
                    )

    def _late_records(self) -> Iterator[Problem]:
        """No batch of an older client is written after the end of the transaction that it was sent in (KIP-890)."""
        over = {pair: ends for producer in self._producers for pair, ends in producer.over.items()}
        for key, batches in self._logs(PARTITIONS):
            for batch in batches:
                ends = over.get((batch.producer_id, batch.producer_epoch))
                if not batch.is_control and ends is not None and batch.base_offset >= ends[key]:
                    yield Problem(
                        "late record", f"{_told(key)} holds records at {batch.base_offset} that came too late"
                    )

    def _mixed_transactions(self) -> Iterator[Problem]:
        """All batches between two markers of a producer were sent in one transaction."""
        for key, batches in self._logs(PARTITIONS):
            open_with: dict[int, bytes] = {}
            for batch in batches:
                if batch.is_control:
                    open_with.pop(batch.producer_id, None)
                if not batch.is_transactional or batch.is_control:
                    continue
                # A value begins with the name of its producer and the number of its transaction.
                sent_in = b"/".join((self._values_of(batch)[0] or b"").split(b"/")[:2])
                joined = open_with.setdefault(batch.producer_id, sent_in)
                if joined != sent_in:
                    yield Problem(
                        "mixed transaction",
                        f"{_told(key)} holds a record of {sent_in.decode()} at {batch.base_offset}, "
                        f"in transaction {joined.decode()}",
                    )

    def _gaps(self) -> Iterator[Problem]:
        """Each epoch of a producer begins at sequence 0, and no batch overtakes an earlier one.

        Three leaders take any sequence first: one that takes over and has no state of an older producer (KIP-360), one
        in whose place a rule has refused the first batch, and any leader of a producer without transactions.
        """
        older = {each.pair for each in self._journal if each.style == "old"}
        for key, batches in self._logs(PARTITIONS):
            expected: dict[tuple[int, int], int] = {}
            heard: set[int] = set()
            for batch in batches:
                if batch.is_control:
                    continue
                pair = batch.producer_id, batch.producer_epoch
                is_unheard = (pair not in expected or self._forgets) and (
                    (pair in older and (batch.partition_leader_epoch > 0 or self._refuses or self._forgets))
                    or (not batch.is_transactional and pair[0] not in heard)
                )
                heard.add(pair[0])
                if batch.base_sequence != expected.get(pair, 0) and not is_unheard:
                    found, missing = batch.base_sequence, expected.get(pair, 0)
                    yield Problem("gap", f"{_told(key)} has sequence {found} of {pair} where {missing} belongs")
                expected[pair] = batch.last_sequence + 1

    def _shut_out(self) -> Iterator[Problem]:
        """A producer that could end a transaction was not told in it that no transaction is open.

        Two cases are exempt, in Kafka too: a marker that is late by two transactions takes the guard of a producer,
        and so does a batch of the last transaction that was verified in time and is written while the next one is
        verified, because a producer has one guard for both. The transaction is aborted then, and no harm is done.
        """
        written: Counter[tuple[TopicPartition, int, int]] = Counter(
            (key, batch.producer_id, batch.producer_epoch)
            for key, batches in self._logs(PARTITIONS)
            for batch in batches
            if batch.is_control
        )
        for transaction in self._journal:
            is_excused = any(
                count > 1 and key in transaction.shut_out and producer_id == transaction.pair[0]
                for (key, producer_id, epoch), count in written.items()
                if epoch < transaction.pair[1]
            )
            if transaction.shut_out and transaction.outcome == "aborted" and not is_excused:
                if all((key, *transaction.pair) in self._guards_taken() for key in transaction.shut_out):
                    continue
                where = _told(transaction.shut_out[0])
                yield Problem("shut out", f"{where} had no room for {transaction.producer}/{transaction.number}")

    def _guards_taken(self) -> set[tuple[TopicPartition, int, int]]:
        """(Partition, producer id, epoch) where a batch of an older epoch was written while this one was verified."""
        asked: dict[tuple[TopicPartition, int], set[int]] = {}
        taken: set[tuple[TopicPartition, int, int]] = set()
        for _, fact in self._world.facts:
            if fact.kind not in ("verify_start", "transaction_opened"):
                continue
            fields: Fields = fact.fields
            key, producer_id, epoch = (
                (fields["topic"], fields["partition"]),
                fields["producer_id"],
                fields["producer_epoch"],
            )
            epochs = asked.setdefault((key, producer_id), set())
            if fact.kind == "verify_start":
                epochs.add(epoch)
            else:
                taken |= {(key, producer_id, each) for each in epochs if each > epoch}
        return taken

    def _refused_retries(self) -> Iterator[Problem]:
        """A retry of a batch that is in the log is not refused as out of order."""
        written = {
            (key, batch.producer_id, batch.producer_epoch, batch.base_sequence)
            for key, batches in self._logs(PARTITIONS)
            for batch in batches
            if not batch.is_control
        }
        for transaction in self._journal:
            for key, sequence in transaction.refused:
                if (key, *transaction.pair, sequence) in written:
                    said = f"{transaction.producer} was refused sequence {sequence}, which is in {_told(key)}"
                    yield Problem("refused retry", said)

    def _is_seen(self, transaction: Transaction) -> bool:
        return any(value in self._values for written in transaction.values.values() for value in written)

    def _counts(self, transaction: Transaction) -> bool | None:
        """Whether it was committed. None if unknown: it has no records, and its producer had no answer."""
        if transaction.values:
            return self._is_seen(transaction)
        return {"committed": True, "aborted": False}.get(transaction.outcome)

    def _wrong_markers(self) -> Iterator[Problem]:
        """If epochs identify transactions, each partition has the marker that the coordinator decided on."""
        decided = self._decisions()
        told = {each.pair for each in self._journal if each.style == "new"}
        for transaction in self._journal:
            if transaction.style != "new" or transaction.pair not in decided:
                continue
            commit = decided[transaction.pair]
            if transaction.outcome != "unknown" and commit is not (transaction.outcome == "committed"):
                said = f"{transaction.producer}/{transaction.number} was told {transaction.outcome}"
                yield Problem("wrong outcome", said)
        for key, batches in self._logs(PARTITIONS):
            for batch in batches:
                if not batch.is_control:
                    continue
                pair = batch.producer_id, batch.producer_epoch - 1
                if pair in told and pair in decided and (kind_of(batch) == "COMMIT") is not decided[pair]:
                    yield Problem("wrong marker", f"{_told(key)} has the wrong marker at {batch.base_offset}")

    def _decisions(self) -> dict[tuple[int, int], bool]:
        """True for commit, by producer id and epoch, for transactions that bumped their epoch."""
        decided: dict[tuple[int, int], bool] = {}
        log = [(CoordinatorKind.TRANSACTION.topic, index) for index in range(3)]
        decode = rules_of(self._world.config.release).value.decode
        for _, batches in self._logs(log):
            for batch in batches:
                for record in iterate_records(batch):
                    entry = None if record.value is None else decode("", record.value)
                    if entry is not None and entry.state in PREPARED and entry.client_transaction_version == 2:
                        pair = entry.producer_id, entry.producer_epoch - 1
                        decided[pair] = entry.state is TxnState.PREPARE_COMMIT
        return decided

    def _logs(self, keys: list[TopicPartition]) -> Iterator[tuple[TopicPartition, list[Batch]]]:
        """The batches of these partitions; their logs do not change any more."""
        for key in keys:
            if key not in self._read:
                partition = self._partition(key)
                if partition is None:
                    continue
                self._read[key] = list(partition.log.batches())
            yield key, self._read[key]

    def _partition(self, key: TopicPartition) -> Partition | None:
        for node in self._world.nodes.values():
            if key in node.partitions:
                return node.partitions[key]
        return None

    def _values_of(self, batch: Batch) -> list[bytes | None]:
        """The values of a batch's records; they are decoded once."""
        values = self._values_at.get(id(batch))
        if values is None:
            values = self._values_at[id(batch)] = [record.value for record in iterate_records(batch)]
        return values

    def _wrong_offsets(self) -> Iterator[Problem]:
        """The offset of a group is that of its last committed transaction."""
        works = [(each.work, self._counts(each)) for each in self._journal if each.work is not None]
        done = sorted(number for number, counts in works if counts)
        perhaps = {number for number, counts in works if counts is None}
        found = max(0, self._offset(WORK_GROUP))
        if len(set(done)) < len(done) or not set(range(found)) <= {*done, *perhaps}:
            yield Problem("work not done once", f"numbers were worked on never or twice: {done}")
        if any(number >= found for number in done):
            yield Problem("wrong group offset", f"{WORK_GROUP} is at {found}, and {done[-1]} was worked on")
        for producer in self._producers:
            own = [each for each in self._journal if each.producer == producer.name and each.with_offset]
            expected = max((each.number for each in own if self._counts(each)), default=-1)
            later = {each.number for each in own if each.number > expected and self._counts(each) is None}
            found = self._offset(producer.group)
            if found not in {expected, *later}:
                yield Problem(
                    "wrong group offset",
                    f"{producer.group} is at {found} after transaction {expected}",
                )

    def _offset(self, group: str) -> int:
        result = offset_at_rest(self._world, group)
        assert result.error_code == ErrorCode.NONE, ErrorCode(result.error_code)
        return result.committed_offset


def _by_producer(values: Iterable[bytes | None]) -> dict[bytes, list[bytes]]:
    """Values in order, by the name of their producer, with which they begin."""
    found: dict[bytes, list[bytes]] = {}
    for value in values:
        if value is not None:
            found.setdefault(value.partition(b"/")[0], []).append(value)
    return found


def _told(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"
