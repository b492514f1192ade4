package odradek;

import static org.mockito.AdditionalAnswers.delegatesTo;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.anyString;
import static org.mockito.Mockito.doAnswer;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.withSettings;

import com.fasterxml.jackson.databind.JsonNode;
import com.yammer.metrics.core.Histogram;
import com.yammer.metrics.core.MetricName;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import kafka.server.ClientRequestQuotaManager;
import kafka.server.KafkaConfig;
import kafka.server.QuotaFactory.QuotaManagers;
import kafka.server.ReplicationQuotaManager;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Sanitizer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;

/** What clients may use and have used, as a broker or the controller knows it: its managers of quotas, and their metrics. */
final class Quotas {
    /** In place of a broker: whoever is the controller. */
    static final int CONTROLLER = -1;

    private static final Map<String, String> KEYS = Map.of(
        "Produce", "producer_byte_rate",
        "Fetch", "consumer_byte_rate",
        "Request", "request_percentage",
        "ControllerMutation", "controller_mutation_rate");
    /** Of how long clients were told to wait: by the name of the request, the limit that it comes from. */
    private static final Map<String, String> REQUESTS =
        Map.of("Produce", "producer_byte_rate", "FetchConsumer", "consumer_byte_rate");

    private final Cluster cluster;
    private final int broker;
    private final KafkaConfig config;

    Quotas(Cluster cluster, int broker, KafkaConfig config) {
        this.cluster = cluster;
        this.broker = broker;
        this.config = config;
    }

    QuotaManagers managers() {
        ReplicationQuotaManager replication = Stub.of(ReplicationQuotaManager.class);
        return new QuotaManagers(
            manager(ClientQuotaManager.class, "Fetch"), manager(ClientQuotaManager.class, "Produce"),
            manager(ClientRequestQuotaManager.class, "Request"),
            manager(ControllerMutationQuotaManager.class, "ControllerMutation"),
            replication, replication, replication, Optional.empty());
    }

    private <T extends ClientQuotaManager> T manager(Class<T> type, String kind) {
        T manager = Stub.of(type);
        doAnswer(call -> limit(kind, call.getArgument(0), call.getArgument(1)))
            .when(manager).quota(anyString(), anyString());
        doAnswer(call -> limit(kind, call.<KafkaPrincipal>getArgument(0).getName(), call.getArgument(1)))
            .when(manager).quota(any(KafkaPrincipal.class), anyString());
        return manager;
    }

    private Quota limit(String kind, String user, String client) {
        JsonNode limit = cluster.quota(broker, KEYS.get(kind), user, client).get("limit");
        return Quota.upperBound(limit.isNull() ? Long.MAX_VALUE : limit.asDouble());
    }

    /** Its metrics; of those that there are in Kafka, the ones of quotas, and of logins if all are asked for. */
    Metrics metrics() {
        Metrics names = new Metrics();
        Logins logins = new Logins(cluster, broker);
        Metrics metrics = mock(Metrics.class, withSettings().stubOnly().defaultAnswer(call ->
            call.getMethod().getName().equals("metricName")
                ? delegatesTo(names).answer(call)
                : Stub.answer(call)));
        doAnswer(call -> metric(call.getArgument(0))).when(metrics).metric(any());
        doAnswer(call -> new HashMap<Object, KafkaMetric>() {
            @Override
            public KafkaMetric get(Object name) {
                return metric((org.apache.kafka.common.MetricName) name);
            }

            @Override
            public Collection<KafkaMetric> values() {
                return logins.metrics();
            }
        }).when(metrics).metrics();
        return metrics;
    }

    /** As in Kafka, there is none before the client has used something that is limited. */
    private KafkaMetric metric(org.apache.kafka.common.MetricName name) {
        String key = KEYS.get(name.group());
        if (key == null || !name.tags().containsKey("client-id")) {
            throw new OutOfReach("the metric " + name.name() + " of " + name.group());
        }
        JsonNode used = cluster.quota(broker, key, Sanitizer.desanitize(name.tags().get("user")),
            name.tags().get("client-id"));
        if (!used.get("used").asBoolean()) {
            return null;
        }
        Gauge<Double> value = switch (name.name()) {
            case "throttle-time" -> (metricConfig, now) -> {
                int count = used.get("count").asInt();
                return count == 0 ? Double.NaN : used.get("throttled_ms").asDouble() / count;
            };
            case "byte-rate", "tokens" -> (metricConfig, now) -> {
                throw new OutOfReach("the value of " + name.name());
            };
            default -> throw new OutOfReach("the metric " + name.name() + " of " + name.group());
        };
        return new KafkaMetric(new Object(), name, value, windows(name.group(), used.get("limit")), Time.SYSTEM);
    }

    private MetricConfig windows(String kind, JsonNode limit) {
        QuotaConfig set = config.quotaConfig();
        boolean mutations = kind.equals("ControllerMutation");
        return new MetricConfig()
            .quota(Quota.upperBound(limit.isNull() ? Long.MAX_VALUE : limit.asDouble()))
            .samples(mutations ? set.numControllerQuotaSamples() : set.numQuotaSamples())
            .timeWindow(mutations ? set.controllerQuotaWindowSizeSeconds() : set.quotaWindowSizeSeconds(), TimeUnit.SECONDS);
    }

    /** Kafka's metrics of how long it has let requests wait, for a cluster that starts. */
    static void tell(Cluster cluster) {
        REQUESTS.forEach((request, key) -> {
            Histogram histogram = mock(Histogram.class, withSettings().stubOnly().defaultAnswer(call ->
                switch (call.getMethod().getName()) {
                    case "max" -> cluster.throttles(key);
                    case "processWith" -> call.callRealMethod();
                    case "toString", "hashCode", "equals" -> org.mockito.Mockito.RETURNS_DEFAULTS.answer(call);
                    default -> throw new OutOfReach("Histogram." + call.getMethod().getName());
                }));
            Registry.put(name(request), histogram);
        });
    }

    static void forget() {
        REQUESTS.keySet().forEach(request -> Registry.remove(name(request)));
    }

    private static MetricName name(String request) {
        return new MetricName("kafka.network", "RequestMetrics", "ThrottleTimeMs", "request." + request,
            "kafka.network:type=RequestMetrics,name=ThrottleTimeMs,request=" + request);
    }
}
