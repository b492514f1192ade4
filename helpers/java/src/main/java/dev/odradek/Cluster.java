package dev.odradek;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** A cluster of the hub; what options, rules and conditions may be is in docs/hub.md and docs/rules.md. */
public final class Cluster implements AutoCloseable {
    private final Hub hub;
    private final String id;
    private final String bootstrap;
    private final JsonNode access;

    Cluster(Hub hub, JsonNode made) {
        this.hub = hub;
        this.id = made.get("id").asText();
        this.bootstrap = made.get("bootstrap").asText();
        this.access = made.path("access").path("java");
    }

    /** Make one, with these options of POST /clusters. */
    public static Cluster make(Map<String, ?> options) {
        Hub hub = Hub.get();
        return new Cluster(hub, hub.call("POST", "/clusters", options));
    }

    /** What a client connects to: `bootstrap.servers`. */
    public String bootstrap() {
        return bootstrap;
    }

    /** What a client connects with: `bootstrap.servers`, and what it takes to get in where there is security. */
    public Map<String, Object> settings() {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        access.fields().forEachRemaining(each -> settings.put(each.getKey(), each.getValue().asText()));
        return settings;
    }

    /** Read anything of its state: get("transactions", "till-1"). */
    public JsonNode get(Object... parts) {
        return hub.call("GET", path(parts), null);
    }

    /** Do anything that the hub can: post(Map.of("to", 2), "partitions", "orders", 0, "leader"). */
    public JsonNode post(Object body, Object... parts) {
        return hub.call("POST", path(parts), body);
    }

    /** Keep its state at this moment under a name, for clusters that are made from it; it outlives this one. */
    public void snapshot(String name) {
        post(Map.of("name", name), "snapshots");
    }

    /** Apply a rule to the requests that are read from now on; its name. */
    public String arm(Map<String, ?> rule) {
        return post(rule, "rules").get(0).get("name").asText();
    }

    /** What a rule has seen so far. */
    public JsonNode rule(String name) {
        return get("rules", name);
    }

    /** Serve the requests that a rule holds. */
    public void release(String rule) {
        post(null, "rules", rule, "release");
    }

    /** Apply a rule no longer, and serve what it holds. */
    public void disarm(String rule) {
        hub.call("DELETE", path("rules", rule), null);
    }

    /** Return when it is so: waitFor("transaction", Map.of("id", "till-1", "state", "CompleteCommit")). */
    public JsonNode waitFor(String what, Map<String, ?> condition) {
        return post(Map.of(what, condition), "wait").get("found").get(0);
    }

    /** Let so much time pass at once for the brokers. */
    public void advance(Duration by) {
        post(Map.of("advance_ms", by.toMillis()), "time");
    }

    /**
     * What is stuck and what holds it, the newest events, and the path of a file with all of them, in the folder that
     * ODRADEK_EVENTS_DIR names or in a temporary one. A test that fails prints it at its end.
     */
    public String why() {
        List<String> lines = new ArrayList<>(List.of("odradek"));
        JsonNode why = get("why");
        why.get("sentences").forEach(each -> lines.add(each.asText()));
        lines.add("The newest events (the brokers' clock, UTC):");
        why.get("events").forEach(each -> lines.add("  " + each.asText()));
        lines.add("All events: " + writeEvents());
        return String.join("\n", lines);
    }

    private String writeEvents() {
        List<String> events = new ArrayList<>();
        get("events", "lines").forEach(each -> events.add(each.asText()));
        try {
            String named = System.getenv("ODRADEK_EVENTS_DIR");
            boolean isNamed = named != null && !named.isEmpty();
            Path folder = isNamed ? Files.createDirectories(Path.of(named)) : Files.createTempDirectory("odradek-events-");
            return Files.write(Files.createTempFile(folder, id + "-", ".jsonl"), events).toString();
        } catch (IOException error) {
            return "they cannot be written: " + error.getMessage();
        }
    }

    /** Throws, with a sentence for each rule that has not seen what it expects. */
    public void verify() {
        List<String> unmet = new ArrayList<>();
        post(null, "verify").get("unmet").forEach(each -> unmet.add(each.asText()));
        if (!unmet.isEmpty()) {
            throw Hub.told(new AssertionError(String.join("\n", unmet)));
        }
    }

    /** Remove it: the connections of its clients end. */
    @Override
    public void close() {
        hub.call("DELETE", path(), null);
    }

    private String path(Object... parts) {
        StringBuilder path = new StringBuilder("/clusters/").append(id);
        for (Object part : parts) {
            String quoted = URLEncoder.encode(part.toString(), StandardCharsets.UTF_8).replace("+", "%20");
            path.append('/').append(quoted);
        }
        return path.toString();
    }
}
