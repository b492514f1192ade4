import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The records all scenarios write and read: record i goes to partition i % partitions. */
class Records {
    static final String PADDING = "x".repeat(86);

    static String value(int i) {
        return String.format("record-%06d-", i) + PADDING;
    }

    static Properties properties(Main.Options options, Object... pairs) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", options.bootstrap());
        properties.putAll(Security.settings());
        for (int i = 0; i < pairs.length; i += 2) properties.put(pairs[i].toString(), pairs[i + 1].toString());
        return properties;
    }

    /** An idempotent producer, unless the pairs say otherwise. */
    static KafkaProducer<String, String> producer(Main.Options options, Object... pairs) {
        if (options.compression().equals("zstd") && !Compat.bundled("com.github.luben.zstd.Zstd"))
            throw new UnsupportedOperationException("this release has no zstd");
        Properties properties = properties(options, pairs);
        properties.putIfAbsent("enable.idempotence", "true");
        properties.put("acks", "all");
        properties.put("compression.type", options.compression());
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(Main.Options options, Object... pairs) {
        Properties properties = properties(options, pairs);
        properties.put("enable.auto.commit", "false");
        properties.putIfAbsent("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    static List<TopicPartition> partitions(String topic, int count) {
        return IntStream.range(0, count).mapToObj(index -> new TopicPartition(topic, index)).toList();
    }

    /** Sends records from..to and waits for all; the offsets given back must follow one another. */
    static void produce(Producer<String, String> producer, Main.Options options, int from, int to) {
        produce(producer, options, from, to, Records::value);
    }

    static void produce(Producer<String, String> producer, Main.Options options, int from, int to,
                        IntFunction<String> values) {
        AtomicReference<String> wrong = new AtomicReference<>();
        Map<Integer, Long> next = new HashMap<>();
        for (int i = from; i < to; i++) {
            int partition = i % options.partitions();
            producer.send(new ProducerRecord<>(options.topic(), partition, Integer.toString(i), values.apply(i)), (where, error) -> {
                if (error != null) wrong.compareAndSet(null, error.toString());
                else {
                    Long expected = next.put(partition, where.offset() + 1);
                    if (expected != null && expected != where.offset())
                        wrong.compareAndSet(null, "offset " + where.offset() + " after " + (expected - 1) + " in " + where);
                }
            });
        }
        producer.flush();
        Main.check(wrong.get() == null, "produce: " + wrong.get());
    }

    /**
     * Reads the partitions of the topic from the beginning until the expected number of records has come, then half
     * a second more for those that should not come.
     */
    static Map<Integer, List<ConsumerRecord<String, String>>> read(Main.Options options, String topic, String isolation, int expected) {
        Map<Integer, List<ConsumerRecord<String, String>>> found = new HashMap<>();
        int count = 0;
        try (KafkaConsumer<String, String> consumer = consumer(options, "isolation.level", isolation, "max.poll.records", 5000)) {
            List<TopicPartition> partitions = partitions(topic, options.partitions());
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Main.Deadline deadline = options.deadline();
            Main.Deadline quiet = null;
            while (quiet == null ? !deadline.passed() : !quiet.passed()) {
                for (ConsumerRecord<String, String> record : Compat.poll(consumer, 100)) {
                    found.computeIfAbsent(record.partition(), index -> new ArrayList<>()).add(record);
                    count++;
                }
                if (quiet == null && count >= expected) quiet = new Main.Deadline(0.5);
            }
        }
        Main.check(count == expected, "read " + count + " records " + isolation + ", expected " + expected);
        return found;
    }
}
