package odradek;

import com.yammer.metrics.core.Metric;
import com.yammer.metrics.core.MetricName;
import com.yammer.metrics.core.MetricsRegistry;
import java.lang.reflect.Method;
import org.apache.kafka.server.metrics.KafkaYammerMetrics;

/** The metrics that Kafka keeps for the whole JVM: some are told by Odradek. */
final class Registry {
    private Registry() {}

    static void put(MetricName name, Metric metric) {
        remove(name);
        try {
            Method add = MetricsRegistry.class.getDeclaredMethod("getOrAdd", MetricName.class, Metric.class);
            add.setAccessible(true);
            add.invoke(KafkaYammerMetrics.defaultRegistry(), name, metric);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    static void remove(MetricName name) {
        KafkaYammerMetrics.defaultRegistry().removeMetric(name);
    }
}
