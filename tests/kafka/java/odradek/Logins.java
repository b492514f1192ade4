package odradek;

import com.yammer.metrics.core.Gauge;
import com.yammer.metrics.core.MetricName;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.utils.Time;

/** Which connections ended because a login had expired, or because another one was refused (KIP-368). */
final class Logins {
    private static final MetricName KILLED =
        new MetricName("kafka.network", "SocketServer", "ExpiredConnectionsKilledCount");

    private final Cluster cluster;
    private final int broker;

    Logins(Cluster cluster, int broker) {
        this.cluster = cluster;
        this.broker = broker;
    }

    /** Kafka's metrics of them, of one broker. */
    List<KafkaMetric> metrics() {
        return List.of(metric("expired-connections-killed-count", "expired"),
            metric("failed-reauthentication-total", "refused"));
    }

    private KafkaMetric metric(String name, String kind) {
        var named = new org.apache.kafka.common.MetricName(name, "socket-server-metrics", "", Map.of());
        org.apache.kafka.common.metrics.Gauge<Double> value = (config, now) ->
            cluster.logins().path(String.valueOf(broker)).get(kind).asDouble();
        return new KafkaMetric(new Object(), named, value, new MetricConfig(), Time.SYSTEM);
    }

    /** Kafka's metric of all brokers, for a cluster that starts. */
    static void tell(Cluster cluster) {
        Registry.put(KILLED, new Gauge<Double>() {
            @Override
            public Double value() {
                double sum = 0;
                for (var each : cluster.logins()) {
                    sum += each.path("expired").asDouble();
                }
                return sum;
            }
        });
    }

    static void forget() {
        Registry.remove(KILLED);
    }
}
