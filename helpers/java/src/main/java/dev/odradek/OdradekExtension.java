package dev.odradek;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.platform.commons.support.AnnotationSupport;

/** Gives a test its cluster, and fails it at its end if a rule has not seen what it expects. */
public final class OdradekExtension implements ParameterResolver, AfterEachCallback {
    private static final Namespace OURS = Namespace.create(OdradekExtension.class);

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == Cluster.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return made(context).computeIfAbsent("cluster", key -> Cluster.make(options(context)));
    }

    @Override
    public void afterEach(ExtensionContext context) {
        Cluster cluster = made(context).get("cluster");
        if (cluster == null) {
            return;
        }
        try (cluster) {
            boolean passes = context.getExecutionException().isEmpty();
            try {
                if (passes) {
                    cluster.verify();
                }
            } catch (AssertionError unmet) {
                passes = false;
                throw unmet;
            } finally {
                if (!passes) {
                    tell(cluster);
                }
            }
        }
    }

    private static void tell(Cluster cluster) {
        try {
            System.err.println(cluster.why());
        } catch (RuntimeException lost) {
            System.err.println("odradek: what is stuck cannot be told: " + lost.getMessage());
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Cluster> made(ExtensionContext context) {
        return context.getStore(OURS).getOrComputeIfAbsent("made", key -> new HashMap<String, Cluster>(), Map.class);
    }

    private static Map<String, Object> options(ExtensionContext context) {
        Odradek odradek = AnnotationSupport.findAnnotation(context.getElement(), Odradek.class)
                .or(() -> AnnotationSupport.findAnnotation(context.getRequiredTestClass(), Odradek.class))
                .orElseThrow();
        Map<String, Object> options = new HashMap<>();
        if (odradek.brokers() > 0) {
            options.put("brokers", odradek.brokers());
        }
        options.put("topics", List.of(odradek.topics()));
        if (!odradek.story().isEmpty()) {
            options.put("story", odradek.story());
        }
        if (!odradek.from().isEmpty()) {
            options.put("from", odradek.from());
        }
        options.put("config", pairs(odradek.config()));
        if (!odradek.asKafka().isEmpty()) {
            options.put("as_kafka", odradek.asKafka());
        }
        if (!odradek.dialect().isEmpty()) {
            options.put("dialect", odradek.dialect());
        }
        if (!odradek.security().isEmpty()) {
            options.put("security", odradek.security());
        }
        if (odradek.users().length > 0) {
            options.put("users", pairs(odradek.users()));
        }
        if (odradek.transactionVersion() >= 0) {
            options.put("transaction_version", odradek.transactionVersion());
        }
        if (odradek.seed() >= 0) {
            options.put("seed", odradek.seed());
        }
        return options;
    }

    private static Map<String, String> pairs(String[] settings) {
        Map<String, String> pairs = new HashMap<>();
        for (String setting : settings) {
            String[] parts = setting.split("=", 2);
            pairs.put(parts[0], parts[1]);
        }
        return pairs;
    }
}
