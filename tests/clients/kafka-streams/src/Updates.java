import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** The counts in the output topic that a reader of one isolation level has seen so far. */
class Updates implements AutoCloseable {
    /** The counts of each word, in the order of their offsets (a word has one partition). */
    final Map<String, List<Long>> counts = new HashMap<>();
    private final KafkaConsumer<String, Long> consumer;
    private final List<TopicPartition> partitions;

    Updates(Main.Options options, String topic, String isolation) {
        // the wait is short because whoever asks for the end of the topic waits behind the fetch under way
        Properties properties = Records.properties(options, "isolation.level", isolation, "enable.auto.commit", false,
            "max.poll.records", 5000, "fetch.max.wait.ms", 50);
        consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new LongDeserializer());
        partitions = Records.partitions(topic, options.partitions());
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
    }

    int size() {
        return counts.values().stream().mapToInt(List::size).sum();
    }

    Updates poll() {
        for (ConsumerRecord<String, Long> update : Compat.poll(consumer, 50))
            counts.computeIfAbsent(update.key(), word -> new ArrayList<>()).add(update.value());
        return this;
    }

    /** The sum over the partitions: of the last stable offsets, or of the high watermarks. */
    long end() {
        return consumer.endOffsets(partitions).values().stream().mapToLong(Long::longValue).sum();
    }

    /** True once everything before this sum of offsets has been read. */
    boolean reached(long end) {
        return partitions.stream().mapToLong(consumer::position).sum() >= end;
    }

    @Override
    public void close() {
        consumer.close();
    }
}
