import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** One test: its topic, how much of what it is about, and its clients, which have their own settings and those given. */
class Play implements AutoCloseable {
    static final long PATIENCE_NANOS = 60_000_000_000L;

    final String topic, group, id;
    final int partitions, records, transactions, bytes;
    final Admin admin;
    private final Map<String, String> given, settings;

    Play(Map<String, String> given, Map<String, String> settings) {
        this.given = given;
        this.settings = settings;
        topic = given.get("topic");
        group = topic + "-group";
        id = topic + "-id";
        partitions = number("partitions");
        records = number("records");
        transactions = number("transactions");
        bytes = number("bytes");
        admin = Admin.create(properties("admin."));
    }

    private int number(String name) {
        return Integer.parseInt(given.getOrDefault(name, "1"));
    }

    private Properties properties(String kind, Object... pairs) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", given.get("bootstrap"));
        settings.forEach((name, value) -> {
            if (name.startsWith(kind)) properties.put(name.substring(kind.length()), value);
        });
        for (int i = 0; i < pairs.length; i += 2) properties.put(pairs[i], pairs[i + 1].toString());
        return properties;
    }

    KafkaProducer<String, String> producer(Object... pairs) {
        Properties properties = properties("producer.", pairs);
        properties.put("compression.type", given.getOrDefault("compression", "none"));
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    KafkaProducer<String, String> transactional() {
        KafkaProducer<String, String> producer = producer("transactional.id", id);
        producer.initTransactions();
        return producer;
    }

    KafkaConsumer<String, String> consumer(Object... pairs) {
        Properties properties = properties("consumer.", pairs);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    KafkaConsumer<String, String> member(Object... pairs) {
        Object[] own = {"group.id", group, "isolation.level", "read_committed"};
        KafkaConsumer<String, String> member =
            consumer(java.util.stream.Stream.of(own, pairs).flatMap(java.util.Arrays::stream).toArray());
        member.subscribe(List.of(topic));
        return member;
    }

    KafkaConsumer<String, String> reader(String of, String isolation) {
        KafkaConsumer<String, String> reader = consumer("isolation.level", isolation);
        reader.assign(IntStream.range(0, partitions).mapToObj(at -> new TopicPartition(of, at)).toList());
        return reader;
    }

    void create(String name) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all().get();
    }

    List<ProducerRecord<String, String>> made(String to, int from, int end) {
        List<ProducerRecord<String, String>> made = new ArrayList<>();
        for (int i = from; i < end; i++) {
            String text = i + ":";
            text += "x".repeat(Math.max(0, bytes - text.length()));
            made.add(new ProducerRecord<>(to, i % partitions, Integer.toString(i), text));
        }
        return made;
    }

    void send(KafkaProducer<String, String> producer, Collection<ProducerRecord<String, String>> records) throws Exception {
        List<Future<?>> sent = new ArrayList<>();
        for (ProducerRecord<String, String> record : records) sent.add(producer.send(record));
        producer.flush();
        for (Future<?> future : sent) future.get();
    }

    void produce(int from, int end) throws Exception {
        try (KafkaProducer<String, String> producer = producer()) {
            send(producer, made(topic, from, end));
        }
    }

    /** Polls until so many records are there. */
    List<ConsumerRecord<String, String>> take(KafkaConsumer<String, String> reader, int count) throws Exception {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long end = System.nanoTime() + PATIENCE_NANOS;
        while (found.size() < count) {
            Main.check(System.nanoTime() < end, "read " + found.size() + " of " + count + " records");
            reader.poll(Duration.ofMillis(100)).forEach(found::add);
        }
        return found;
    }

    void read(String of, String isolation, List<ProducerRecord<String, String>> wanted) throws Exception {
        try (KafkaConsumer<String, String> reader = reader(of, isolation)) {
            expect(take(reader, wanted.size()), wanted);
        }
    }

    /** These records, in order within each partition, each unchanged. */
    static void expect(Collection<ConsumerRecord<String, String>> found, List<ProducerRecord<String, String>> wanted) {
        Map<Integer, List<String>> one = new TreeMap<>(), other = new TreeMap<>();
        for (var record : found)
            one.computeIfAbsent(record.partition(), at -> new ArrayList<>()).add(record.key() + " " + record.value());
        for (var record : wanted)
            other.computeIfAbsent(record.partition(), at -> new ArrayList<>()).add(record.key() + " " + record.value());
        Main.check(one.equals(other), "read " + one + ", expected " + other);
    }

    /** The offsets of the group are behind the last of so many records. */
    void committed(int ends) throws Exception {
        var found = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        for (int at = 0; at < partitions; at++) {
            long expected = (ends - at + partitions - 1) / partitions;
            var offset = found.get(new TopicPartition(topic, at));
            Main.check(expected == 0 || offset != null && offset.offset() == expected, "committed " + found);
        }
    }

    static void until(String what, Callable<Boolean> holds) throws Exception {
        long end = System.nanoTime() + PATIENCE_NANOS;
        while (!holds.call()) {
            Main.check(System.nanoTime() < end, "timed out waiting until " + what);
            Thread.sleep(2);
        }
    }

    @Override
    public void close() {
        admin.close();
    }
}
