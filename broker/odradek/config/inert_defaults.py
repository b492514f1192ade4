"""Types and defaults of keys that have no effect here, as a broker of Kafka 4.4 describes them.

Recorded from its DescribeConfigs; a test compares them with the recording.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from odradek.config.keys import Kind

__all__ = ["INERT_DEFAULTS", "InertDefault"]


class InertDefault(Struct, frozen=True):
    """Type and default of one key; without a default the value is None."""

    kind: Kind
    default: str | None


def _read(line: str) -> tuple[str, InertDefault]:
    head, equals, default = line.partition(" =")
    name, kind = head.split()
    return name, InertDefault(Kind[kind.upper()], default.strip() if equals else None)


INERT_DEFAULTS: Mapping[str, InertDefault] = dict(
    map(
        _read,
        """
advertised.listeners list
alter.config.policy.class.name class
alter.log.dirs.replication.quota.window.num int = 11
alter.log.dirs.replication.quota.window.size.seconds int = 1
authorizer.class.name string =
auto.leader.rebalance.enable boolean = true
background.threads int = 10
broker.id int = -1
client.quota.callback.class class
config.providers list =
connection.failed.authentication.delay.ms int = 100
connections.max.reauth.ms long = 0
controlled.shutdown.enable boolean = true
controller.listener.names list
controller.quorum.append.linger.ms int = 25
controller.quorum.auto.join.enable boolean = false
controller.quorum.bootstrap.servers list =
controller.quorum.election.backoff.max.ms int = 1000
controller.quorum.election.timeout.ms int = 1000
controller.quorum.fetch.max.bytes int = 1048576
controller.quorum.fetch.snapshot.max.bytes int = 1048576
controller.quorum.fetch.timeout.ms int = 2000
controller.quorum.request.timeout.ms int = 2000
controller.quorum.retry.backoff.ms int = 20
controller.quorum.voters list =
controller.socket.timeout.ms int = 30000
cordoned.log.dirs list =
create.topic.policy.class.name class
delegation.token.expiry.check.interval.ms long = 3600000
delegation.token.expiry.time.ms long = 86400000
delegation.token.max.lifetime.ms long = 604800000
delegation.token.secret.key password
delete.records.purgatory.purge.interval.requests int = 1
early.start.listeners list
fetch.purgatory.purge.interval.requests int = 1000
follower.fetch.last.tiered.offset.enable boolean = false
group.coordinator.append.linger.ms int = -1
group.coordinator.background.threads int = 2
group.coordinator.cached.buffer.max.bytes int = 1048588
group.coordinator.threads int = 4
group.share.assignors list = simple
group.streams.topology.description.plugin.class class
initial.broker.registration.timeout.ms int = 60000
inter.broker.listener.name string
kafka.metrics.polling.interval.secs int = 10
kafka.metrics.reporters list =
leader.imbalance.check.interval.seconds long = 300
listener.security.protocol.map string = SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
listeners list = PLAINTEXT://:9092
log.cleaner.dedupe.buffer.size long = 134217728
log.cleaner.io.buffer.load.factor double = 0.9
log.cleaner.io.buffer.size int = 524288
log.cleaner.io.max.bytes.per.second double = 1.7976931348623157E308
log.cleaner.threads int = 1
log.dir list = /tmp/kafka-logs
log.dir.failure.timeout.ms long = 30000
log.dirs list
log.flush.offset.checkpoint.interval.ms int = 60000
log.flush.start.offset.checkpoint.interval.ms int = 60000
metadata.log.dir string
metric.reporters list = org.apache.kafka.common.metrics.JmxReporter
metrics.num.samples int = 2
metrics.recording.level string = INFO
metrics.sample.window.ms long = 30000
node.id int
num.io.threads int = 8
num.network.threads int = 3
num.recovery.threads.per.data.dir int = 2
num.replica.alter.log.dirs.threads int
num.replica.fetchers int = 1
offsets.load.buffer.size int = 5242880
principal.builder.class class = org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
process.roles list
producer.purgatory.purge.interval.requests int = 1000
remote.fetch.max.wait.ms int = 500
remote.list.offsets.request.timeout.ms long = 30000
remote.log.index.file.cache.total.size.bytes long = 1073741824
remote.log.manager.copier.thread.pool.size int = 10
remote.log.manager.copy.max.bytes.per.second long = 9223372036854775807
remote.log.manager.copy.quota.window.num int = 11
remote.log.manager.copy.quota.window.size.seconds int = 1
remote.log.manager.expiration.thread.pool.size int = 10
remote.log.manager.fetch.max.bytes.per.second long = 9223372036854775807
remote.log.manager.fetch.quota.window.num int = 11
remote.log.manager.fetch.quota.window.size.seconds int = 1
remote.log.manager.follower.thread.pool.size int = 2
remote.log.manager.task.interval.ms long = 30000
remote.log.manager.thread.pool.size int = 2
remote.log.metadata.custom.metadata.max.bytes int = 128
remote.log.metadata.manager.class.name string = org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path string
remote.log.metadata.manager.impl.prefix string = rlmm.config.
remote.log.metadata.manager.listener.name string
remote.log.reader.max.pending.tasks int = 100
remote.log.reader.threads int = 10
remote.log.storage.manager.class.name string
remote.log.storage.manager.class.path string
remote.log.storage.manager.impl.prefix string = rsm.config.
remote.log.storage.system.enable boolean = false
replica.fetch.backoff.ms int = 1000
replica.fetch.max.bytes int = 1048576
replica.fetch.min.bytes int = 1
replica.fetch.response.max.bytes int = 10485760
replica.fetch.wait.max.ms int = 500
replica.high.watermark.checkpoint.interval.ms long = 5000
replica.lag.time.max.ms long = 30000
replica.socket.receive.buffer.bytes int = 65536
replica.socket.timeout.ms int = 30000
replication.quota.window.num int = 11
replication.quota.window.size.seconds int = 1
sasl.client.callback.handler.class class
sasl.enabled.mechanisms list = GSSAPI
sasl.jaas.config password
sasl.kerberos.kinit.cmd string = /usr/bin/kinit
sasl.kerberos.min.time.before.relogin long = 60000
sasl.kerberos.principal.to.local.rules list = DEFAULT
sasl.kerberos.service.name string
sasl.kerberos.ticket.renew.jitter double = 0.05
sasl.kerberos.ticket.renew.window.factor double = 0.8
sasl.login.callback.handler.class class
sasl.login.class class
sasl.login.connect.timeout.ms int
sasl.login.read.timeout.ms int
sasl.login.refresh.buffer.seconds short = 300
sasl.login.refresh.min.period.seconds short = 60
sasl.login.refresh.window.factor double = 0.8
sasl.login.refresh.window.jitter double = 0.05
sasl.login.retry.backoff.max.ms long = 10000
sasl.login.retry.backoff.ms long = 100
sasl.mechanism.controller.protocol string = GSSAPI
sasl.mechanism.inter.broker.protocol string = GSSAPI
sasl.oauthbearer.allow.unverified.audience boolean = false
sasl.oauthbearer.allow.unverified.issuer boolean = false
sasl.oauthbearer.assertion.algorithm string = RS256
sasl.oauthbearer.assertion.claim.aud string
sasl.oauthbearer.assertion.claim.exp.seconds int = 300
sasl.oauthbearer.assertion.claim.iss string
sasl.oauthbearer.assertion.claim.jti.include boolean = false
sasl.oauthbearer.assertion.claim.nbf.seconds int = 60
sasl.oauthbearer.assertion.claim.sub string
sasl.oauthbearer.assertion.file string
sasl.oauthbearer.assertion.private.key.file string
sasl.oauthbearer.assertion.private.key.passphrase password
sasl.oauthbearer.assertion.template.file string
sasl.oauthbearer.client.credentials.client.id string
sasl.oauthbearer.client.credentials.client.secret password
sasl.oauthbearer.clock.skew.seconds int = 30
sasl.oauthbearer.expected.audience list =
sasl.oauthbearer.expected.issuer string
sasl.oauthbearer.jwks.endpoint.refresh.ms long = 3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long = 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long = 100
sasl.oauthbearer.jwks.endpoint.url string
sasl.oauthbearer.jwt.retriever.class class = org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class class = org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope string
sasl.oauthbearer.scope.claim.name string = scope
sasl.oauthbearer.sub.claim.name string = sub
sasl.oauthbearer.token.endpoint.url string
sasl.server.callback.handler.class class
sasl.server.max.receive.size int = 524288
security.inter.broker.protocol string = PLAINTEXT
security.providers string
share.coordinator.append.linger.ms int = -1
share.coordinator.cached.buffer.max.bytes int = 1048588
share.coordinator.load.buffer.size int = 5242880
share.coordinator.threads int = 1
share.fetch.purgatory.purge.interval.requests int = 1000
socket.connection.setup.timeout.max.ms long = 30000
socket.connection.setup.timeout.ms long = 10000
socket.receive.buffer.bytes int = 102400
socket.send.buffer.bytes int = 102400
ssl.allow.dn.changes boolean = false
ssl.allow.san.changes boolean = false
ssl.cipher.suites list =
ssl.client.auth string = none
ssl.enabled.protocols list = TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm string = https
ssl.engine.factory.class class
ssl.key.password password
ssl.keymanager.algorithm string = SunX509
ssl.keystore.certificate.chain password
ssl.keystore.key password
ssl.keystore.location string
ssl.keystore.password password
ssl.keystore.type string = JKS
ssl.principal.mapping.rules string = DEFAULT
ssl.protocol string = TLSv1.3
ssl.provider string
ssl.secure.random.implementation string
ssl.trustmanager.algorithm string = PKIX
ssl.truststore.certificates password
ssl.truststore.location string
ssl.truststore.password password
ssl.truststore.type string = JKS
transaction.state.log.load.buffer.size int = 5242880
""".strip().splitlines(),  # noqa: E501
    )
)
