package dev.odradek;

import com.github.dockerjava.api.command.InspectContainerResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;

/**
 * Odradek's image in Testcontainers. A test that uses it has org.testcontainers:testcontainers among its dependencies,
 * which this package does not bring along.
 */
public final class OdradekContainer extends GenericContainer<OdradekContainer> {
    private static final int KAFKA = 9092;
    private static final int CONTROL = 9644;
    private final String token = UUID.randomUUID().toString();
    private final List<String> options = new ArrayList<>();
    private int brokers = 1;
    private Cluster cluster;

    public OdradekContainer(String image) {
        this(DockerImageName.parse(image));
    }

    public OdradekContainer(DockerImageName image) {
        super(image);
        waitingFor(Wait.forLogMessage(".*odradek ready bootstrap=.*", 1));
    }

    /** How many brokers; else one. */
    public OdradekContainer withBrokers(int count) {
        brokers = count;
        return this;
    }

    /** NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS. */
    public OdradekContainer withTopics(String... topics) {
        for (String topic : topics) {
            withOptions("--topic", topic);
        }
        return this;
    }

    /** Options of `odradek serve`, such as "--as-kafka", "3.6". */
    public OdradekContainer withOptions(String... words) {
        options.addAll(List.of(words));
        return this;
    }

    @Override
    protected void configure() {
        addExposedPort(CONTROL);
        for (int broker = 1; broker <= brokers; broker++) {
            addExposedPort(KAFKA + broker - 1);
        }
        addEnv("ODRADEK_HUB_TOKEN", token);
        List<String> command = new ArrayList<>(List.of("serve", "--brokers", String.valueOf(brokers)));
        command.addAll(List.of("--port", String.valueOf(KAFKA), "--control", String.valueOf(CONTROL)));
        command.addAll(options);
        setCommandParts(command.toArray(String[]::new));
    }

    /** Docker chooses the ports when the container starts; only now can clients be told of them. */
    @Override
    protected void containerIsStarted(InspectContainerResponse started) {
        Hub hub = new Hub("http://" + getHost() + ":" + getMappedPort(CONTROL), token);
        Cluster inside = new Cluster(hub, hub.call("GET", "/clusters", null).get(0));
        for (int broker = 1; broker <= brokers; broker++) {
            Map<String, ?> outside = Map.of("host", getHost(), "port", getMappedPort(KAFKA + broker - 1));
            inside.post(outside, "brokers", broker, "advertise");
        }
        cluster = new Cluster(hub, hub.call("GET", "/clusters", null).get(0));
    }

    /** What a client connects to: `bootstrap.servers`. */
    public String getBootstrapServers() {
        return cluster().bootstrap();
    }

    /** The cluster inside, for rules, waiting and time. Its options are those of this container; nothing verifies it by itself. */
    public Cluster cluster() {
        if (cluster == null) {
            throw new IllegalStateException("The container has not been started.");
        }
        return cluster;
    }
}
