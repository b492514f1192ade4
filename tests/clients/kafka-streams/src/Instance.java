import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/** One running instance of the word count; as a program of its own, one that stops in the middle of a transaction. */
class Instance implements AutoCloseable {
    /** Where an instance reads, writes and keeps its state; all instances of one application have the same. */
    record Application(String bootstrap, String id, String input, String output, Path state, String protocol) {
        List<String> arguments() {
            return List.of(bootstrap, id, input, output, state.toString(), protocol);
        }

        static Application of(String... arguments) {
            return new Application(arguments[0], arguments[1], arguments[2], arguments[3], Path.of(arguments[4]),
                arguments[5]);
        }
    }

    private final KafkaStreams streams;

    /**
     * Starts. `updated` runs in the stream thread after each update of a count, which the producer has by then;
     * `failed` runs when a stream thread dies, and the others end with it.
     */
    Instance(Application application, Runnable updated, Consumer<Throwable> failed) {
        streams = new KafkaStreams(topology(application, updated), configuration(application));
        streams.setUncaughtExceptionHandler(thrown -> {
            failed.accept(thrown);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
    }

    private static Topology topology(Application application, Runnable updated) {
        Serde<String> words = Serdes.String();
        Serde<Long> counts = Serdes.Long();
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, Long> updates = builder.stream(application.input(), Consumed.with(words, words))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", words, words))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts")
                .withKeySerde(words).withValueSerde(counts))
            .toStream();
        updates.to(application.output(), Produced.with(words, counts));
        updates.foreach((word, count) -> updated.run());
        return builder.build();
    }

    private static Properties configuration(Application application) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, application.bootstrap());
        properties.putAll(Security.settings());
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, application.id());
        properties.put(StreamsConfig.STATE_DIR_CONFIG, application.state().toString());
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        properties.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, application.protocol());
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 50);
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0); // the next update of a count swallows none
        properties.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        properties.put(StreamsConfig.consumerPrefix("max.poll.records"), 100); // several transactions
        if (!application.protocol().equals("classic")) return properties; // the broker says how long it waits
        properties.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6000); // so long the group waits for one that was killed
        properties.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 500);
        return properties;
    }

    /** Commits what was processed and leaves the group. */
    @Override
    public void close() {
        CloseOptions leaving = CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        boolean closed = streams.close(leaving.withTimeout(Duration.ofSeconds(30)));
        Main.check(closed, "the instance did not close within 30 s");
    }

    /**
     * Arguments: those of the application, then the number of updates after which the stream thread stops for good,
     * in the middle of a transaction; then it prints a line. Ends with its standard input, so not after its parent.
     */
    public static void main(String[] arguments) throws IOException {
        AtomicInteger left = new AtomicInteger(Integer.parseInt(arguments[arguments.length - 1]));
        new Instance(Application.of(arguments), () -> {
            if (left.decrementAndGet() > 0) return;
            System.out.println("stopped");
            while (true) LockSupport.park();
        }, thrown -> {
            thrown.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        System.in.read();
        Runtime.getRuntime().halt(0);
    }
}
