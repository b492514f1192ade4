import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/** One scenario of the Java client: reads the options, runs it, prints one line of JSON. */
public class Main {
    interface Scenario {
        void run(Options options, Map<String, Object> counts) throws Exception;
    }

    static final Map<String, Scenario> SCENARIOS = Map.ofEntries(
        Map.entry("produce-consume", Plain::produceConsume),
        Map.entry("idempotent", Plain::idempotent),
        Map.entry("group", Plain::group),
        Map.entry("consumer-protocol", Plain::consumerProtocol),
        Map.entry("admin", Administration::admin),
        Map.entry("transactions", Transactions::transactions),
        Map.entry("txn-offsets", Transactions::offsets),
        Map.entry("zombie", Transactions::zombie),
        Map.entry("lost", Transactions::lost),
        Map.entry("txn-timeout", Transactions::timeout),
        Map.entry("story-commit", Stories::commit),
        Map.entry("story-restart", Stories::restart),
        Map.entry("story-second-instance", Stories::secondInstance),
        Map.entry("story-second-topic", Stories::secondTopic),
        Map.entry("story-timeout", Stories::timeout),
        Map.entry("story-idle", Stories::idle),
        Map.entry("story-offsets", Stories::offsets),
        Map.entry("story-late-offsets", Stories::lateOffsets),
        Map.entry("story-late", Stories::late),
        Map.entry("story-expired-member", Stories::expiredMember),
        Map.entry("story-late-epoch", Stories::lateEpoch),
        Map.entry("story-migration", Stories::migration),
        Map.entry("story-share-lock", unsupported("a program of its own plays it")),
        Map.entry("story-share-aborted", unsupported("a program of its own plays it")),
        Map.entry("story-share-dead-letter", unsupported("a program of its own plays it")),
        Map.entry("share", unsupported("a program of its own plays it")),
        Map.entry("word-count", unsupported("Kafka Streams plays it")),
        Map.entry("streams-protocol", unsupported("Kafka Streams plays it")));

    static Scenario unsupported(String why) {
        return (options, counts) -> {
            throw new UnsupportedOperationException(why);
        };
    }

    /** The one argument style of all client programs: --name value. */
    record Options(String bootstrap, String scenario, String topic, String group, String transactionalId,
                   String compression, int records, int partitions, int transactions, int timeoutSeconds) {

        static Options parse(String[] arguments) {
            Map<String, String> given = new LinkedHashMap<>();
            for (int i = 0; i + 1 < arguments.length; i += 2) given.put(arguments[i].replaceFirst("^--", ""), arguments[i + 1]);
            String topic = given.getOrDefault("topic", "checked");
            return new Options(given.get("bootstrap"), given.get("scenario"), topic,
                given.getOrDefault("group", topic + "-group"), given.getOrDefault("transactional-id", topic + "-id"),
                given.getOrDefault("compression", "none"), Integer.parseInt(given.getOrDefault("records", "1000")),
                Integer.parseInt(given.getOrDefault("partitions", "3")),
                Integer.parseInt(given.getOrDefault("transactions", "20")),
                Integer.parseInt(given.getOrDefault("timeout", "60")));
        }

        Deadline deadline() {
            return new Deadline(timeoutSeconds);
        }
    }

    /** What a scenario throws when the broker did not do as it should. */
    static class Failed extends RuntimeException {
        Failed(String message) {
            super(message);
        }
    }

    static void check(boolean holds, String message) {
        if (!holds) throw new Failed(message);
    }

    static class Deadline {
        private final long end;

        Deadline(double seconds) {
            end = System.nanoTime() + (long) (seconds * 1e9);
        }

        boolean passed() {
            return System.nanoTime() > end;
        }

        void check(String waitingFor) {
            if (passed()) throw new Failed("timed out waiting for " + waitingFor);
        }
    }

    public static void main(String[] arguments) {
        run(arguments, "kafka-clients " + version("kafka"), SCENARIOS);
    }

    /** Plays the scenario that the arguments name and ends the process. */
    static void run(String[] arguments, String client, Map<String, Scenario> scenarios) {
        Options options = Options.parse(arguments);
        Scenario scenario = scenarios.get(String.valueOf(options.scenario()));
        if (scenario == null || options.bootstrap() == null) {
            System.err.println("--bootstrap HOST:PORT and --scenario, one of " + scenarios.keySet());
            System.exit(2);
        }
        Map<String, Object> counts = new LinkedHashMap<>();
        String error = null;
        boolean unsupported = false;
        long start = System.nanoTime();
        try {
            scenario.run(options, counts);
        } catch (Throwable thrown) {
            thrown.printStackTrace();
            unsupported = thrown instanceof UnsupportedOperationException;
            error = thrown.toString() + (thrown.getCause() == null ? "" : ", caused by " + thrown.getCause());
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("ok", error == null);
        result.put("client", client);
        result.put("scenario", options.scenario());
        result.put("seconds", Math.round((System.nanoTime() - start) / 1e6) / 1e3);
        result.put("counts", counts);
        result.put("error", error);
        result.put("unsupported", unsupported);
        System.out.println(json(result));
        System.out.flush();
        System.exit(error == null ? 0 : unsupported ? 3 : 1);
    }

    /** Of the jar of this name on the class path: kafka (the clients) or kafka-streams. */
    static String version(String jar) {
        Properties properties = new Properties();
        try (InputStream in = Main.class.getResourceAsStream("/kafka/" + jar + "-version.properties")) {
            properties.load(in);
        } catch (IOException | NullPointerException e) {
            return "unknown";
        }
        return properties.getProperty("version");
    }

    static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            List<String> parts = new ArrayList<>();
            map.forEach((name, inner) -> parts.add(json(name) + ": " + json(inner)));
            return "{" + String.join(", ", parts) + "}";
        }
        if (value instanceof List<?> list) return "[" + String.join(", ", list.stream().map(Main::json).toList()) + "]";
        if (value instanceof String text) return '"' + text.replaceAll("[\"\\\\\\p{Cntrl}]", " ") + '"';
        return String.valueOf(value);
    }
}
