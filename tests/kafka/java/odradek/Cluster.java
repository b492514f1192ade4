package odradek;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.metadata.UserScramCredentialRecord;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.security.auth.KafkaPrincipalBuilder;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.Feature;

/** A cluster that a test believes to have started in this JVM; it runs in the driver. */
final class Cluster {
    private static final String UNCLEAN_ELECTIONS = "unclean.leader.election.interval.ms";
    private static final Map<String, Cluster> ALL = new ConcurrentHashMap<>();

    private final String id;
    private final Map<String, Short> features = new HashMap<>();
    /** What a test has told the controller alone, which lives in a broker here. */
    private final Map<String, String> ofController = new HashMap<>();
    private final ArrayNode credentials = JsonNodeFactory.instance.arrayNode();
    private final Set<Object> alive = new HashSet<>();
    private final Image image = new Image();

    private Cluster(String id) {
        this.id = id;
    }

    static Cluster of(String id) {
        return ALL.computeIfAbsent(id, Cluster::new);
    }

    /** A listener of a broker; the builder says who comes over it, if there is one. */
    record Listening(Endpoint endpoint, int port, KafkaPrincipalBuilder builder) {}

    /** How its controller is configured. */
    synchronized void configure(Map<String, Object> controller) {
        Object interval = controller.get(UNCLEAN_ELECTIONS);
        if (interval != null) {
            ofController.put(UNCLEAN_ELECTIONS, interval.toString());
        }
    }

    /** Levels of features that a new cluster has, and the users that it was formatted with. */
    void format(BootstrapMetadata metadata) {
        features.put("metadata.version", metadata.metadataVersion().featureLevel());
        for (Feature feature : Feature.PRODUCTION_FEATURES) {
            if (feature != Feature.KRAFT_VERSION) { // no record has it, and no configuration
                features.put(feature.featureName(), metadata.featureLevel(feature.featureName()));
            }
        }
        credentials.removeAll();
        for (ApiMessageAndVersion each : metadata.records()) {
            if (each.message() instanceof UserScramCredentialRecord user) {
                credentials.addObject().put("name", user.name()).put("mechanism", user.mechanism())
                    .put("iterations", user.iterations()).put("salt", user.salt())
                    .put("stored_key", user.storedKey()).put("server_key", user.serverKey());
            }
        }
    }

    /** Starts a broker, or starts it again; the ports of its listeners. */
    synchronized Map<String, Integer> start(
            Object server, int broker, Map<String, String> config, String rack, List<Listening> listeners) {
        ObjectNode request = Driver.request("start", id).put("broker", broker).put("rack", rack);
        ObjectNode given = request.putObject("config");
        ofController.forEach(given::put);
        config.forEach(given::put);
        ArrayNode told = request.putArray("listeners");
        for (Listening each : listeners) {
            Endpoint endpoint = each.endpoint();
            ObjectNode listening = told.addObject().put("name", endpoint.listener())
                .put("protocol", endpoint.securityProtocol().name).put("port", each.port());
            if (each.builder() != null) {
                Builders.tell(listening.putObject("builder"), each.builder(), endpoint);
            }
        }
        request.set("credentials", credentials);
        ObjectNode levels = request.putObject("features");
        features.forEach((name, level) -> levels.put(name, level.intValue()));
        Map<String, Integer> bound = new HashMap<>();
        Driver.instance().ask(request).get("ports").fields()
            .forEachRemaining(each -> bound.put(each.getKey(), each.getValue().asInt()));
        alive.add(server);
        return bound;
    }

    synchronized void stop(Object server, int broker) {
        if (alive.contains(server)) {
            Driver.instance().ask(Driver.request("stop", id).put("broker", broker));
        }
        ended(server);
    }

    synchronized void started(Object server) {
        alive.add(server);
    }

    /** Once nobody is left, neither broker nor controller, the cluster is forgotten. */
    synchronized void ended(Object server) {
        if (alive.remove(server) && alive.isEmpty()) {
            ALL.remove(id);
            Driver.instance().ask(Driver.request("forget", id));
        }
    }

    /** What the brokers know by now. */
    synchronized MetadataImage image() {
        ObjectNode request = Driver.request("metadata", id).put("offset", image.nextOffset());
        JsonNode answer = Driver.instance().ask(request);
        if (answer.get("end").asLong() > image.nextOffset()) {
            image.fold(Base64.getDecoder().decode(answer.get("batches").asText()));
        }
        return image.now();
    }

    synchronized long uncleanElections() {
        image();
        return image.elections().unclean();
    }

    /** The log of a partition as its leader has it. */
    Optional<JsonNode> log(TopicPartition partition) {
        JsonNode log = Driver.instance().ask(request("log", partition)).get("log");
        return log.isNull() ? Optional.empty() : Optional.of(log);
    }

    void append(TopicPartition partition, byte[] batches) {
        Driver.instance().ask(request("append", partition).put("batches", batches));
    }

    JsonNode offset(TopicPartition partition, long timestamp) {
        return Driver.instance().ask(request("offset", partition).put("timestamp", timestamp));
    }

    /** Lets a log begin, or end, at an offset. */
    void cut(TopicPartition partition, long offset, boolean ends) {
        Driver.instance().ask(request("cut", partition).put("offset", offset).put("ends", ends));
    }

    /** The batches of each segment, in Base64. */
    JsonNode segments(TopicPartition partition) {
        return Driver.instance().ask(request("records", partition)).get("segments");
    }

    void roll(TopicPartition partition) {
        Driver.instance().ask(request("roll", partition));
    }

    /** Up to where a log is clean. */
    long clean(TopicPartition partition) {
        return Driver.instance().ask(request("clean", partition)).get("until").asLong();
    }

    private ObjectNode request(String kind, TopicPartition partition) {
        return Driver.request(kind, id).put("topic", partition.topic()).put("partition", partition.partition());
    }

    /** What a client may use, and how long those had to wait who have the limit together. */
    JsonNode quota(int broker, String key, String user, String client) {
        ObjectNode request = Driver.request("quota", id).put("broker", broker).put("key", key);
        return Driver.instance().ask(request.put("user", user).put("client_id", client));
    }

    /** How long clients had to wait for a limit (ms), on the average. */
    double throttles(String key) {
        return Driver.instance().ask(Driver.request("throttles", id)).path(key).asDouble(0);
    }

    /** How many connections to each broker ended because a login had expired, or another one was refused. */
    JsonNode logins() {
        return Driver.instance().ask(Driver.request("logins", id));
    }

    /** Where the controller listens for itself. */
    int controllerPort() {
        return Driver.instance().ask(Driver.request("controller", id)).get("port").asInt();
    }

    void createAcls(Collection<AclBinding> bindings) {
        ObjectNode request = Driver.request("create-acls", id);
        ArrayNode acls = request.putArray("acls");
        for (AclBinding each : bindings) {
            ResourcePattern pattern = each.pattern();
            AccessControlEntry entry = each.entry();
            acls.addObject().put("resource_type", pattern.resourceType().code()).put("resource_name", pattern.name())
                .put("resource_pattern_type", pattern.patternType().code()).put("principal", entry.principal())
                .put("host", entry.host()).put("operation", entry.operation().code())
                .put("permission_type", entry.permissionType().code());
        }
        Driver.instance().ask(request);
    }

    void deleteAcls(Collection<AclBindingFilter> filters) {
        ObjectNode request = Driver.request("delete-acls", id);
        ArrayNode meant = request.putArray("filters");
        for (AclBindingFilter each : filters) {
            ResourcePatternFilter pattern = each.patternFilter();
            AccessControlEntryFilter entry = each.entryFilter();
            meant.addObject().put("resource_type_filter", pattern.resourceType().code())
                .put("resource_name_filter", pattern.name()).put("pattern_type_filter", pattern.patternType().code())
                .put("principal_filter", entry.principal()).put("host_filter", entry.host())
                .put("operation", entry.operation().code()).put("permission_type", entry.permissionType().code());
        }
        Driver.instance().ask(request);
    }

    short producerEpoch(String transactionalId) {
        ObjectNode request = Driver.request("transaction", id).put("transactional_id", transactionalId);
        return (short) Driver.instance().ask(request).get("epoch").asInt();
    }

    void setProducerEpoch(String transactionalId, short epoch) {
        ObjectNode request = Driver.request("epoch", id).put("transactional_id", transactionalId).put("epoch", epoch);
        Driver.instance().ask(request);
    }
}
