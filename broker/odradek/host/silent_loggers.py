"""Loggers of a Kafka 4.4 broker that log nothing here: their levels are stored and shown."""

__all__ = ["SILENT_LOGGERS"]

SILENT_LOGGERS = frozenset(
    """
LogFutureTimestampLogger kafka.coordinator.transaction.TransactionMarkerChannelManager kafka.log.LogCleaner
kafka.network.ConnectionQuotas kafka.network.DataPlaneAcceptor kafka.network.Processor kafka.network.RequestChannel$
kafka.server.BrokerServer kafka.server.ConfigAdminManager kafka.server.ControllerApis kafka.server.ControllerServer
kafka.server.KafkaRaftServer kafka.server.KafkaRequestHandler kafka.server.ReplicaManager
kafka.server.ReplicaManager$LogDirFailureHandler kafka.server.SharedServer
kafka.server.metadata.BrokerMetadataPublisher kafka.server.metadata.DynamicConfigPublisher
kafka.server.share.ReplicaManagerLogReader kafka.server.share.ReplicaManagerPartitionMetadataProvider
kafka.server.share.ShareCoordinatorMetadataCacheHelperImpl kafka.server.share.SharePartitionManager
org.apache.kafka.clients.ClientUtils org.apache.kafka.clients.ClusterConnectionStates
org.apache.kafka.clients.CommonClientConfigs org.apache.kafka.clients.NetworkClient
org.apache.kafka.common.config.AbstractConfig org.apache.kafka.common.config.ConfigDef
org.apache.kafka.common.metrics.JmxReporter org.apache.kafka.common.metrics.Metrics
org.apache.kafka.common.metrics.stats.Percentiles org.apache.kafka.common.network.ChannelBuilders
org.apache.kafka.common.network.NetworkReceive org.apache.kafka.common.network.Selector
org.apache.kafka.common.protocol.Errors org.apache.kafka.common.record.internal.ControlRecordType
org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever org.apache.kafka.common.utils.Utils
org.apache.kafka.common.utils.internals.AppInfoParser org.apache.kafka.common.utils.internals.KafkaThread
org.apache.kafka.common.utils.internals.LoggingSignalHandler org.apache.kafka.common.utils.internals.ThreadUtils
org.apache.kafka.controller.AclControlManager org.apache.kafka.controller.BrokerHeartbeatManager
org.apache.kafka.controller.ClientQuotaControlManager org.apache.kafka.controller.ClusterControlManager
org.apache.kafka.controller.ConfigurationControlManager org.apache.kafka.controller.DelegationTokenControlManager
org.apache.kafka.controller.EventPerformanceMonitor org.apache.kafka.controller.FeatureControlManager
org.apache.kafka.controller.OffsetControlManager org.apache.kafka.controller.PeriodicTaskControlManager
org.apache.kafka.controller.ProducerIdControlManager org.apache.kafka.controller.ReplicationControlManager
org.apache.kafka.controller.ScramControlManager org.apache.kafka.coordinator.common.runtime.CoordinatorLoaderImpl
org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime
org.apache.kafka.coordinator.common.runtime.MultiThreadedEventProcessor
org.apache.kafka.coordinator.common.runtime.MultiThreadedEventProcessor$EventProcessorThread
org.apache.kafka.coordinator.group.GroupConfig org.apache.kafka.coordinator.group.GroupCoordinatorConfig
org.apache.kafka.coordinator.group.assignor.SimpleAssignor org.apache.kafka.coordinator.group.assignor.UniformAssignor
org.apache.kafka.coordinator.group.streams.StreamsGroupTopologyDescriptionManager
org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor
org.apache.kafka.coordinator.share.ShareCoordinatorService
org.apache.kafka.coordinator.transaction.RPCProducerIdManager org.apache.kafka.coordinator.transaction.TxnMarkerQueue
org.apache.kafka.deferred.DeferredEventQueue org.apache.kafka.image.loader.MetadataBatchLoader
org.apache.kafka.image.publisher.BrokerRegistrationTracker org.apache.kafka.image.publisher.SnapshotEmitter
org.apache.kafka.image.publisher.SnapshotGenerator org.apache.kafka.metadata.KRaftMetadataCache
org.apache.kafka.metadata.ListenerInfo org.apache.kafka.metadata.properties.MetaPropertiesEnsemble
org.apache.kafka.metadata.publisher.AclPublisher org.apache.kafka.metadata.publisher.FeaturesPublisher
org.apache.kafka.network.Request org.apache.kafka.queue.KafkaEventQueue org.apache.kafka.raft.CandidateState
org.apache.kafka.raft.FileQuorumStateStore org.apache.kafka.raft.KafkaNetworkChannel
org.apache.kafka.raft.KafkaNetworkChannel$SendThread org.apache.kafka.raft.KafkaRaftClient
org.apache.kafka.raft.KafkaRaftClientDriver org.apache.kafka.raft.LeaderState org.apache.kafka.raft.ProspectiveState
org.apache.kafka.raft.QuorumState org.apache.kafka.raft.TimingWheelExpirationService$ExpiredOperationReaper
org.apache.kafka.raft.UnattachedState org.apache.kafka.raft.internals.AddVoterHandler
org.apache.kafka.raft.internals.DefaultRequestSender org.apache.kafka.raft.internals.KRaftControlRecordStateMachine
org.apache.kafka.raft.internals.KafkaRaftLog org.apache.kafka.raft.internals.RecordsIterator
org.apache.kafka.raft.internals.RemoveVoterHandler org.apache.kafka.raft.internals.UpdateVoterHandler
org.apache.kafka.raft.internals.VoterSetHistory org.apache.kafka.server.AssignmentsManager
org.apache.kafka.server.BrokerFeatures org.apache.kafka.server.BrokerLifecycleManager
org.apache.kafka.server.DefaultAutoTopicCreationManager org.apache.kafka.server.DelayedActionQueue
org.apache.kafka.server.FetchManager org.apache.kafka.server.FetchSessionCacheShard
org.apache.kafka.server.ForwardingManagerImpl org.apache.kafka.server.NodeToControllerChannelManagerImpl
org.apache.kafka.server.NodeToControllerRequestThread org.apache.kafka.server.config.ConfigSynonym
org.apache.kafka.server.config.DynamicProducerStateManagerConfig
org.apache.kafka.server.controller.ControllerRegistrationManager org.apache.kafka.server.fault.LoggingFaultHandler
org.apache.kafka.server.fault.ProcessTerminatingFaultHandler
org.apache.kafka.server.logger.Log4jControllerRegistration org.apache.kafka.server.logger.LoggingController
org.apache.kafka.server.metrics.LinuxIoMetricsCollector org.apache.kafka.server.network.EndpointReadyFutures
org.apache.kafka.server.partition.DefaultAlterPartitionManager
org.apache.kafka.server.purgatory.DelayedOperationPurgatory
org.apache.kafka.server.purgatory.DelayedOperationPurgatory$ExpiredOperationReaper
org.apache.kafka.server.quota.ClientQuotaManager
org.apache.kafka.server.quota.ClientQuotaManager$ThrottledChannelReaper
org.apache.kafka.server.quota.ControllerMutationQuotaManager org.apache.kafka.server.quota.ReplicationQuotaManager
org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager
org.apache.kafka.server.share.dlq.ShareGroupDLQStateManager
org.apache.kafka.server.share.dlq.ShareGroupDLQStateManager$SendThread
org.apache.kafka.server.share.persister.DefaultStatePersister
org.apache.kafka.server.share.persister.PersisterStateManager$SendThread org.apache.kafka.server.util.FileLock
org.apache.kafka.server.util.KafkaScheduler org.apache.kafka.server.util.NetworkPartitionMetadataClient
org.apache.kafka.server.util.timer.SystemTimerReaper$Reaper org.apache.kafka.snapshot.Snapshots
org.apache.kafka.storage.internals.checkpoint.CheckpointFileWithFailureHandler
org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler
org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache org.apache.kafka.storage.internals.log.AbstractIndex
org.apache.kafka.storage.internals.log.Cleaner org.apache.kafka.storage.internals.log.LocalLog
org.apache.kafka.storage.internals.log.LogCleaner org.apache.kafka.storage.internals.log.LogCleaner$CleanerThread
org.apache.kafka.storage.internals.log.LogDirFailureChannel org.apache.kafka.storage.internals.log.LogLoader
org.apache.kafka.storage.internals.log.LogManager org.apache.kafka.storage.internals.log.LogSegment
org.apache.kafka.storage.internals.log.OffsetIndex org.apache.kafka.storage.internals.log.ProducerStateManager
org.apache.kafka.storage.internals.log.TimeIndex org.apache.kafka.storage.internals.utils.Throttler
org.apache.kafka.storage.log.metrics.BrokerTopicStats org.apache.kafka.timeline.SnapshotRegistry
""".split()  # noqa: SIM905
)
