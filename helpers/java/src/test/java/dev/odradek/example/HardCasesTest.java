package dev.odradek.example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.odradek.Cluster;
import dev.odradek.Odradek;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;

/** Three hard cases for a transactional client, and a story, played with kafka-clients. */
@Odradek(topics = "orders")
class HardCasesTest {
    private static final TopicPartition ORDERS = new TopicPartition("orders", 0);

    @Test
    void aCommitWhoseAnswerIsLost(Cluster cluster) {
        cluster.arm(Map.of("match", Map.of("api", "END_TXN"), "act", Map.of("disconnect", "after"), "expect", Map.of("hits", 1)));
        try (KafkaProducer<String, String> producer = till(cluster)) {
            send(producer, "one coffee");
            producer.commitTransaction();
        }
        cluster.waitFor("transaction", Map.of("id", "till-1", "state", "CompleteCommit"));
        assertEquals(List.of("one coffee"), committed(cluster, 2));
    }

    @Test
    @Odradek(brokers = 3, topics = "orders")
    void markersThatWait(Cluster cluster) {
        String markers = cluster.arm(Map.of(
                "match", Map.of("api", "WRITE_TXN_MARKERS"), "act", Map.of("hold", true), "when", Map.of("times", "all"), "expect", Map.of("at_least", 1)));
        try (KafkaProducer<String, String> producer = till(cluster)) {
            send(producer, "one coffee");
            producer.commitTransaction();
        }
        cluster.waitFor("rule", Map.of("name", markers, "held", 1));
        assertEquals(0, cluster.get("partitions", "orders", 0).get("last_stable_offset").asInt());
        cluster.disarm(markers);
        assertEquals(List.of("one coffee"), committed(cluster, 2));
    }

    @Test
    void aTransactionThatTakesTooLong(Cluster cluster) {
        try (KafkaProducer<String, String> producer = till(cluster)) {
            send(producer, "one coffee");
            cluster.advance(Duration.ofMinutes(2));
            cluster.waitFor("transaction", Map.of("id", "till-1", "state", "CompleteAbort"));
            assertThrows(KafkaException.class, producer::commitTransaction);
        }
        assertEquals(List.of(), committed(cluster, 2));
    }

    @Test
    @Odradek(story = "end-txn-answer-lost-in-prepare")
    void aStory(Cluster cluster) {
        try (KafkaProducer<String, String> producer = till(cluster)) {
            send(producer, "one coffee");
            producer.commitTransaction();
        }
        cluster.verify();
    }

    @Test
    @Odradek(topics = "orders", security = "sasl-ssl")
    void aClusterWithLogins(Cluster cluster) {
        try (KafkaProducer<String, String> producer = till(cluster)) {
            send(producer, "one coffee");
            producer.commitTransaction();
        }
        assertEquals("SASL_SSL", cluster.settings().get("security.protocol"));
        assertEquals(List.of("one coffee"), committed(cluster, 2));
    }

    private static KafkaProducer<String, String> till(Cluster cluster) {
        Map<String, Object> settings = cluster.settings();
        settings.put("transactional.id", "till-1");
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    private static void send(KafkaProducer<String, String> producer, String value) {
        producer.beginTransaction();
        producer.send(new ProducerRecord<>("orders", value));
        producer.flush();
    }

    /** What a read_committed consumer gets, once everything below this offset is decided. */
    private static List<String> committed(Cluster cluster, int stableTo) {
        cluster.waitFor("partition", Map.of("topic", "orders", "partition", 0, "last_stable_offset", stableTo));
        Map<String, Object> settings = cluster.settings();
        settings.putAll(Map.of("isolation.level", "read_committed", "auto.offset.reset", "earliest"));
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(ORDERS));
            while (true) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(1));
                if (consumer.position(ORDERS) >= stableTo) {
                    return records.records(ORDERS).stream().map(ConsumerRecord::value).toList();
                }
            }
        }
    }
}
