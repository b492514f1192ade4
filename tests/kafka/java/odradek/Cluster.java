package odradek;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;

/** A cluster that a test believes to have started in this JVM; it runs in the driver. */
final class Cluster {
    private static final Map<String, Cluster> ALL = new ConcurrentHashMap<>();

    private final String id;
    private final Map<String, Short> features = new HashMap<>();
    private final Set<Object> alive = new HashSet<>();
    private final Image image = new Image();

    private Cluster(String id) {
        this.id = id;
    }

    static Cluster of(String id) {
        return ALL.computeIfAbsent(id, Cluster::new);
    }

    /** Levels of features that a new cluster has. */
    void format(BootstrapMetadata metadata) {
        features.put("metadata.version", metadata.metadataVersion().featureLevel());
        for (String feature : new String[] {"group.version", "transaction.version"}) {
            features.put(feature, metadata.featureLevel(feature));
        }
    }

    /** Starts a broker, or starts it again; its port. */
    synchronized int start(Object server, int broker, Map<String, String> config, String rack, int port) {
        ObjectNode request = Driver.request("start", id).put("broker", broker).put("rack", rack).put("port", port);
        ObjectNode given = request.putObject("config");
        config.forEach(given::put);
        ObjectNode levels = request.putObject("features");
        features.forEach((name, level) -> levels.put(name, level.intValue()));
        int bound = Driver.instance().ask(request).get("port").asInt();
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

    /** The log of a partition as its leader has it. */
    Optional<JsonNode> log(TopicPartition partition) {
        ObjectNode request = Driver.request("log", id);
        request.put("topic", partition.topic()).put("partition", partition.partition());
        JsonNode log = Driver.instance().ask(request).get("log");
        return log.isNull() ? Optional.empty() : Optional.of(log);
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
