import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.*;

/** The Java client, 3.0 to 4.4. */
public class JavaDriver extends Driver {
    /** After these the manual of the client has the producer closed; others are retriable, or the transaction is aborted. */
    private static final Set<Errors> FATAL = Set.of(
        Errors.PRODUCER_FENCED, Errors.FENCED_INSTANCE_ID, Errors.INVALID_PRODUCER_ID_MAPPING, Errors.UNSUPPORTED_VERSION,
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Errors.CLUSTER_AUTHORIZATION_FAILED, Errors.INVALID_TXN_STATE,
        Errors.INVALID_TRANSACTION_TIMEOUT, Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT);

    /** A producer; its answers since the last flush. */
    private record Producing(KafkaProducer<String, String> producer, boolean transactional, List<Future<RecordMetadata>> sent) {}

    private final Map<String, Producing> producers = new ConcurrentHashMap<>();
    private final Map<String, KafkaConsumer<String, String>> consumers = new ConcurrentHashMap<>();

    @Override String library() { return "kafka-clients"; }

    @Override String version() throws java.io.IOException {
        Properties about = new Properties();
        about.load(KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties"));
        return about.getProperty("version");
    }

    /** In an error state the client wraps the error that led to it; that one is told. */
    @Override Failure failure(String client, Throwable error) {
        Throwable at = error;
        while (at.getCause() != null && Errors.forException(at) == Errors.UNKNOWN_SERVER_ERROR) at = at.getCause();
        Errors code = Errors.forException(at);
        boolean nameless = code == Errors.UNKNOWN_SERVER_ERROR || !(at instanceof ApiException);
        if (nameless) return new Failure(error.getClass().getSimpleName(), "unknown", error.toString());
        String category = FATAL.contains(code) ? "fatal" : at instanceof RetriableException ? "retriable" : "abortable";
        return new Failure(code.name(), category, error.toString());
    }

    private static <T> T named(Map<String, T> all, String name) {
        return Optional.ofNullable(all.get(name)).orElseThrow(() -> new NoSuchElementException("no client " + name));
    }

    private Producing producing(Request request) { return named(producers, request.client()); }

    @Override void init(Request request) throws Exception {
        if (request.text("role").equals("consumer")) {
            Map<String, Object> config = config(request, ConsumerConfig.configNames());
            consumers.put(request.client(), new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer()));
            return;
        }
        Map<String, Object> config = config(request, ProducerConfig.configNames());
        if (!producers.containsKey(request.client())) {
            var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
            producers.put(request.client(), new Producing(producer, config.containsKey("transactional.id"), new ArrayList<>()));
        }
        Producing made = producing(request);
        if (made.transactional() && !request.flag("lazy")) made.producer().initTransactions();
    }

    private static Map<String, Object> config(Request request, Set<String> known) throws Unsupported {
        for (Object needed : request.list("needs"))
            if (!known.contains(needed)) throw new Unsupported("this release has no " + needed);
        // a record a poll: the positions that a consumer commits are then those of what was asked for
        Map<String, Object> config = new HashMap<>(Map.of("client.id", request.client(), "auto.offset.reset", "earliest",
            "enable.auto.commit", false, "max.poll.records", 1));
        config.putAll(request.config());
        config.put("bootstrap.servers", request.text("bootstrap"));
        config.keySet().retainAll(known);
        return config;
    }

    @Override void begin(Request request) {
        producing(request).sent().clear();
        producing(request).producer().beginTransaction();
    }

    @Override Map<String, Object> send(Request request) throws Exception {
        Integer partition = request.fields().containsKey("partition") ? request.number("partition", 0) : null;
        var record = new ProducerRecord<>(request.text("topic"), partition, request.text("key"), request.text("value"));
        Future<RecordMetadata> sent = producing(request).producer().send(record);
        if (request.flag("wait")) return Map.of("partition", get(sent).partition(), "offset", get(sent).offset());
        producing(request).sent().add(sent);
        return null;
    }

    private static <T> T get(Future<T> future) throws Exception {
        try {
            return future.get();
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }

    @Override void flush(Request request) throws Exception {
        producing(request).producer().flush();
        List<Future<RecordMetadata>> sent = List.copyOf(producing(request).sent());
        producing(request).sent().clear();
        for (Future<RecordMetadata> each : sent) get(each);
    }

    @Override void sendOffsets(Request request) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (Map<String, Object> at : request.<Map<String, Object>>list("offsets")) {
            TopicPartition partition = new TopicPartition((String) at.get("topic"), ((Number) at.get("partition")).intValue());
            offsets.put(partition, new OffsetAndMetadata(((Number) at.get("offset")).longValue()));
        }
        var group = request.text("consumer") == null ? new ConsumerGroupMetadata(request.text("group"))
            : named(consumers, request.text("consumer")).groupMetadata();
        producing(request).producer().sendOffsetsToTransaction(offsets, group);
    }

    @Override void commit(Request request) {
        if (consumers.containsKey(request.client())) consumers.get(request.client()).commitSync();
        else producing(request).producer().commitTransaction();
    }

    @Override void abort(Request request) { producing(request).producer().abortTransaction(); }

    @Override void subscribe(Request request) { named(consumers, request.client()).subscribe(request.<String>list("topics")); }

    @Override Map<String, Object> poll(Request request) {
        List<Map<String, Object>> records = new ArrayList<>();
        long end = System.currentTimeMillis() + request.number("timeout_ms", 0), left;
        do {
            left = Math.max(0, end - System.currentTimeMillis());
            for (var record : named(consumers, request.client()).poll(Duration.ofMillis(left))) records.add(fields(record));
        } while (records.size() < request.number("max", 500) && left > 0);
        return Map.of("records", records);
    }

    private static Map<String, Object> fields(ConsumerRecord<String, String> of) {
        Map<String, Object> fields = new HashMap<>(Map.of("topic", of.topic(), "partition", of.partition(), "offset", of.offset()));
        if (of.key() != null) fields.put("key", of.key());
        fields.put("value", of.value());
        return fields;
    }

    @Override void close(Request request) {
        if (producers.containsKey(request.client())) producers.remove(request.client()).producer().close(Duration.ZERO);
        if (consumers.containsKey(request.client())) consumers.remove(request.client()).close();
    }

    public static void main(String[] arguments) throws Exception { new JavaDriver().run(); }
}
