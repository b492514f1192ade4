"""The classes of Kafka's tests that are played: those that talk to brokers as clients do."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["CLASSES", "GROUPS", "SERVES_ON_S", "SETTINGS", "SMALL", "chosen", "in_turn"]

SERVES_ON_S = "serves.on.s"
"""A setting: a broker that is told to stop answers its clients for so long, as Kafka does while its leaders move.

Without it the brokers stop at once.
"""

SMALL = (
    "kafka.api.TransactionsTest",
    "kafka.api.TransactionsBounceTest",
    "org.apache.kafka.clients.TransactionsExpirationTest",
    "org.apache.kafka.clients.TransactionsWithMaxInFlightOneTest",
    "org.apache.kafka.clients.producer.ProducerIntegrationTest",
    "org.apache.kafka.clients.producer.ProducerIdExpirationTest",
    "org.apache.kafka.clients.admin.AdminFenceProducersTest",
    "kafka.server.AddPartitionsToTxnRequestServerTest",
    "kafka.server.TxnOffsetCommitRequestTest",
    "kafka.server.WriteTxnMarkersRequestTest",
    "kafka.server.ProduceRequestTest",
    "kafka.server.FetchRequestTest",
)
"""What every change has to pass: transactions, Produce and Fetch."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Transactions": (*SMALL[:10], "org.apache.kafka.clients.admin.DescribeProducersWithBrokerIdTest"),
    "Producers": (
        "kafka.api.PlaintextProducerSendTest",
        "kafka.api.SslProducerSendTest",
        "org.apache.kafka.clients.producer.ProducerCompressionTest",
        "org.apache.kafka.clients.producer.ProducerFailureHandlingTest",
        "org.apache.kafka.clients.producer.ProducerSendWhileDeletionTest",
        "org.apache.kafka.clients.producer.SocketServerMemoryPoolTest",
    ),
    "Consumers": (
        "kafka.api.PlaintextConsumerAssignorsTest",
        "kafka.api.PlaintextConsumerTest",
        "org.apache.kafka.clients.consumer.ConsumerBounceTest",
        "org.apache.kafka.clients.consumer.ConsumerIntegrationTest",
        "org.apache.kafka.clients.consumer.ConsumerTopicCreationTest",
        "org.apache.kafka.clients.consumer.ConsumerWithLegacyMessageFormatIntegrationTest",
        "org.apache.kafka.clients.consumer.PlaintextConsumerAssignTest",
        "org.apache.kafka.clients.consumer.PlaintextConsumerCallbackTest",
        "org.apache.kafka.clients.consumer.PlaintextConsumerCloseTest",
        "org.apache.kafka.clients.consumer.PlaintextConsumerCommitTest",
        "org.apache.kafka.clients.consumer.PlaintextConsumerFetchTest",
        "org.apache.kafka.clients.consumer.PlaintextConsumerPollTest",
        "org.apache.kafka.clients.consumer.PlaintextConsumerSubscriptionTest",
        "org.apache.kafka.clients.consumer.PlaintextConsumerTest",
        "kafka.server.FetchFromFollowerIntegrationTest",
    ),
    "Groups": (
        "kafka.api.GroupCoordinatorIntegrationTest",
        "kafka.server.ConsumerProtocolMigrationTest",
        "kafka.server.DeleteGroupsRequestTest",
        "kafka.server.DescribeGroupsRequestTest",
        "kafka.server.HeartbeatRequestTest",
        "kafka.server.JoinGroupRequestTest",
        "kafka.server.LeaveGroupRequestTest",
        "kafka.server.ListGroupsRequestTest",
        "kafka.server.OffsetCommitRequestTest",
        "kafka.server.OffsetDeleteRequestTest",
        "kafka.server.OffsetFetchRequestTest",
        "kafka.server.SyncGroupRequestTest",
        "kafka.server.ConsumerGroupDescribeRequestTest",
        "kafka.server.ConsumerGroupHeartbeatRequestTest",
        "org.apache.kafka.clients.admin.DynamicGroupConfigIntegrationTest",
    ),
    "Share groups and streams groups": (
        "kafka.server.ShareFetchAcknowledgeRequestTest",
        "kafka.server.ShareGroupDescribeRequestTest",
        "kafka.server.ShareGroupHeartbeatRequestTest",
        "kafka.server.StreamsGroupDescribeRequestTest",
        "kafka.server.StreamsGroupHeartbeatRequestTest",
        "org.apache.kafka.clients.consumer.ShareConsumerTest",
        "org.apache.kafka.clients.consumer.ShareConsumerRackAwareTest",
    ),
    "Security and quotas": (
        "kafka.api.AuthorizerIntegrationTest",
        "kafka.server.AlterUserScramCredentialsRequestNotAuthorizedTest",
        "kafka.server.AlterUserScramCredentialsRequestTest",
        "kafka.server.DelegationTokenRequestsOnPlainTextTest",
        "kafka.server.DescribeUserScramCredentialsRequestNotAuthorizedTest",
        "kafka.server.DescribeUserScramCredentialsRequestTest",
        "kafka.server.SaslApiVersionsRequestTest",
        "org.apache.kafka.api.EndToEndClusterIdTest",
        "org.apache.kafka.clients.admin.DescribeAuthorizedOperationsTest",
        "org.apache.kafka.clients.consumer.SaslPlainPlaintextConsumerTest",
        "org.apache.kafka.clients.security.GroupAuthorizerIntegrationTest",
        "kafka.api.ClientIdQuotaTest",
        "kafka.api.SslConsumerTest",
        "kafka.api.UserQuotaTest",
        "kafka.server.ControllerMutationQuotaTest",
        "kafka.server.DelegationTokenRequestsTest",
        "kafka.server.DelegationTokenRequestsWithDisableTokenFeatureTest",
        "kafka.server.RequestQuotaTest",
        "kafka.api.UserClientIdQuotaTest",
        "kafka.api.PlaintextEndToEndAuthorizationTest",
        "kafka.api.SaslScramSslEndToEndAuthorizationTest",
        "kafka.api.SaslClientsWithInvalidCredentialsTest",
        "kafka.api.SslEndToEndAuthorizationTest",
        "kafka.api.SaslPlainSslEndToEndAuthorizationTest",
        "kafka.api.SaslOAuthBearerSslEndToEndAuthorizationTest",
        "kafka.api.DelegationTokenEndToEndAuthorizationTest",
        "kafka.api.DelegationTokenEndToEndAuthorizationWithOwnerTest",
        "kafka.api.GroupEndToEndAuthorizationTest",
        "integration.kafka.api.ClientOAuthIntegrationTest",
    ),
    "Administration": (
        "kafka.admin.AddPartitionsTest",
        "kafka.api.PlaintextAdminIntegrationTest",
        "kafka.api.SslAdminIntegrationTest",
        "kafka.server.DynamicBrokerReconfigurationTest",
        "org.apache.kafka.clients.ClientRebootstrapTest",
        "org.apache.kafka.clients.CreateTopicsRequestWithPolicyTest",
        "org.apache.kafka.clients.MetadataVersionIntegrationTest",
        "org.apache.kafka.clients.MetricsDuringTopicCreationDeletionTest",
        "org.apache.kafka.clients.admin.AdminClientWithPoliciesIntegrationTest",
        "org.apache.kafka.clients.admin.AutoTopicCreationTest",
        "org.apache.kafka.clients.admin.ConcurrentListOffsetsRequestTest",
        "org.apache.kafka.clients.admin.DeleteTopicTest",
        "org.apache.kafka.clients.admin.DescribeFeaturesTest",
        "org.apache.kafka.clients.admin.ListOffsetsIntegrationTest",
        "org.apache.kafka.clients.admin.RackAwareAutoTopicCreationTest",
        "org.apache.kafka.clients.admin.StaticBrokerConfigTest",
        "org.apache.kafka.server.EligibleLeaderReplicasIntegrationTest",
        "org.apache.kafka.server.UncleanLeaderElectionTest",
        "org.apache.kafka.server.config.DynamicConfigTest",
        "org.apache.kafka.server.config.MinInSyncReplicasConfigTest",
    ),
    "Requests": (
        "kafka.server.ApiVersionsRequestTest",
        "kafka.server.CreateTopicsRequestTest",
        "kafka.server.DeleteRecordsRequestTest",
        "kafka.server.DeleteTopicsRequestTest",
        "kafka.server.DeleteTopicsRequestWithDeletionDisabledTest",
        "kafka.server.DescribeClusterRequestTest",
        "kafka.server.DescribeLogDirsRequestTest",
        "kafka.server.DescribeQuorumRequestTest",
        "kafka.server.EdgeCaseRequestTest",
        "kafka.server.FetchRequestMaxBytesTest",
        "kafka.server.FetchRequestTest",
        "kafka.server.ListOffsetsRequestTest",
        "kafka.server.LogOffsetTest",
        "kafka.server.OffsetsForLeaderEpochRequestTest",
        "kafka.server.ProduceRequestTest",
        "kafka.server.AlterReplicaLogDirsRequestTest",
        "kafka.server.epoch.LeaderEpochIntegrationTest",
        "org.apache.kafka.server.BrokerRegistrationRequestTest",
        "org.apache.kafka.server.MetadataRequestTest",
        "org.apache.kafka.server.quota.ClientQuotasRequestTest",
        "unit.kafka.server.AllocateProducerIdsRequestTest",
    ),
    "Tools": (
        "org.apache.kafka.tools.AclCommandTest",
        "org.apache.kafka.tools.BrokerApiVersionsCommandTest",
        "org.apache.kafka.tools.ClusterToolTest",
        "org.apache.kafka.tools.ConfigCommandIntegrationTest",
        "org.apache.kafka.tools.DeleteRecordsCommandTest",
        "org.apache.kafka.tools.FeatureCommandTest",
        "org.apache.kafka.tools.GetOffsetShellTest",
        "org.apache.kafka.tools.GroupsCommandTest",
        "org.apache.kafka.tools.LeaderElectionCommandTest",
        "org.apache.kafka.tools.LogDirsCommandTest",
        "org.apache.kafka.tools.MetadataQuorumCommandTest",
        "org.apache.kafka.tools.TopicCommandTest",
        "org.apache.kafka.tools.TransactionsCommandTest",
        "org.apache.kafka.tools.consumer.ConsoleConsumerTest",
        "org.apache.kafka.tools.consumer.group.DeleteConsumerGroupsTest",
        "org.apache.kafka.tools.consumer.group.DeleteOffsetsConsumerGroupCommandIntegrationTest",
        "org.apache.kafka.tools.consumer.group.DescribeConsumerGroupTest",
        "org.apache.kafka.tools.consumer.group.ListConsumerGroupTest",
        "org.apache.kafka.tools.consumer.group.ResetConsumerGroupOffsetTest",
        "org.apache.kafka.tools.consumer.group.SaslClientsWithInvalidCredentialsTest",
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommandTest",
        "org.apache.kafka.tools.UserScramCredentialsCommandTest",
        "org.apache.kafka.tools.consumer.group.AuthorizerIntegrationTest",
        "org.apache.kafka.tools.streams.DeleteStreamsGroupOffsetTest",
        "org.apache.kafka.tools.streams.DeleteStreamsGroupTest",
        "org.apache.kafka.tools.streams.DescribeStreamsGroupTest",
        "org.apache.kafka.tools.streams.ListStreamsGroupTest",
        "org.apache.kafka.tools.streams.ResetStreamsGroupOffsetTest",
        "org.apache.kafka.tools.DelegationTokenCommandTest",
        "org.apache.kafka.tools.ResetIntegrationTest",
        "org.apache.kafka.tools.ResetIntegrationWithSslTest",
    ),
    "Streams": (
        "org.apache.kafka.streams.integration.AtLeastOnceDeliveryMessageLossIntegrationTest",
        "org.apache.kafka.streams.integration.EOSUncleanShutdownIntegrationTest",
        "org.apache.kafka.streams.integration.EosIntegrationTest",
        "org.apache.kafka.streams.integration.GlobalKTableEOSIntegrationTest",
        "org.apache.kafka.streams.integration.StandbyTaskEOSIntegrationTest",
        "org.apache.kafka.streams.integration.StandbyTaskEOSMultiRebalanceIntegrationTest",
        "org.apache.kafka.streams.integration.SuppressionDurabilityIntegrationTest",
    ),
}
"""All of it, in the order of the page."""

SETTINGS: Mapping[str, Mapping[str, str]] = {
    # Its groups of three agree only if the second member comes before the assignment of the first has been written.
    # With Kafka's own brokers that took 20 to 232 ms, of which most are its replicas' (a new one is slow to begin).
    "org.apache.kafka.clients.consumer.PlaintextConsumerPollTest": {"odradek.replica.lag.ms": "250"},
    # It alters configs, does not wait for the answer, and stops all brokers.
    "kafka.server.DynamicBrokerReconfigurationTest": {SERVES_ON_S: "0.5"},
}
"""What the brokers of a class, or those who run them, are told beyond what its tests say."""

CLASSES = tuple(dict.fromkeys(name for group in GROUPS.values() for name in group))


def chosen(*, everything: bool, only: Sequence[str]) -> Iterator[str]:
    """The classes to play: those whose name, with or without its package, matches a pattern; else the smaller set.

    A pattern that is the whole name of a class need not stand in the plan: it is tried, and not kept.
    """
    for name in CLASSES:
        short = name.rpartition(".")[2]
        if only:
            if any(fnmatch.fnmatchcase(name, each) or fnmatch.fnmatchcase(short, each) for each in only):
                yield name
        elif everything or name in SMALL:
            yield name
    yield from (each for each in only if re.fullmatch(r"[a-z]\w*(\.[a-z]\w*)*\.[A-Z]\w*", each) and each not in CLASSES)


def in_turn(classes: Sequence[str], at_most: int) -> Iterator[Sequence[str]]:
    """The classes, as many together as one JVM plays; one with settings has a JVM of its own."""
    together: list[str] = []
    for name in classes:
        if together and (name in SETTINGS or together[-1] in SETTINGS or len(together) == at_most):
            yield together
            together = []
        together.append(name)
    if together:
        yield together
