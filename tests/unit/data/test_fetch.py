"""Fetch: limits, waiting, sessions, and leaders that move."""

import pytest
from tests.unit.host.helpers import batch, fetch_request, only_fetched, produce_request, topic_id

from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch_request import ForgottenTopic
from odradek.wire.messages.fetch_response import FetchResponse, PartitionData


def fetched_partitions(response: FetchResponse) -> list[int]:
    return [partition.partition_index for topic in response.responses for partition in topic.partitions]


def test_what_was_produced_is_fetched_as_it_is() -> None:
    client = World(topics=["t"]).client()
    client.ask(produce_request(batch(b"a", b"b")), 9)
    got = only_fetched(client.ask(fetch_request((0, 0)), 11))
    assert got.records is not None
    assert batch(b"a", b"b")[21:] == bytes(got.records)[21:]
    assert (2, 2, 0) == (got.high_watermark, got.last_stable_offset, got.log_start_offset)


def test_an_offset_out_of_range() -> None:
    got = only_fetched(World(topics=["t"]).client().ask(fetch_request((0, 5)), 11))
    assert ErrorCode.OFFSET_OUT_OF_RANGE == got.error_code


def test_a_fetch_waits_until_there_is_something() -> None:
    world = World(topics=["t"])
    reader, writer = world.client(), world.client()
    answer = reader.send(fetch_request((0, 0), max_wait_ms=500), 11)
    world.advance(300)
    assert not answer.arrived
    writer.ask(produce_request(batch(b"a")), 9)
    assert only_fetched(answer.response).records


def test_a_fetch_waits_no_longer_than_it_was_told() -> None:
    world = World(topics=["t"])
    answer = world.client().send(fetch_request((0, 0), max_wait_ms=500), 11)
    world.advance(499)
    assert not answer.arrived
    world.advance(1)
    assert not only_fetched(answer.response).records


def test_a_fetch_waits_for_min_bytes() -> None:
    world = World(topics=["t"])
    reader, writer = world.client(), world.client()
    size = len(batch(b"a"))
    answer = reader.send(fetch_request((0, 0), max_wait_ms=500, min_bytes=2 * size), 11)
    writer.ask(produce_request(batch(b"a")), 9)
    assert not answer.arrived
    writer.ask(produce_request(batch(b"b")), 9)
    assert 2 * size == len(only_fetched(answer.response).records or b"")


def test_an_error_is_answered_at_once() -> None:
    world = World(topics=["t:2"])
    answer = world.client().send(fetch_request((0, 0), (1, 7), max_wait_ms=500), 11)
    world.run()
    assert ErrorCode.OFFSET_OUT_OF_RANGE == answer.response.responses[0].partitions[1].error_code


def test_a_partition_that_is_not_there_lets_a_fetch_wait_for_the_others() -> None:
    world = World(topics=["t:1"])
    answer = world.client().send(fetch_request((9, 0), (0, 0), max_wait_ms=500), 11)
    world.advance(499)
    assert not answer.arrived
    world.advance(1)
    assert [0, 9] == fetched_partitions(answer.response)
    alone = world.client().send(fetch_request((9, 0), max_wait_ms=500), 11)
    world.run()
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION == only_fetched(alone.response).error_code


def test_the_first_batch_comes_whole_even_above_the_limits() -> None:
    client = World(topics=["t"]).client()
    large = batch(b"x" * 5000)
    client.ask(produce_request(large), 9)
    got = only_fetched(client.ask(fetch_request((0, 0), max_bytes=10, partition_max_bytes=10), 11))
    assert len(large) == len(got.records or b"")


def test_the_limit_of_the_response_holds_for_the_partitions_behind() -> None:
    client = World(topics=["t:2"]).client()
    for partition in (0, 1):
        client.ask(produce_request(batch(b"x" * 1000), partition=partition), 9)
    response = client.ask(fetch_request((0, 0), (1, 0), max_bytes=500), 11)
    assert [True, False] == [bool(each.records) for each in response.responses[0].partitions]


def test_what_is_behind_the_first_batch_is_cut_at_the_limits() -> None:
    """KIP-74: a fetch is a slice of the log; only the first batch of the whole response is not cut."""
    client = World(topics=["t:2"]).client()
    size = 0
    for partition in (0, 0, 1, 1):
        large = batch(b"x" * 1000)
        size = len(large)
        client.ask(produce_request(large, partition=partition), 9)

    def lengths(*, max_bytes: int = 1 << 20, partition_max_bytes: int = 1 << 20) -> list[int]:
        request = fetch_request((0, 0), (1, 0), max_bytes=max_bytes, partition_max_bytes=partition_max_bytes)
        answer = client.ask(request, 11)
        return [len(each.records or b"") for each in answer.responses[0].partitions]

    assert [2 * size, 2 * size] == lengths()
    assert [size + 10, size + 10] == lengths(partition_max_bytes=size + 10)
    assert [2 * size, size + 5] == lengths(max_bytes=3 * size + 5)
    assert [2 * size, 0] == lengths(max_bytes=3 * size - 5)
    assert [size, 0] == lengths(partition_max_bytes=1)


def test_who_waits_for_bytes_is_content_with_a_batch_that_is_cut() -> None:
    world = World(topics=["t"])
    client = world.client()
    large = batch(b"x" * 1000)
    for _ in range(2):
        client.ask(produce_request(large), 9)
    limit = len(large) + 100
    got = client.ask(fetch_request((0, 0), max_wait_ms=500, min_bytes=limit, partition_max_bytes=limit), 11)
    assert limit == len(only_fetched(got).records or b"")


def test_a_client_that_goes_away_leaves_nothing_in_the_purgatory() -> None:
    world = World(topics=["t"])
    client = world.client()
    client.send(fetch_request((0, 0), max_wait_ms=500), 11)
    world.run()
    assert 1 == len(world.nodes[1].purgatory)
    client.close()
    world.run()
    assert 0 == len(world.nodes[1].purgatory)


def test_a_fetch_that_waits_learns_that_the_leader_moved() -> None:
    world = World(brokers=2, topics=["t"])
    partition = world.nodes[1].image.partition("t", 0)
    assert partition is not None
    request = fetch_request((0, 0), max_wait_ms=500)
    request.topics[0].partitions[0].current_leader_epoch = partition.leader_epoch
    older = world.client(partition.leader).send(fetch_request((0, 0), max_wait_ms=500), 10)
    newer = world.client(partition.leader).send(request, 11)
    world.run()
    world.move_leader("t", 0, to=3 - partition.leader)
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == only_fetched(older.response).error_code
    assert ErrorCode.FENCED_LEADER_EPOCH == only_fetched(newer.response).error_code


def parted(epoch: int, offset: int, *, last_fetched: int, max_wait_ms: int = 0) -> PartitionData:
    """What who has read up to an offset, the last of it in this epoch, is told by a leader in its epoch 1.

    It has two records of epoch 0 and two of epoch 1.
    """
    world = World(topics=["t"])
    client = world.client()
    client.ask(produce_request(batch(b"a", b"b")), 9)
    world.move_leader("t", 0, 1)
    client.ask(produce_request(batch(b"c", b"d")), 9)
    request = fetch_request((0, offset), max_wait_ms=max_wait_ms)
    request.topics[0].partitions[0].last_fetched_epoch = last_fetched
    request.topics[0].partitions[0].current_leader_epoch = epoch
    return only_fetched(client.ask(request, 12))


def test_a_reader_beyond_the_end_of_its_epoch_is_told_where_it_parted() -> None:
    told = parted(1, 3, last_fetched=0)
    assert told.error_code == ErrorCode.NONE
    assert (told.diverging_epoch.epoch, told.diverging_epoch.end_offset) == (0, 2)
    assert not told.records
    assert (told.high_watermark, told.last_stable_offset, told.log_start_offset) == (4, 4, 0)


def test_it_is_told_so_beyond_the_end_of_the_log_too() -> None:
    told = parted(1, 9, last_fetched=1)
    assert told.error_code == ErrorCode.NONE
    assert (told.diverging_epoch.epoch, told.diverging_epoch.end_offset) == (1, 4)


def test_it_does_not_wait_for_that() -> None:
    assert parted(1, 9, last_fetched=1, max_wait_ms=500).diverging_epoch.epoch == 1


def test_a_reader_that_is_where_its_epoch_ends_reads_on() -> None:
    told = parted(1, 2, last_fetched=0)
    assert told.diverging_epoch.epoch == -1
    assert told.records


def test_an_epoch_in_which_the_leader_has_nothing_parts_where_the_one_before_ends() -> None:
    world = World(topics=["t"])
    client = world.client()
    client.ask(produce_request(batch(b"a", b"b")), 9)
    world.move_leader("t", 0, 1)
    world.move_leader("t", 0, 1)
    client.ask(produce_request(batch(b"c")), 9)
    request = fetch_request((0, 2))
    request.topics[0].partitions[0].last_fetched_epoch = 1
    told = only_fetched(client.ask(request, 12))
    assert (told.diverging_epoch.epoch, told.diverging_epoch.end_offset) == (0, 2)


def test_an_epoch_that_is_not_known_is_out_of_range() -> None:
    assert parted(1, 2, last_fetched=7).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_session_tells_of_epochs_that_part() -> None:
    world = World(topics=["t"])
    client = world.client()
    client.ask(produce_request(batch(b"a")), 9)
    world.move_leader("t", 0, 1)
    client.ask(produce_request(batch(b"b")), 9)
    opened = client.ask(fetch_request((0, 2), session_epoch=0), 12)
    again = fetch_request((0, 2), session_id=opened.session_id, session_epoch=1)
    again.topics[0].partitions[0].last_fetched_epoch = 0
    assert only_fetched(client.ask(again, 12)).diverging_epoch.end_offset == 1


def test_a_topic_that_is_named_twice_is_answered_twice_in_the_order_of_the_request() -> None:
    client = World(topics=["t:3", "u"]).client()
    request = fetch_request((2, 0))
    request.topics += [*fetch_request((0, 0), topic="u").topics, *fetch_request((0, 0), (1, 0)).topics]
    answered = [
        (topic.topic, [each.partition_index for each in topic.partitions])
        for topic in client.ask(request, 11).responses
    ]
    assert answered == [("t", [2]), ("u", [0]), ("t", [0, 1])]


@pytest.mark.parametrize(
    ("as_kafka", "version", "error"),
    [
        (None, 9, ErrorCode.NONE),
        ("4.4", 9, ErrorCode.NONE),
        ("4.0", 4, ErrorCode.NONE),
        (None, 3, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ("3.9", 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ("3.9", 10, ErrorCode.NONE),
    ],
)
def test_old_fetches_of_a_topic_with_zstd(as_kafka: str | None, version: int, error: ErrorCode) -> None:
    release = {"odradek.as.kafka": as_kafka} if as_kafka else {}
    client = World(topics=["t"], config={"compression.type": "zstd", **release}).client()
    assert only_fetched(client.ask(fetch_request((0, 0)), version)).error_code == error


class TestSessions:
    """KIP-227."""

    def open(self, world: World) -> tuple[FetchResponse, bytes]:
        the_id = topic_id(world)
        opened = world.client().ask(fetch_request((0, 0), (1, 0), topic_id=the_id, session_epoch=0), 13)
        assert isinstance(opened, FetchResponse)
        return opened, the_id

    def test_the_first_fetch_opens_a_session_and_lists_every_partition(self) -> None:
        opened, _ = self.open(World(topics=["t:2"]))
        assert 0 != opened.session_id
        assert [0, 1] == fetched_partitions(opened)

    def test_without_news_an_incremental_fetch_is_empty(self) -> None:
        world = World(topics=["t:2"])
        opened, _ = self.open(world)
        response = world.client().ask(fetch_request(session_id=opened.session_id, session_epoch=1), 13)
        assert [] == response.responses

    def test_only_partitions_with_news_are_listed(self) -> None:
        world = World(topics=["t:2"])
        opened, _ = self.open(world)
        world.client().ask(produce_request(batch(b"a"), partition=1), 9)
        response = world.client().ask(fetch_request(session_id=opened.session_id, session_epoch=1), 13)
        assert [1] == fetched_partitions(response)

    def test_a_forgotten_partition_is_not_listed_any_more(self) -> None:
        world = World(topics=["t:2"])
        opened, the_id = self.open(world)
        world.client().ask(produce_request(batch(b"a"), partition=1), 9)
        request = fetch_request(session_id=opened.session_id, session_epoch=1)
        request.forgotten_topics_data = [ForgottenTopic(topic_id=the_id, partitions=[1])]
        assert [] == world.client().ask(request, 13).responses

    def test_an_unknown_session(self) -> None:
        response = World(topics=["t"]).client().ask(fetch_request(session_id=99, session_epoch=1), 13)
        assert ErrorCode.FETCH_SESSION_ID_NOT_FOUND == response.error_code

    def test_a_wrong_epoch(self) -> None:
        world = World(topics=["t:2"])
        opened, _ = self.open(world)
        response = world.client().ask(fetch_request(session_id=opened.session_id, session_epoch=5), 13)
        assert ErrorCode.INVALID_FETCH_SESSION_EPOCH == response.error_code

    def test_mixing_names_and_ids(self) -> None:
        world = World(topics=["t:2"])
        opened, _ = self.open(world)
        response = world.client().ask(fetch_request(session_id=opened.session_id, session_epoch=1), 12)
        assert ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR == response.error_code

    def test_the_final_epoch_closes_the_session(self) -> None:
        world = World(topics=["t:2"])
        opened, _ = self.open(world)
        world.client().ask(fetch_request(session_id=opened.session_id, session_epoch=-1), 13)
        assert 0 == len(world.nodes[1].fetch_sessions)

    def test_who_was_served_goes_behind_the_others(self) -> None:
        world = World(topics=["t:2"])
        for partition in (0, 1):
            world.client().ask(produce_request(batch(b"x" * 1000), partition=partition), 9)
        the_id = topic_id(world)
        opened = world.client().ask(fetch_request((0, 0), (1, 0), topic_id=the_id, session_epoch=0, max_bytes=500), 13)
        served = []
        for epoch in (1, 2, 3):
            request = fetch_request(session_id=opened.session_id, session_epoch=epoch, max_bytes=500)
            served.append(fetched_partitions(world.client().ask(request, 13)))
        assert [[0], [1], [0]] == served, "the first fetch moves nobody"

    @pytest.mark.parametrize(
        ("slots", "as_kafka", "opened"), [(7, None, 0), (8, None, 8), (17, None, 16), (7, "3.9", 0), (7, "3.6", 7)]
    )
    def test_the_slots_are_divided_among_shards(self, slots: int, as_kafka: str | None, opened: int) -> None:
        release = {"odradek.as.kafka": as_kafka} if as_kafka else {}
        world = World(topics=["t:2"], config={"max.incremental.fetch.session.cache.slots": slots, **release})
        request = fetch_request((0, 0), session_epoch=0)
        ids = {world.client().ask(request, 12).session_id for _ in range(20)}
        assert opened == len(ids - {0}) == len(world.nodes[1].fetch_sessions)

    def test_a_session_that_goes_on_overtakes_a_fetch_that_waits(self) -> None:
        world = World(topics=["t:2"])
        opened, _ = self.open(world)
        waiting = world.client().send(fetch_request(session_id=opened.session_id, session_epoch=1, max_wait_ms=500), 13)
        world.client().ask(fetch_request(session_id=opened.session_id, session_epoch=2), 13)
        world.advance(500)
        assert (ErrorCode.INVALID_FETCH_SESSION_EPOCH, opened.session_id, []) == (
            waiting.response.error_code,
            waiting.response.session_id,
            waiting.response.responses,
        )


@pytest.mark.parametrize(("version", "partitions"), [(11, 1), (13, 0)])
def test_a_session_id_outside_all_shards_fails_the_whole_request(version: int, partitions: int) -> None:
    """Kafka fails to look it up; with topic ids the response names no topic."""
    client = World(topics=["t"]).client()
    response = client.ask(fetch_request((0, 0), session_id=2**31 - 1, session_epoch=1), version)
    assert (ErrorCode.UNKNOWN_SERVER_ERROR, 2**31 - 1) == (response.error_code, response.session_id)
    assert partitions == len(fetched_partitions(response))


def test_a_session_id_that_no_session_has_is_not_found() -> None:
    response = World(topics=["t"]).client().ask(fetch_request(session_id=7, session_epoch=1), 11)
    assert ErrorCode.FETCH_SESSION_ID_NOT_FOUND == response.error_code
