package odradek;

import static org.mockito.Mockito.RETURNS_DEFAULTS;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.withSettings;

import com.yammer.metrics.core.Meter;
import com.yammer.metrics.core.MetricName;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.protocol.ApiMessage;

/** How often somebody became a leader who was neither in sync nor eligible: the metadata log tells. */
final class Elections {
    private static final MetricName UNCLEAN =
        new MetricName("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec");

    private final Map<TopicIdPartition, Eligible> partitions = new HashMap<>();
    private long unclean;

    /** Those that may lead a partition. */
    private record Eligible(Set<Integer> inSync, Set<Integer> others) {
        boolean has(int broker) {
            return inSync.contains(broker) || others.contains(broker);
        }

        Eligible with(List<Integer> isr, List<Integer> elr) {
            return new Eligible(isr == null ? inSync : set(isr), elr == null ? others : set(elr));
        }
    }

    long unclean() {
        return unclean;
    }

    void replay(ApiMessage message) {
        if (message instanceof PartitionRecord made) {
            Eligible eligible = new Eligible(set(made.isr()), set(made.eligibleLeaderReplicas()));
            partitions.put(key(made.topicId(), made.partitionId()), eligible);
        } else if (message instanceof PartitionChangeRecord change) {
            TopicIdPartition key = key(change.topicId(), change.partitionId());
            Eligible before = partitions.get(key);
            if (change.leader() >= 0 && !before.has(change.leader())) {
                unclean++;
            }
            partitions.put(key, before.with(change.isr(), change.eligibleLeaderReplicas()));
        }
    }

    /** Kafka's metric of them, for a controller that starts. */
    static void tell(Cluster cluster) {
        Meter meter = mock(Meter.class, withSettings().stubOnly().defaultAnswer(call ->
            switch (call.getMethod().getName()) {
                case "count" -> cluster.uncleanElections();
                case "processWith" -> call.callRealMethod(); // it introduces itself to whoever lists metrics
                default -> RETURNS_DEFAULTS.answer(call);
            }));
        Registry.put(UNCLEAN, meter);
    }

    static void forget() {
        Registry.remove(UNCLEAN);
    }

    private static TopicIdPartition key(Uuid topic, int partition) {
        return new TopicIdPartition(topic, partition, "");
    }

    private static Set<Integer> set(List<Integer> brokers) {
        return brokers == null ? Set.of() : new HashSet<>(brokers);
    }
}
