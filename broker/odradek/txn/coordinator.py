"""The transaction coordinator: the machine over one partition of `__transaction_state` (KIP-98, KIP-360, KIP-890).

`checks` and the tables of `init_table` and `end_table` decide about requests; `transitions` makes the new entry; its
record
is proposed, and `Ledger.apply` adopts it when it is committed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from odradek.core.machine import Answered, Decision, Fact, Proposed, Refused
from odradek.txn import transitions
from odradek.txn.checks import Claim, Operation, epoch_relation, refusal
from odradek.txn.end_table import EndAction
from odradek.txn.entry import EPOCH_LAST_USABLE, EPOCH_MAX, NONE, VALUE_VERSIONS, Entry
from odradek.txn.init_table import InitAction, init_relation, init_timeout, request_refusal
from odradek.txn.ledger import MARKER_RETRY_BACKOFF_MS, Ledger, producer_fields
from odradek.txn.listing import TransactionFilter, described
from odradek.txn.partitions import TopicPartition
from odradek.txn.states import OUTCOMES, PREPARED, Outcome, TxnState
from odradek.txn.works import MARKED, AbortTimedOut, ExpireId, WriteMarkers
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.end_txn_response import EndTxnResponse
from odradek.wire.messages.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.txn.ledger import LeaderOf
    from odradek.txn.producer_ids import ProducerIds
    from odradek.wire.messages import describe_transactions_response, list_transactions_response
    from odradek.wire.messages.end_txn_request import EndTxnRequest
    from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest

__all__ = ["TxnCoordinator"]

T = TypeVar("T")


class TxnCoordinator(Ledger):
    """One partition of `__transaction_state`, in one term of its leader.

    `tv` is the finalized transaction.version.
    """

    def __init__(self, *, config: Config, coordinator_epoch: int, leader_of: LeaderOf) -> None:
        super().__init__(config=config, coordinator_epoch=coordinator_epoch, leader_of=leader_of)
        checks = self._rules.checks
        adding = Operation.ADD_BEFORE_4_0 if config.release.fences_before_waiting else Operation.ADD
        self._adding = checks[adding]
        self.adding_waits = self._rules.waiting[adding]
        """Whether an add may wait for the end of the transaction before."""
        self._verifying = checks[Operation.VERIFY]

    def init_producer_id(
        self, request: InitProducerIdRequest, *, now: int, tv: int, ids: ProducerIds
    ) -> Decision[InitProducerIdResponse | Refused]:
        """InitProducerId with a transactional id, all versions.

        Fencing an open transaction proposes its abort, with a `Refused` as the reply.
        """
        assert request.transactional_id is not None
        refused = request_refusal(request, self._config, self._rules.request_checks)
        if refused is not None:
            return refused
        entry = self.entry(request.transactional_id)
        if request.transactional_id in self._pending or (entry is not None and entry.state in PREPARED):
            return Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
        if entry is None:
            return self._create(request, now=now, tv=tv, ids=ids)
        table = self._rules.init_keeping if request.keep_prepared_txn else self._rules.init
        answer = table[entry.state, init_relation(request, entry), entry.is_exhausted]
        if isinstance(answer, ErrorCode):
            return Refused(answer)
        if answer is InitAction.KEEP or answer is InitAction.KEEP_ROTATING:
            return self._keep(entry, answer, now=now, tv=tv, ids=ids)
        if answer is InitAction.ANSWER:
            return Answered(_present_pair(request, entry))
        if answer is InitAction.FENCE:
            return self._abort(entry, Refused(ErrorCode.CONCURRENT_TRANSACTIONS), now=now, tv=tv, ids=ids)
        after = self._initialised(entry, answer, request, now=now, ids=ids)
        if after is None:
            return Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self._propose_init(after, tv=tv)

    def _keep(
        self, entry: Entry, action: InitAction, *, now: int, tv: int, ids: ProducerIds
    ) -> Decision[InitProducerIdResponse | Refused]:
        """Keep the open transaction as it is, and give its owner another epoch (KIP-939)."""
        if tv < transitions.BUMPING:
            # The end of such a transaction bumps, and only this level has that.
            return Refused(ErrorCode.UNSUPPORTED_VERSION)
        next_producer_id = ids.take() if action is InitAction.KEEP_ROTATING else NONE
        if next_producer_id is None:
            return Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        after = transitions.kept(entry, next_producer_id=next_producer_id, now=now)
        reply = InitProducerIdResponse(
            producer_id=after.owner_id,
            producer_epoch=after.owner_epoch,
            ongoing_txn_producer_id=after.producer_id,
            ongoing_txn_producer_epoch=after.producer_epoch,
        )
        fact = Fact("transaction_kept", producer_fields(after) | {"owner_epoch": after.owner_epoch, "tv": tv})
        return self._propose(after, reply, tv=tv, facts=(fact,))

    def _create(
        self, request: InitProducerIdRequest, *, now: int, tv: int, ids: ProducerIds
    ) -> Decision[InitProducerIdResponse | Refused]:
        producer_id = ids.take()
        if producer_id is None:
            return Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert request.transactional_id is not None
        timeout_ms = init_timeout(request)
        return self._propose_init(
            transitions.created(request.transactional_id, producer_id, timeout_ms=timeout_ms, now=now), tv=tv
        )

    def _initialised(
        self, entry: Entry, action: InitAction, request: InitProducerIdRequest, *, now: int, ids: ProducerIds
    ) -> Entry | None:
        timeout_ms = init_timeout(request)
        match action:
            case InitAction.REPLAY:
                return transitions.replayed(entry, timeout_ms=timeout_ms, now=now)
            case InitAction.BUMP | InitAction.BUMP_KEEPING_LAST:
                keep_last = action is InitAction.BUMP_KEEPING_LAST
                return transitions.bumped(entry, timeout_ms=timeout_ms, keep_last=keep_last, now=now)
            case _:
                producer_id = ids.take()
                if producer_id is None:
                    return None
                keep_last = action is InitAction.ROTATE_KEEPING_LAST
                return transitions.rotated(entry, producer_id, timeout_ms=timeout_ms, keep_last=keep_last, now=now)

    def _propose_init(self, after: Entry, *, tv: int) -> Proposed[InitProducerIdResponse | Refused]:
        reply: InitProducerIdResponse | Refused = InitProducerIdResponse(
            producer_id=after.producer_id, producer_epoch=after.producer_epoch
        )
        fact = Fact("init_producer_id", producer_fields(after) | {"tv": tv})
        # A value of version 0 cannot say how the last transaction ended, and need not: Kafka fails here for ever.
        return self._propose(after.fitting(VALUE_VERSIONS[tv]), reply, tv=tv, facts=(fact,))

    def add_partitions(
        self,
        claim: Claim,
        partitions: Collection[TopicPartition],
        *,
        client_version: int,
        now: int,
        tv: int,
    ) -> Decision[ErrorCode | None]:
        """AddPartitionsToTxn and AddOffsetsToTxn; `client_version` is 2 if a broker adds for its client, else 0.

        The reply None means that a wait is over: the caller has to ask again.
        """
        held = self._held.get(claim.transactional_id)
        entry = None if held is None else held.entry
        refused = refusal(self._adding, claim, entry, pending=claim.transactional_id in self._pending)
        if refused is not None:
            waits = self.adding_waits and refused.error is ErrorCode.CONCURRENT_TRANSACTIONS
            return self._wait(claim.transactional_id) if waits else refused
        assert entry is not None
        present = entry.partitions
        new = [partition for partition in partitions if partition not in present] if present else partitions
        if entry.state is TxnState.ONGOING and not new:
            return Answered(ErrorCode.NONE)
        if client_version > 0 and tv == 0:
            return Refused(ErrorCode.UNSUPPORTED_VERSION)
        stored = self._rules.add_client_versions[client_version]
        after = transitions.added(entry, new, client_version=stored, now=now)
        return self._propose(after, ErrorCode.NONE, tv=tv, facts=_added_facts(after, new, tv) if self.tells else ())

    def verify_partitions(
        self, claim: Claim, partitions: Iterable[TopicPartition]
    ) -> Decision[dict[TopicPartition, ErrorCode]]:
        """AddPartitionsToTxn, verify only (KIP-890, "Ensure Ongoing Transaction for Older Clients"): adds nothing."""
        held = self._held.get(claim.transactional_id)
        entry = None if held is None else held.entry
        refused = refusal(self._verifying, claim, entry)
        if refused is not None:
            return refused
        assert entry is not None
        present = entry.partitions
        return Answered(
            {
                partition: ErrorCode.NONE if partition in present else ErrorCode.TRANSACTION_ABORTABLE
                for partition in partitions
            }
        )

    def end_txn(
        self, request: EndTxnRequest, version: int, *, now: int, tv: int, ids: ProducerIds
    ) -> Decision[EndTxnResponse]:
        """EndTxn: replies when the outcome is in the log; markers follow."""
        claim = Claim(request.transactional_id, request.producer_id, request.producer_epoch)
        rules = self._rules
        protocol = rules.bumping if version >= rules.since.end_bumps else rules.keeping
        held = self._held.get(claim.transactional_id)
        entry = None if held is None else held.entry
        pending = claim.transactional_id in self._pending
        refused = refusal(protocol.checks, claim, entry, pending=pending)
        if refused is not None:
            return refused
        assert entry is not None
        outcome = OUTCOMES[request.committed]
        answer = protocol.table[entry.state, outcome, epoch_relation(claim, entry)]
        if isinstance(answer, ErrorCode):
            return Refused(answer)
        if answer is EndAction.REPLAY:
            ended = self._rules.transitions.completed(entry, now) if entry.state in PREPARED else entry
            return Answered(_end_reply(ended, bumps=protocol.bumps))
        if not protocol.bumps:
            if entry.is_kept:
                # Its owner would not learn of the epoch that it has afterwards.
                return Refused(ErrorCode.UNSUPPORTED_VERSION)
            client_version = self._rules.end_client_versions[tv, False]
            after = transitions.prepared(entry, outcome, client_version=client_version, now=now)
            after = self._rules.transitions.ended(after, request, version)
            return self._propose(after, _end_reply(after, bumps=False), tv=tv)
        bumped = self._prepared_bumping(entry, outcome, now=now, tv=tv, ids=ids)
        if isinstance(bumped, Refused):
            return bumped
        # The client goes on with what will be once the markers are written.
        completed = self._rules.transitions.completed(bumped, now)
        return self._propose(bumped, _end_reply(completed, bumps=True), tv=tv)

    def _prepared_bumping(
        self, entry: Entry, outcome: Outcome, *, now: int, tv: int, ids: ProducerIds
    ) -> Entry | Refused:
        owner_epoch = entry.producer_epoch if entry.next_producer_epoch == NONE else entry.owner_epoch
        exhausted = owner_epoch >= EPOCH_LAST_USABLE
        if owner_epoch == EPOCH_MAX and outcome is Outcome.COMMIT:
            return Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        if tv == 0:
            return Refused(ErrorCode.UNSUPPORTED_VERSION)
        next_producer_id = ids.take() if exhausted else NONE
        if next_producer_id is None:
            return Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        client_version = self._rules.end_client_versions[tv, True]
        return transitions.prepared_bumping(
            entry, outcome, next_producer_id=next_producer_id, client_version=client_version, now=now
        )

    def _abort(self, entry: Entry, reply: T, *, now: int, tv: int, ids: ProducerIds) -> Refused | Proposed[T]:
        """Abort an open transaction and fence its owner; the finalized level decides how, not the client's version."""
        after: Entry | Refused
        # What was kept at level 2 ends with a bump at every other, too: its owner's epoch has to be left behind.
        if tv >= transitions.BUMPING or entry.is_kept:
            after = self._prepared_bumping(entry, Outcome.ABORT, now=now, tv=tv, ids=ids)
        else:
            after = transitions.fenced(entry, now=now)
        if isinstance(after, Refused):
            return after
        return self._propose(after, reply, tv=tv, facts=(Fact("fenced", producer_fields(after) | {"tv": tv}),))

    def complete(
        self,
        work: WriteMarkers,
        results: Mapping[TopicPartition, ErrorCode],
        *,
        now: int,
        tv: int,
    ) -> Decision[None]:
        """Adopt the results of a work, empty if its call was lost; after the last one the transaction is complete."""
        held = self._held.get(work.transactional_id)
        if held is None or held.offset != work.offset:
            return Answered(None)
        all_done = True
        for partition in work.partitions:
            if work.leader is not None and results.get(partition) not in MARKED:
                all_done = False
            elif partition in held.owing:
                del held.owing[partition]
        if held.owing and all_done:
            return Answered(None)
        # Even when all is done: should the record that says so be lost, it is proposed again.
        self._deadlines.put(work.transactional_id, now + MARKER_RETRY_BACKOFF_MS)
        if held.owing or work.transactional_id in self._pending:
            return Answered(None)
        completed = self._rules.transitions.completed(held.entry, now)
        # In Kafka none are left; where the next transaction is open at once, it has some from its beginning.
        facts = _added_facts(completed, completed.partitions, tv) if self.tells else ()
        return self._propose(completed.fitting(VALUE_VERSIONS[tv]), None, tv=tv, facts=facts)

    def abort_timed_out(self, work: AbortTimedOut, *, now: int, tv: int, ids: ProducerIds) -> Decision[None]:
        """Abort a transaction that has timed out; if that fails, it is tried again later."""
        held = self._held.get(work.transactional_id)
        if held is None or held.offset != work.offset:
            return Answered(None)
        interval_ms = self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._deadlines.put(work.transactional_id, now + interval_ms)
        if work.transactional_id in self._pending:
            return Answered(None)
        return self._abort(held.entry, None, now=now, tv=tv, ids=ids)

    def expire(self, work: ExpireId, *, now: int) -> Decision[None]:
        """Forget an id that was not used for transactional.id.expiration.ms."""
        held = self._held.get(work.transactional_id)
        if held is None or held.offset != work.offset:
            return Answered(None)
        interval_ms = self._config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._deadlines.put(work.transactional_id, now + interval_ms)
        if work.transactional_id in self._pending:
            return Answered(None)
        return self._propose_removal(work.transactional_id, None)

    def describe(self, transactional_id: str) -> Decision[describe_transactions_response.TransactionState]:
        """DescribeTransactions of one id."""
        if not transactional_id:
            return Refused(ErrorCode.INVALID_REQUEST)
        held = self._held.get(transactional_id)
        if held is None:
            beginning = self.beginning(transactional_id)
            if beginning is None:
                return Refused(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
            return Answered(described(beginning, ()))
        return Answered(described(held.entry, held.owing if held.entry.state in PREPARED else held.entry.partitions))

    def listed(self, wanted: TransactionFilter, *, now: int) -> Iterator[list_transactions_response.TransactionState]:
        """ListTransactions: the entries of this partition."""
        beginning = (entry for each in self._pending if (entry := self.beginning(each)) is not None)
        return wanted.listed(chain(self.entries(), beginning), now=now)


def _added_facts(entry: Entry, partitions: Iterable[TopicPartition], tv: int) -> tuple[Fact, ...]:
    return tuple(
        Fact("partitions_added", producer_fields(entry) | {"topic": topic, "partition": index, "tv": tv})
        for topic, index in partitions
    )


def _present_pair(request: InitProducerIdRequest, entry: Entry) -> InitProducerIdResponse:
    """The owner's id and epoch; with a kept transaction, those of the transaction as well (KIP-939)."""
    response = InitProducerIdResponse(producer_id=entry.owner_id, producer_epoch=entry.owner_epoch)
    if request.keep_prepared_txn and entry.state is TxnState.ONGOING:
        response.ongoing_txn_producer_id = entry.producer_id
        response.ongoing_txn_producer_epoch = entry.producer_epoch
    return response


def _end_reply(entry: Entry, *, bumps: bool) -> EndTxnResponse:
    if not bumps:
        return EndTxnResponse()
    return EndTxnResponse(producer_id=entry.producer_id, producer_epoch=entry.producer_epoch)
