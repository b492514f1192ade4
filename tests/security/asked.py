"""One request of each API that asks for a permission, about things that are there: what who may not do it is told.

`hidden` is a topic of which alice may do nothing, `seen` one that she may only describe, `open-1` one with a name that
begins as her prefixed permissions do, and `barred` one where everybody but she may do everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from odradek.records.record import Record, build_batch
from odradek.wire.messages import (
    add_offsets_to_txn_request,
    add_partitions_to_txn_request,
    add_raft_voter_request,
    alter_client_quotas_request,
    alter_configs_request,
    alter_partition_reassignments_request,
    alter_replica_log_dirs_request,
    alter_share_group_offsets_request,
    consumer_group_describe_request,
    consumer_group_heartbeat_request,
    create_acls_request,
    create_partitions_request,
    create_topics_request,
    delete_acls_request,
    delete_groups_request,
    delete_records_request,
    delete_share_group_offsets_request,
    delete_share_group_state_request,
    delete_topics_request,
    describe_acls_request,
    describe_client_quotas_request,
    describe_cluster_request,
    describe_configs_request,
    describe_groups_request,
    describe_log_dirs_request,
    describe_producers_request,
    describe_quorum_request,
    describe_share_group_offsets_request,
    describe_topic_partitions_request,
    describe_transactions_request,
    describe_user_scram_credentials_request,
    elect_leaders_request,
    end_txn_request,
    fetch_request,
    find_coordinator_request,
    heartbeat_request,
    incremental_alter_configs_request,
    init_producer_id_request,
    initialize_share_group_state_request,
    join_group_request,
    leave_group_request,
    list_config_resources_request,
    list_groups_request,
    list_offsets_request,
    list_partition_reassignments_request,
    list_transactions_request,
    metadata_request,
    offset_commit_request,
    offset_delete_request,
    offset_fetch_request,
    offset_for_leader_epoch_request,
    produce_request,
    read_share_group_state_request,
    read_share_group_state_summary_request,
    remove_raft_voter_request,
    share_acknowledge_request,
    share_fetch_request,
    share_group_describe_request,
    share_group_heartbeat_request,
    streams_group_describe_request,
    streams_group_heartbeat_request,
    streams_group_topology_description_update_request,
    sync_group_request,
    txn_offset_commit_request,
    unregister_broker_request,
    unregister_controller_request,
    update_features_request,
    write_share_group_state_request,
    write_txn_markers_request,
)
from odradek.wire.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)

__all__ = ["ASKED", "GROUP", "TOPICS", "TRANSACTIONAL_ID", "Asking"]

TOPICS = ("hidden", "seen", "open-1", "barred")
GROUP, TRANSACTIONAL_ID = "g", "x"
TOPIC, BROKER, LOGGER, METRICS, OF_GROUP = 2, 4, 8, 16, 32
ANY = 1


class Asking(Struct, frozen=True):
    """A request, and the versions in which it is asked."""

    make: Callable[[int], Struct]
    versions: tuple[int, ...]


def batch(*, transactional: bool = False) -> memoryview:
    """A record."""
    return memoryview(
        build_batch(
            [Record(timestamp=1_700_000_000_000, key=None, value=b"v")],
            producer_id=1 if transactional else -1,
            producer_epoch=0 if transactional else -1,
            base_sequence=0 if transactional else -1,
            transactional=transactional,
        )
    )


def _produce(version: int) -> Struct:
    m = produce_request
    return m.ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            m.TopicProduceData(name=name, partition_data=[m.PartitionProduceData(index=0, records=batch())])
            for name in ("hidden", "seen", "barred")
        ],
    )


def _produce_transactional(version: int) -> Struct:
    m = produce_request
    data = m.PartitionProduceData(index=0, records=batch(transactional=True))
    return m.ProduceRequest(
        transactional_id=TRANSACTIONAL_ID,
        acks=-1,
        timeout_ms=1000,
        topic_data=[m.TopicProduceData(name="hidden", partition_data=[data])],
    )


def _fetch(version: int) -> Struct:
    m = fetch_request
    return m.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            m.FetchTopic(topic=name, partitions=[m.FetchPartition(partition=0, partition_max_bytes=1000)])
            for name in ("hidden", "seen", "absent")
        ],
    )


def _list_offsets(version: int) -> Struct:
    m = list_offsets_request
    return m.ListOffsetsRequest(
        topics=[
            m.ListOffsetsTopic(name=name, partitions=[m.ListOffsetsPartition(timestamp=-1)])
            for name in ("hidden", "seen", "absent")
        ]
    )


def _metadata(*names: str) -> Callable[[int], Struct]:
    m = metadata_request

    def make(version: int) -> Struct:
        return m.MetadataRequest(
            topics=[m.MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=True,
            include_topic_authorized_operations=version >= 8,
            include_cluster_authorized_operations=8 <= version <= 10,
        )

    return make


def _all_metadata(version: int) -> Struct:
    return metadata_request.MetadataRequest(topics=None)


def _offset_commit(version: int) -> Struct:
    m = offset_commit_request
    return m.OffsetCommitRequest(
        group_id=GROUP,
        topics=[
            m.OffsetCommitRequestTopic(name=name, partitions=[m.OffsetCommitRequestPartition(committed_offset=1)])
            for name in ("hidden", "seen")
        ],
    )


def _offset_commit_in_mine(version: int) -> Struct:
    made = _offset_commit(version)
    made.group_id = "mine"  # type: ignore[attr-defined]
    return made


def _offset_fetch(group: str) -> Callable[[int], Struct]:
    m = offset_fetch_request

    def make(version: int) -> Struct:
        if version >= 8:
            topics = [m.OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in ("hidden", "seen")]
            return m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup(group_id=group, topics=topics)])
        old = [m.OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in ("hidden", "seen")]
        return m.OffsetFetchRequest(group_id=group, topics=old)

    return make


def _find(key: str, key_type: int) -> Callable[[int], Struct]:
    def make(version: int) -> Struct:
        if version >= 4:
            return find_coordinator_request.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        return find_coordinator_request.FindCoordinatorRequest(key_type=key_type, key=key)

    return make


def _join(version: int) -> Struct:
    m = join_group_request
    return m.JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[m.JoinGroupRequestProtocol(name="range")],
    )


def _create_topics(version: int) -> Struct:
    m = create_topics_request
    return m.CreateTopicsRequest(
        topics=[m.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("new", "hidden")],
        timeout_ms=5000,
    )


def _delete_topics(version: int) -> Struct:
    m = delete_topics_request
    names = ["hidden", "seen", "absent"]
    if version >= 6:
        return m.DeleteTopicsRequest(topics=[m.DeleteTopicState(name=name) for name in names], timeout_ms=5000)
    return m.DeleteTopicsRequest(topic_names=names, timeout_ms=5000)


def _delete_records(version: int) -> Struct:
    m = delete_records_request
    return m.DeleteRecordsRequest(
        topics=[
            m.DeleteRecordsTopic(name=name, partitions=[m.DeleteRecordsPartition(offset=0)])
            for name in ("hidden", "absent")
        ],
        timeout_ms=1000,
    )


def _init(transactional_id: str | None) -> Callable[[int], Struct]:
    def make(version: int) -> Struct:
        return init_producer_id_request.InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=1000
        )

    return make


def _epochs(version: int) -> Struct:
    m = offset_for_leader_epoch_request
    return m.OffsetForLeaderEpochRequest(
        replica_id=-2,
        topics=[
            m.OffsetForLeaderTopic(topic=name, partitions=[m.OffsetForLeaderPartition(leader_epoch=0)])
            for name in ("hidden", "seen")
        ],
    )


def _add_partitions(transactional_id: str) -> Callable[[int], Struct]:
    m = add_partitions_to_txn_request

    def make(version: int) -> Struct:
        topics = [m.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("hidden", "open-1")]
        if version >= 4:
            one = m.AddPartitionsToTxnTransaction(
                transactional_id=transactional_id, producer_id=1, producer_epoch=0, topics=topics
            )
            return m.AddPartitionsToTxnRequest(transactions=[one])
        return m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=topics,
        )

    return make


def _txn_offsets(transactional_id: str, group: str) -> Callable[[int], Struct]:
    m = txn_offset_commit_request

    def make(version: int) -> Struct:
        topics = [
            m.TxnOffsetCommitRequestTopic(name=name, partitions=[m.TxnOffsetCommitRequestPartition(committed_offset=1)])
            for name in ("hidden", "seen")
        ]
        return m.TxnOffsetCommitRequest(
            transactional_id=transactional_id, group_id=group, producer_id=1, producer_epoch=0, topics=topics
        )

    return make


def _configs(version: int) -> Struct:
    m = describe_configs_request
    named = ((TOPIC, "hidden"), (TOPIC, "absent"), (BROKER, "1"), (OF_GROUP, GROUP))
    return m.DescribeConfigsRequest(
        resources=[
            m.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=["retention.ms"])
            for kind, name in named
        ]
    )


def _alter(version: int) -> Struct:
    m = alter_configs_request
    named = ((TOPIC, "hidden"), (BROKER, "1"), (OF_GROUP, GROUP))
    return m.AlterConfigsRequest(
        resources=[m.AlterConfigsResource(resource_type=kind, resource_name=name) for kind, name in named]
    )


def _incremental(version: int) -> Struct:
    m = incremental_alter_configs_request
    named = ((TOPIC, "hidden"), (BROKER, "1"), (OF_GROUP, GROUP))
    change = m.AlterableConfig(name="retention.ms", value="1")
    return m.IncrementalAlterConfigsRequest(
        resources=[
            m.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change]) for kind, name in named
        ]
    )


def _other_configs(version: int) -> Struct:
    m = describe_configs_request
    return m.DescribeConfigsRequest(
        resources=[
            m.DescribeConfigsResource(resource_type=kind, resource_name="1", configuration_keys=["root"])
            for kind in (LOGGER, METRICS)
        ]
    )


def _alter_others(version: int) -> Struct:
    m = incremental_alter_configs_request
    return m.IncrementalAlterConfigsRequest(
        resources=[
            m.AlterConfigsResource(
                resource_type=kind,
                resource_name="1",
                configs=[m.AlterableConfig(name=name, config_operation=0, value=value)],
            )
            for kind, name, value in ((LOGGER, "root", "INFO"), (METRICS, "interval.ms", "1000"))
        ]
    )


def _move(version: int) -> Struct:
    m = alter_replica_log_dirs_request
    topics = [m.AlterReplicaLogDirTopic(name="hidden", partitions=[0, 1])]
    return m.AlterReplicaLogDirsRequest(dirs=[m.AlterReplicaLogDir(path="/nowhere", topics=topics)])


def _log_dirs(version: int) -> Struct:
    return describe_log_dirs_request.DescribeLogDirsRequest(topics=[])


def _partitions(version: int) -> Struct:
    m = create_partitions_request
    return m.CreatePartitionsRequest(
        topics=[m.CreatePartitionsTopic(name=name, count=2) for name in ("hidden", "absent")], timeout_ms=1000
    )


def _delete_offsets(group: str) -> Callable[[int], Struct]:
    m = offset_delete_request

    def make(version: int) -> Struct:
        partition = m.OffsetDeleteRequestPartition()
        return m.OffsetDeleteRequest(
            group_id=group, topics=[m.OffsetDeleteRequestTopic(name="hidden", partitions=[partition])]
        )

    return make


def _quorum(version: int) -> Struct:
    m = describe_quorum_request
    topic = m.TopicData(topic_name="__cluster_metadata", partitions=[m.PartitionData()])
    return m.DescribeQuorumRequest(topics=[topic])


def _features(version: int) -> Struct:
    m = update_features_request
    change = m.FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)
    return m.UpdateFeaturesRequest(feature_updates=[change], timeout_ms=1000)


def _producers(version: int) -> Struct:
    m = describe_producers_request
    return m.DescribeProducersRequest(
        topics=[m.TopicRequest(name=name, partition_indexes=[0]) for name in ("hidden", "seen", "absent")]
    )


def _topic_partitions(version: int) -> Struct:
    m = describe_topic_partitions_request
    return m.DescribeTopicPartitionsRequest(
        topics=[m.TopicRequest(name=name) for name in ("absent", "hidden", "seen")], response_partition_limit=10
    )


def _markers(version: int) -> Struct:
    m = write_txn_markers_request
    topic = m.WritableTxnMarkerTopic(name="hidden", partition_indexes=[0])
    return m.WriteTxnMarkersRequest(markers=[m.WritableTxnMarker(producer_id=1, topics=[topic])])


def _share_heartbeat(version: int) -> Struct:
    return share_group_heartbeat_request.ShareGroupHeartbeatRequest(
        group_id=GROUP, member_id="AAAAAAAAAAAAAAAAAAAAAA", member_epoch=0, subscribed_topic_names=["hidden"]
    )


def _describe_share_offsets(version: int) -> Struct:
    m = describe_share_group_offsets_request
    return m.DescribeShareGroupOffsetsRequest(
        groups=[m.DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None) for name in (GROUP, "mine")]
    )


def _alter_share_offsets(group: str) -> Callable[[int], Struct]:
    m = alter_share_group_offsets_request
    partition = m.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
    topics = [m.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=[partition]) for name in ("hidden",)]
    return lambda _: m.AlterShareGroupOffsetsRequest(group_id=group, topics=topics)


def _delete_share_offsets(version: int) -> Struct:
    m = delete_share_group_offsets_request
    topics = [m.DeleteShareGroupOffsetsRequestTopic(topic_name="hidden")]
    return m.DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=topics)


def _consumer_heartbeat(version: int) -> Struct:
    return consumer_group_heartbeat_request.ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="AAAAAAAAAAAAAAAAAAAAAA",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["hidden"],
        topic_partitions=[],
    )


def _streams_heartbeat(version: int) -> Struct:
    m = streams_group_heartbeat_request
    subtopology = m.Subtopology(
        subtopology_id="0", source_topics=["hidden"], state_changelog_topics=[m.TopicInfo(name="hidden-changelog")]
    )
    return m.StreamsGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="AAAAAAAAAAAAAAAAAAAAAA",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        topology=m.Topology(epoch=0, subtopologies=[subtopology]),
        process_id="BBBBBBBBBBBBBBBBBBBBBB",
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )


def _creation(version: int) -> Struct:
    m = create_acls_request
    creation = m.AclCreation(
        resource_type=2,
        resource_name="t",
        resource_pattern_type=3,
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=3,
    )
    return m.CreateAclsRequest(creations=[creation])


def _deletion(version: int) -> Struct:
    m = delete_acls_request
    any_acl = m.DeleteAclsFilter(resource_type_filter=ANY, pattern_type_filter=ANY, operation=ANY, permission_type=ANY)
    any_acl.resource_name_filter = any_acl.principal_filter = any_acl.host_filter = None
    return m.DeleteAclsRequest(filters=[any_acl])


def _acls(version: int) -> Struct:
    m = describe_acls_request
    return m.DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )


def _quotas(_: int) -> Struct:
    entity = [alter_client_quotas_request.EntityData(entity_type="user", entity_name="alice")]
    ops = [alter_client_quotas_request.OpData(key="producer_byte_rate", value=1.0)]
    entry = alter_client_quotas_request.EntryData(entity=entity, ops=ops)
    return alter_client_quotas_request.AlterClientQuotasRequest(entries=[entry])


ASKED: Mapping[str, Asking] = {
    "produce": Asking(_produce, (3, 9, 12)),
    "produce_transactional": Asking(_produce_transactional, (3, 12)),
    "fetch": Asking(_fetch, (4, 12)),
    "list_offsets": Asking(_list_offsets, (1, 11)),
    "metadata": Asking(_metadata("hidden", "seen", "absent", "open-absent"), (1, 9, 13)),
    "metadata_of_all": Asking(_all_metadata, (1, 13)),
    "offset_commit": Asking(_offset_commit, (2, 9)),
    "offset_commit_in_my_group": Asking(_offset_commit_in_mine, (2, 9)),
    "offset_fetch": Asking(_offset_fetch(GROUP), (1, 5, 9)),
    "offset_fetch_in_my_group": Asking(_offset_fetch("mine"), (1, 5, 9)),
    "find_group": Asking(_find(GROUP, 0), (0, 3, 6)),
    "find_transaction": Asking(_find(TRANSACTIONAL_ID, 1), (1, 6)),
    "find_share": Asking(_find("hidden:AAAAAAAAAAAAAAAAAAAAAQ:0", 2), (6,)),
    "join_group": Asking(_join, (0, 9)),
    "heartbeat": Asking(lambda _: heartbeat_request.HeartbeatRequest(group_id=GROUP, member_id="m"), (0, 4)),
    "leave_group": Asking(
        lambda version: leave_group_request.LeaveGroupRequest(
            group_id=GROUP,
            member_id="m" if version < 3 else "",
            members=[leave_group_request.MemberIdentity(member_id="m")] if version >= 3 else [],
        ),
        (0, 5),
    ),
    "sync_group": Asking(lambda _: sync_group_request.SyncGroupRequest(group_id=GROUP, member_id="m"), (0, 5)),
    "describe_groups": Asking(
        lambda version: describe_groups_request.DescribeGroupsRequest(
            groups=[GROUP, "mine"], include_authorized_operations=version >= 3
        ),
        (0, 6),
    ),
    "list_groups": Asking(lambda _: list_groups_request.ListGroupsRequest(), (0, 5)),
    "delete_groups": Asking(lambda _: delete_groups_request.DeleteGroupsRequest(groups_names=[GROUP]), (0, 3)),
    "create_topics": Asking(_create_topics, (2, 7)),
    "delete_topics": Asking(_delete_topics, (1, 6)),
    "delete_records": Asking(_delete_records, (0, 2)),
    "init_producer_id": Asking(_init(TRANSACTIONAL_ID), (0, 5)),
    "init_idempotent": Asking(_init(None), (0, 5)),
    "offset_for_leader_epoch": Asking(_epochs, (2, 4)),
    "add_partitions_to_txn": Asking(_add_partitions(TRANSACTIONAL_ID), (0, 3, 5)),
    "add_partitions_to_my_txn": Asking(_add_partitions("mine"), (0, 3)),
    "add_offsets_to_txn": Asking(
        lambda _: add_offsets_to_txn_request.AddOffsetsToTxnRequest(
            transactional_id=TRANSACTIONAL_ID, producer_id=1, group_id=GROUP
        ),
        (0, 4),
    ),
    "add_offsets_to_my_txn": Asking(
        lambda _: add_offsets_to_txn_request.AddOffsetsToTxnRequest(
            transactional_id="mine", producer_id=1, group_id=GROUP
        ),
        (0, 4),
    ),
    "end_txn": Asking(
        lambda _: end_txn_request.EndTxnRequest(transactional_id=TRANSACTIONAL_ID, producer_id=1), (0, 5)
    ),
    "write_txn_markers": Asking(_markers, (1, 2)),
    "txn_offset_commit": Asking(_txn_offsets(TRANSACTIONAL_ID, GROUP), (0, 5)),
    "txn_offset_commit_in_another_group": Asking(_txn_offsets("mine", GROUP), (0, 5)),
    "describe_configs": Asking(_configs, (1, 4)),
    "alter_configs": Asking(_alter, (0, 2)),
    "incremental_alter_configs": Asking(_incremental, (0, 1)),
    "describe_log_dirs": Asking(_log_dirs, (1, 3, 5)),
    "create_partitions": Asking(_partitions, (0, 3)),
    "offset_delete": Asking(_delete_offsets(GROUP), (0,)),
    "describe_quorum": Asking(_quorum, (0, 2)),
    "update_features": Asking(_features, (1, 2)),
    "describe_cluster": Asking(
        lambda _: describe_cluster_request.DescribeClusterRequest(include_cluster_authorized_operations=True), (0, 2)
    ),
    "describe_producers": Asking(_producers, (0,)),
    "describe_transactions": Asking(
        lambda _: describe_transactions_request.DescribeTransactionsRequest(transactional_ids=[TRANSACTIONAL_ID]), (0,)
    ),
    "list_transactions": Asking(lambda _: list_transactions_request.ListTransactionsRequest(), (0, 2)),
    "consumer_group_heartbeat": Asking(_consumer_heartbeat, (0, 1)),
    "consumer_group_describe": Asking(
        lambda _: consumer_group_describe_request.ConsumerGroupDescribeRequest(group_ids=[GROUP]), (0, 1)
    ),
    "share_group_heartbeat": Asking(_share_heartbeat, (1,)),
    "share_group_describe": Asking(
        lambda _: share_group_describe_request.ShareGroupDescribeRequest(group_ids=[GROUP]), (1,)
    ),
    "share_fetch": Asking(
        lambda _: share_fetch_request.ShareFetchRequest(group_id=GROUP, member_id="m", topics=[]), (1, 2)
    ),
    "share_acknowledge": Asking(
        lambda _: share_acknowledge_request.ShareAcknowledgeRequest(group_id=GROUP, member_id="m", topics=[]), (1, 2)
    ),
    "initialize_share_group_state": Asking(
        lambda _: initialize_share_group_state_request.InitializeShareGroupStateRequest(group_id=GROUP), (0,)
    ),
    "read_share_group_state": Asking(
        lambda _: read_share_group_state_request.ReadShareGroupStateRequest(group_id=GROUP), (0,)
    ),
    "write_share_group_state": Asking(
        lambda _: write_share_group_state_request.WriteShareGroupStateRequest(group_id=GROUP), (0, 1)
    ),
    "delete_share_group_state": Asking(
        lambda _: delete_share_group_state_request.DeleteShareGroupStateRequest(group_id=GROUP), (0,)
    ),
    "read_share_group_state_summary": Asking(
        lambda _: read_share_group_state_summary_request.ReadShareGroupStateSummaryRequest(group_id=GROUP), (0, 1)
    ),
    "describe_share_group_offsets": Asking(_describe_share_offsets, (0, 1)),
    "alter_share_group_offsets": Asking(_alter_share_offsets(GROUP), (0,)),
    "alter_my_share_group_offsets": Asking(_alter_share_offsets("mine"), (0,)),
    "delete_share_group_offsets": Asking(_delete_share_offsets, (0,)),
    "streams_group_heartbeat": Asking(_streams_heartbeat, (0, 1)),
    "streams_group_describe": Asking(
        lambda _: streams_group_describe_request.StreamsGroupDescribeRequest(group_ids=[GROUP]), (0, 1)
    ),
    "streams_group_topology_description_update": Asking(
        lambda _: streams_group_topology_description_update_request.StreamsGroupTopologyDescriptionUpdateRequest(
            group_id=GROUP, member_id="A"
        ),
        (0,),
    ),
    "list_config_resources": Asking(lambda _: list_config_resources_request.ListConfigResourcesRequest(), (0, 1)),
    "describe_topic_partitions": Asking(_topic_partitions, (0,)),
    "describe_user_scram_credentials": Asking(
        lambda _: describe_user_scram_credentials_request.DescribeUserScramCredentialsRequest(), (0,)
    ),
    "alter_user_scram_credentials": Asking(
        lambda _: AlterUserScramCredentialsRequest(
            deletions=[
                ScramCredentialDeletion(name="alice", mechanism=1),
                ScramCredentialDeletion(name="z", mechanism=1),
            ]
        ),
        (0,),
    ),
    "describe_client_quotas": Asking(lambda _: describe_client_quotas_request.DescribeClientQuotasRequest(), (0, 1)),
    "alter_client_quotas": Asking(_quotas, (0, 1)),
    "elect_leaders": Asking(
        lambda _: elect_leaders_request.ElectLeadersRequest(topic_partitions=None, timeout_ms=1000), (0, 2)
    ),
    "alter_partition_reassignments": Asking(
        lambda _: alter_partition_reassignments_request.AlterPartitionReassignmentsRequest(topics=[]), (0, 1)
    ),
    "list_partition_reassignments": Asking(
        lambda _: list_partition_reassignments_request.ListPartitionReassignmentsRequest(topics=None), (0,)
    ),
    "alter_replica_log_dirs": Asking(_move, (1, 2)),
    "add_raft_voter": Asking(
        lambda _: add_raft_voter_request.AddRaftVoterRequest(voter_id=9, voter_directory_id=bytes(range(16))), (0, 1)
    ),
    "remove_raft_voter": Asking(
        lambda _: remove_raft_voter_request.RemoveRaftVoterRequest(voter_id=9, voter_directory_id=bytes(range(16))),
        (0,),
    ),
    "unregister_broker": Asking(lambda _: unregister_broker_request.UnregisterBrokerRequest(broker_id=9), (0,)),
    "unregister_controller": Asking(
        lambda _: unregister_controller_request.UnregisterControllerRequest(controller_id=9), (0,)
    ),
    "configs_of_loggers_and_metrics": Asking(_other_configs, (1, 4)),
    "loggers_and_metrics_are_altered": Asking(_alter_others, (0, 1)),
    "create_acls": Asking(_creation, (1, 3)),
    "delete_acls": Asking(_deletion, (1, 3)),
    "describe_acls": Asking(_acls, (1, 3)),
}
"""Every request, by its name."""
