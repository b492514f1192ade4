package odradek;

import static org.mockito.AdditionalAnswers.delegatesTo;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.doAnswer;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.withSettings;

import java.net.InetAddress;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import kafka.coordinator.transaction.TransactionCoordinator;
import kafka.network.ConnectionQuotas;
import kafka.network.SocketServer;
import kafka.server.BrokerServer;
import kafka.server.KafkaApis;
import kafka.server.KafkaConfig;
import kafka.server.QuotaFactory.QuotaManagers;
import kafka.server.SharedServer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.token.delegation.TokenInformation;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.image.ClientQuotaImage;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.loader.MetadataLoader;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.DelegationTokenData;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.security.CredentialProvider;
import org.apache.kafka.server.BrokerLifecycleManager;
import org.apache.kafka.server.common.KRaftVersion;
import org.mockito.stubbing.Answer;
import scala.Option;

/** What stands where a test has made a `BrokerServer`: the broker itself runs in the driver. */
final class Brokers {
    private final Cluster cluster;
    private final KafkaConfig config;
    private final int id;
    private volatile BrokerState state = BrokerState.NOT_RUNNING;
    /** What it knew when it was stopped; null while it runs. */
    private volatile MetadataImage last;
    private volatile Map<String, Integer> ports = Map.of();

    private Brokers(SharedServer shared) {
        cluster = Cluster.of(shared.clusterId());
        config = shared.brokerConfig();
        id = config.nodeId();
    }

    static void replace(BrokerServer server, SharedServer shared) {
        new Brokers(shared).teach(server, shared);
    }

    private void teach(BrokerServer server, SharedServer shared) {
        doAnswer(call -> config()).when(server).config();
        doAnswer(call -> shared.time()).when(server).time();
        doAnswer(call -> shared.clusterId()).when(server).clusterId();
        doAnswer(call -> state).when(server).brokerState();
        doAnswer(call -> port(call.getArgument(0))).when(server).boundPort(any());
        var authorizer = Acls.plugin(cluster, this::image, config.originals().get("authorizer.class.name"));
        doAnswer(call -> authorizer).when(server).authorizerPlugin();
        DelegationTokenCache tokens = Stub.of(DelegationTokenCache.class);
        doAnswer(call -> tokens()).when(tokens).tokens();
        doAnswer(call -> tokens).when(server).tokenCache();
        doAnswer(call -> credentials(tokens)).when(server).credentialProvider();
        life(server);
        parts(server, shared);
    }

    private void life(BrokerServer server) {
        Answer<Void> start = call -> {
            start(server);
            return null;
        };
        Answer<Void> stop = call -> {
            if (state == BrokerState.RUNNING) {
                last = cluster.image();
            }
            state = BrokerState.NOT_RUNNING;
            cluster.stop(server, id);
            return null;
        };
        doAnswer(start).when(server).startup();
        doAnswer(stop).when(server).shutdown();
        doAnswer(stop).when(server).shutdown(any(Duration.class));
        doAnswer(call -> null).when(server).awaitShutdown();
        doAnswer(call -> state == BrokerState.NOT_RUNNING).when(server).isShutdown();
    }

    private void start(BrokerServer server) {
        if (state == BrokerState.RUNNING) {
            return;
        }
        Listeners listeners = new Listeners(config);
        Map<String, String> given = given();
        String rack = given.get("broker.rack");
        listeners.translate(given);
        ports = cluster.start(server, id, given, rack, listeners.listening(ports));
        state = BrokerState.RUNNING;
        last = null;
        // The first question takes this JVM a while; a test that asks whether something has come yet must not pay for it.
        server.metadataCache().numPartitions("");
        server.logManager().getLog(new TopicPartition("none", 0), false);
    }

    /** What it is configured with by now: what the test has said, and what was changed since. */
    private KafkaConfig config() {
        if (state != BrokerState.RUNNING && last == null) {
            return config; // it has not begun
        }
        Map<Object, Object> changed = new HashMap<>();
        for (String name : List.of("", String.valueOf(id))) {
            changed.putAll(image().configs().configProperties(new ConfigResource(ConfigResource.Type.BROKER, name)));
        }
        if (changed.isEmpty()) {
            return config;
        }
        Map<Object, Object> all = new HashMap<>(config.originals());
        all.putAll(changed);
        return new KafkaConfig(all, false);
    }

    private int port(ListenerName listener) {
        Integer port = ports.get(listener.value());
        return port == null ? ports.values().stream().findFirst().orElse(0) : port;
    }

    private MetadataImage image() {
        MetadataImage image = last;
        return image == null ? cluster.image() : image;
    }

    /** What the test has said itself, and not Kafka's defaults. */
    private Map<String, String> given() {
        Map<String, String> given = new TreeMap<>();
        config.originals().forEach((key, value) -> {
            if (value instanceof Password secret) {
                given.put(key, secret.value());
            } else if (value instanceof Collection<?> values) {
                given.put(key, values.stream().map(String::valueOf).collect(Collectors.joining(",")));
            } else if (value != null) {
                given.put(key, value instanceof Class<?> type ? type.getName() : value.toString());
            }
        });
        return given;
    }

    private void parts(BrokerServer server, SharedServer made) {
        KRaftMetadataCache cache = metadataCache();
        doAnswer(call -> cache).when(server).metadataCache();
        Logs logs = new Logs(cluster, this::image, cache, this::config);
        doAnswer(call -> logs.manager()).when(server).logManager();
        doAnswer(call -> logs.replicas()).when(server).replicaManager();

        SharedServer shared = Stub.of(SharedServer.class);
        MetadataLoader loader = Stub.of(MetadataLoader.class);
        doAnswer(call -> image().offset()).when(loader).lastAppliedOffset();
        doAnswer(call -> state == BrokerState.RUNNING ? loader : null).when(shared).loader();
        doAnswer(call -> made.metaPropsEnsemble()).when(shared).metaPropsEnsemble();
        doAnswer(call -> made.clusterId()).when(shared).clusterId();
        doAnswer(call -> id).when(shared).nodeId();
        doAnswer(call -> shared).when(server).sharedServer();

        SocketServer sockets = Stub.of(SocketServer.class);
        doAnswer(call -> port(call.getArgument(0))).when(sockets).boundPort(any());
        ConnectionQuotas quotas = Stub.of(ConnectionQuotas.class);
        doAnswer(call -> connectionRate(call.getArgument(0))).when(quotas).connectionRateForIp(any());
        doAnswer(call -> quotas).when(sockets).connectionQuotas();
        doAnswer(call -> sockets).when(server).socketServer();

        KafkaApis apis = Stub.of(KafkaApis.class);
        doAnswer(call -> false).when(apis).isConsumerGroupProtocolEnabled();
        doAnswer(call -> server.authorizerPlugin()).when(apis).authorizerPlugin();
        doAnswer(call -> cache).when(apis).metadataCache();
        QuotaManagers managers = new Quotas(cluster, id, config).managers();
        doAnswer(call -> managers).when(apis).quotas();
        doAnswer(call -> managers).when(server).quotaManagers();
        Metrics metrics = new Quotas(cluster, id, config).metrics();
        doAnswer(call -> metrics).when(server).metrics();
        doAnswer(call -> made.clusterId()).when(apis).clusterId();
        doAnswer(call -> id).when(apis).brokerId();
        doAnswer(call -> apis).when(server).dataPlaneRequestProcessor();

        GroupCoordinator groups = Stub.of(GroupCoordinator.class);
        doAnswer(call -> offsetsTopic()).when(groups).groupMetadataTopicConfigs();
        doAnswer(call -> groups).when(server).groupCoordinator();

        BrokerLifecycleManager lifecycle = Stub.of(BrokerLifecycleManager.class);
        doAnswer(call -> CompletableFuture.completedFuture(null)).when(lifecycle).initialUnfenceFuture();
        doAnswer(call -> lifecycle).when(server).lifecycleManager();

        TransactionCoordinator transactions = Transactions.coordinator(cluster);
        doAnswer(call -> transactions).when(server).transactionCoordinator();
    }

    /** Kafka's own cache, over an image that is looked up at each question. */
    private KRaftMetadataCache metadataCache() {
        KRaftMetadataCache cache = new KRaftMetadataCache(id, () -> KRaftVersion.KRAFT_VERSION_0);
        Answer<Object> asked = delegatesTo(cache);
        return mock(KRaftMetadataCache.class, withSettings().stubOnly().defaultAnswer(call -> {
            cache.setImage(image());
            return asked.answer(call);
        }));
    }

    /** The delegation tokens that it knows. */
    private Collection<TokenInformation> tokens() {
        return image().delegationTokens().tokens().values().stream()
            .map(DelegationTokenData::tokenInformation).collect(Collectors.toList());
    }

    /** The users with SCRAM that it knows, and the tokens. */
    private CredentialProvider credentials(DelegationTokenCache tokens) {
        CredentialProvider known = new CredentialProvider(ScramMechanism.mechanismNames(), tokens);
        image().scram().mechanisms().forEach((mechanism, users) ->
            users.forEach((user, credential) -> known.updateCredential(mechanism, user, credential.toCredential())));
        return known;
    }

    /** How many connections a second an address may make: its own number, that of all, or any. */
    private int connectionRate(InetAddress address) {
        Map<ClientQuotaEntity, ClientQuotaImage> entities = image().clientQuotas().entities();
        for (String ip : Arrays.asList(address.getHostAddress(), null)) {
            ClientQuotaEntity entity = new ClientQuotaEntity(Collections.singletonMap(ClientQuotaEntity.IP, ip));
            Double rate = entities.getOrDefault(entity, ClientQuotaImage.EMPTY).quotas().get("connection_creation_rate");
            if (rate != null) {
                return rate.intValue();
            }
        }
        return Integer.MAX_VALUE;
    }

    private Properties offsetsTopic() {
        Properties properties = new Properties();
        properties.put(TopicConfig.CLEANUP_POLICY_CONFIG, TopicConfig.CLEANUP_POLICY_COMPACT);
        properties.put(TopicConfig.COMPRESSION_TYPE_CONFIG, "producer");
        properties.put(TopicConfig.SEGMENT_BYTES_CONFIG,
            String.valueOf(config.groupCoordinatorConfig().offsetsTopicSegmentBytes()));
        return properties;
    }
}
