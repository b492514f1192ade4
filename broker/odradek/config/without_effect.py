"""Keys of Kafka 4.4 without effect here: accepted with a warning, so that a configuration of Kafka can be used."""

__all__ = [
    "INERT_DYNAMIC_KEYS",
    "INERT_KEYS",
    "INERT_PER_BROKER_KEYS",
    "INERT_PER_LISTENER_KEYS",
    "NOMINAL_KEYS",
]

# Keys that are not in `table.py`: threads, tiered storage, security, replication, the quorum.
_INERT = """
advertised.listeners alter.config.policy.class.name alter.log.dirs.replication.quota.window.num
alter.log.dirs.replication.quota.window.size.seconds authorizer.class.name auto.leader.rebalance.enable
background.threads broker.id client.quota.callback.class config.providers connection.failed.authentication.delay.ms
connections.max.reauth.ms controlled.shutdown.enable controller.listener.names
controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
controller.quorum.append.linger.ms controller.quorum.auto.join.enable controller.quorum.bootstrap.servers
controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes
controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
controller.quorum.retry.backoff.ms controller.quorum.voters controller.socket.timeout.ms cordoned.log.dirs
create.topic.policy.class.name delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
delegation.token.max.lifetime.ms delegation.token.secret.key delete.records.purgatory.purge.interval.requests
early.start.listeners
fetch.purgatory.purge.interval.requests follower.fetch.last.tiered.offset.enable follower.replication.throttled.rate
group.consumer.assignor.offload.enable group.coordinator.append.linger.ms group.coordinator.background.threads
group.coordinator.cached.buffer.max.bytes group.coordinator.threads group.share.assignor.offload.enable
group.share.assignors group.share.dlq.manager.class.name group.share.initialize.retry.interval.ms
group.share.persister.class.name group.streams.assignor.offload.enable group.streams.max.warmup.replicas
group.streams.num.warmup.replicas group.streams.topology.description.plugin.class
initial.broker.registration.timeout.ms inter.broker.listener.name internal.metadata.delete.delay.millis
internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes kafka.metrics.polling.interval.secs
kafka.metrics.reporters leader.imbalance.check.interval.seconds leader.replication.throttled.rate
listener.security.protocol.map listeners log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.load.factor
log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second log.cleaner.threads log.dir log.dir.failure.timeout.ms
log.dirs log.flush.offset.checkpoint.interval.ms log.flush.start.offset.checkpoint.interval.ms
log.initial.task.delay.ms metadata.log.dir metric.reporters metrics.num.samples
metrics.recording.level metrics.sample.window.ms node.id num.io.threads num.network.threads
num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads num.replica.fetchers offsets.load.buffer.size
principal.builder.class process.roles producer.purgatory.purge.interval.requests remote.fetch.max.wait.ms
remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes remote.log.index.file.cache.ttl.ms
remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
remote.log.manager.follower.thread.pool.size remote.log.manager.task.interval.ms
remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks remote.log.reader.threads
remote.log.storage.manager.class.name remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
remote.log.storage.system.enable replica.alter.log.dirs.io.max.bytes.per.second replica.fetch.backoff.ms
replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.wait.max.ms
replica.high.watermark.checkpoint.interval.ms replica.socket.receive.buffer.bytes
replica.socket.timeout.ms replication.quota.window.num replication.quota.window.size.seconds
sasl.client.callback.handler.class sasl.enabled.mechanisms sasl.jaas.config sasl.kerberos.kinit.cmd
sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name
sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class
sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
sasl.mechanism.inter.broker.protocol sasl.oauthbearer.allow.unverified.audience
sasl.oauthbearer.allow.unverified.issuer sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
sasl.server.callback.handler.class sasl.server.max.receive.size security.inter.broker.protocol security.providers
server.max.startup.time.ms share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size
share.coordinator.state.topic.prune.interval.ms
share.coordinator.threads share.fetch.purgatory.purge.interval.requests socket.connection.setup.timeout.max.ms
socket.connection.setup.timeout.ms socket.receive.buffer.bytes socket.send.buffer.bytes ssl.allow.dn.changes
ssl.allow.san.changes ssl.cipher.suites ssl.client.auth ssl.enabled.protocols ssl.endpoint.identification.algorithm
ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key
ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.principal.mapping.rules ssl.protocol ssl.provider
ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
ssl.truststore.password ssl.truststore.type transaction.state.log.load.buffer.size
"""

# Keys in `table.py` without effect: DescribeConfigs shows them and topics inherit them.
_NOMINAL = """
broker.heartbeat.interval.ms compression.gzip.level compression.lz4.level
compression.zstd.level log.cleaner.enable log.index.size.max.bytes log.local.retention.bytes log.local.retention.ms
log.preallocate log.remote.copy.lag.bytes log.remote.copy.lag.ms log.roll.jitter.hours log.roll.jitter.ms
metadata.max.idle.interval.ms
queued.max.request.bytes queued.max.requests
"""

# Keys of the first list that can change while brokers run, for the whole cluster.
_INERT_DYNAMIC = """
background.threads config.providers follower.fetch.last.tiered.offset.enable follower.replication.throttled.rate
group.consumer.assignor.offload.enable group.coordinator.cached.buffer.max.bytes group.share.assignor.offload.enable
group.streams.assignor.offload.enable leader.replication.throttled.rate log.cleaner.dedupe.buffer.size
log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second log.cleaner.threads
metric.reporters num.io.threads num.network.threads
num.recovery.threads.per.data.dir num.replica.fetchers remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
remote.log.manager.copy.max.bytes.per.second remote.log.manager.expiration.thread.pool.size
remote.log.manager.fetch.max.bytes.per.second remote.log.manager.follower.thread.pool.size remote.log.reader.threads
replica.alter.log.dirs.io.max.bytes.per.second share.coordinator.cached.buffer.max.bytes
"""

# Keys that can change while a broker runs, for this broker; recorded from Kafka 4.4.
_INERT_PER_BROKER = """
cordoned.log.dirs listener.security.protocol.map listeners principal.builder.class sasl.enabled.mechanisms
sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules
sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.mechanism.inter.broker.protocol ssl.cipher.suites ssl.client.auth
ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.keymanager.algorithm ssl.protocol ssl.provider
ssl.secure.random.implementation ssl.trustmanager.algorithm
"""

# Keys that can change for one listener of a broker, with the prefix `listener.name.NAME.`.
_INERT_PER_LISTENER = """
ssl.engine.factory.class ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
ssl.keystore.password ssl.keystore.type ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
ssl.truststore.type
"""

INERT_KEYS = frozenset(_INERT.split())
NOMINAL_KEYS = frozenset(_NOMINAL.split())
INERT_DYNAMIC_KEYS = frozenset(_INERT_DYNAMIC.split())
INERT_PER_BROKER_KEYS = frozenset(_INERT_PER_BROKER.split())
INERT_PER_LISTENER_KEYS = frozenset(_INERT_PER_LISTENER.split())
