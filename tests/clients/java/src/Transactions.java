import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** Transactions: outcomes, offsets in the transaction, fencing, timeout. */
class Transactions {
    private static final int RECORDS = 10; // in each transaction

    static KafkaProducer<String, String> transactional(Main.Options options, Object... pairs) {
        Object[] all = java.util.stream.Stream.concat(List.<Object>of("transactional.id", options.transactionalId()).stream(),
            List.of(pairs).stream()).toArray();
        KafkaProducer<String, String> producer = Records.producer(options, all);
        producer.initTransactions();
        return producer;
    }

    /** Sends the records of a transaction, named after it, to all partitions in turn, and waits for the answers. */
    private static List<String> send(KafkaProducer<String, String> producer, Main.Options options, String name) {
        List<String> values = new ArrayList<>();
        for (int i = 0; i < RECORDS; i++) {
            values.add(name + "-" + i);
            producer.send(new ProducerRecord<>(options.topic(), i % options.partitions(), name, name + "-" + i));
        }
        producer.flush();
        return values;
    }

    /** The topic must hold exactly these values for a reader of this isolation level, in this order per partition. */
    private static void expect(Main.Options options, String isolation, List<String> values) {
        Map<Integer, List<String>> expected = new HashMap<>(), found = new HashMap<>();
        for (String value : values) {
            int partition = Integer.parseInt(value.substring(value.lastIndexOf('-') + 1)) % options.partitions();
            expected.computeIfAbsent(partition, index -> new ArrayList<>()).add(value);
        }
        Records.read(options, options.topic(), isolation, values.size())
            .forEach((partition, records) -> found.put(partition, records.stream().map(ConsumerRecord::value).toList()));
        Main.check(found.equals(expected), isolation + " read " + found + ", expected " + expected);
    }

    private static long endOffset(Main.Options options, String isolation) {
        TopicPartition partition = new TopicPartition(options.topic(), 0);
        try (KafkaConsumer<String, String> consumer = Records.consumer(options, "isolation.level", isolation)) {
            return consumer.endOffsets(List.of(partition)).get(partition);
        }
    }

    static void transactions(Main.Options options, Map<String, Object> counts) throws Exception {
        Administration.createTopic(options, options.topic(), options.partitions());
        List<String> all = new ArrayList<>(), committed = new ArrayList<>();
        try (KafkaProducer<String, String> producer = transactional(options)) {
            for (int n = 0; n < options.transactions(); n++) {
                producer.beginTransaction();
                List<String> values = send(producer, options, "t" + n);
                all.addAll(values);
                if (n % 2 == 0) {
                    producer.commitTransaction();
                    committed.addAll(values);
                } else producer.abortTransaction();
            }
            producer.beginTransaction();
            List<String> open = send(producer, options, "open");
            all.addAll(open);
            expect(options, "read_uncommitted", all);
            expect(options, "read_committed", committed);
            Main.check(endOffset(options, "read_committed") < endOffset(options, "read_uncommitted"), "an open transaction does not hold back the last stable offset");
            producer.commitTransaction();
            committed.addAll(open);
            expect(options, "read_committed", committed);
        }
        counts.put("transactions", options.transactions() + 1);
        counts.put("committed_records", committed.size());
    }

    static void offsets(Main.Options options, Map<String, Object> counts) throws Exception {
        String output = options.topic() + "-out";
        Administration.createTopic(options, options.topic(), options.partitions());
        Administration.createTopic(options, output, options.partitions());
        try (KafkaProducer<String, String> producer = Records.producer(options)) {
            Records.produce(producer, options, 0, options.records());
        }
        List<TopicPartition> partitions = Records.partitions(options.topic(), options.partitions());
        int copied = 0, transactions = 0, aborted = 0;
        try (KafkaProducer<String, String> producer = transactional(options);
             KafkaConsumer<String, String> consumer = Records.consumer(options, "group.id", options.group(),
                 "isolation.level", "read_committed", "max.poll.records", Math.max(1, options.records() / 20), "session.timeout.ms", 6000)) {
            consumer.subscribe(List.of(options.topic()));
            Main.Deadline deadline = options.deadline();
            while (copied < options.records()) {
                deadline.check("all records to be copied, " + copied + " so far");
                ConsumerRecords<String, String> records = Compat.poll(consumer, 100);
                if (records.isEmpty()) continue;
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(output, record.partition(), record.key(), record.value()));
                    next.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                Compat.sendOffsets(producer, next, consumer, options.group());
                if (++transactions % 3 == 0) {
                    producer.abortTransaction();
                    aborted++;
                    for (TopicPartition partition : consumer.assignment()) {
                        OffsetAndMetadata committed = Compat.committed(consumer, partition);
                        consumer.seek(partition, committed == null ? 0 : committed.offset());
                    }
                } else {
                    producer.commitTransaction();
                    copied += records.count();
                }
            }
            for (TopicPartition partition : partitions) {
                long end = consumer.endOffsets(List.of(partition)).get(partition);
                OffsetAndMetadata committed = Compat.committed(consumer, partition);
                Main.check(committed != null && committed.offset() == end, partition + " committed " + committed + ", expected " + end);
            }
        }
        Set<String> keys = new HashSet<>();
        Records.read(options, output, "read_committed", options.records())
            .values().forEach(records -> records.forEach(record -> keys.add(record.key())));
        Main.check(keys.size() == options.records(), "copied " + keys.size() + " different records of " + options.records());
        counts.put("transactions", transactions);
        counts.put("aborted", aborted);
        counts.put("records", copied);
    }

    /** A transaction is refused in the middle; it is aborted, and the same producer commits the next one. */
    static void lost(Main.Options options, Map<String, Object> counts) throws Exception {
        Administration.createTopic(options, options.topic(), options.partitions());
        try (KafkaProducer<String, String> producer = transactional(options)) {
            producer.beginTransaction();
            send(producer, options, "lost");
            counts.put("refused", refused(producer::commitTransaction));
            producer.abortTransaction();
            producer.beginTransaction();
            List<String> values = send(producer, options, "next");
            producer.commitTransaction();
            expect(options, "read_committed", values);
        }
    }

    static void zombie(Main.Options options, Map<String, Object> counts) throws Exception {
        Administration.createTopic(options, options.topic(), options.partitions());
        List<String> committed = new ArrayList<>();
        KafkaProducer<String, String> zombie = transactional(options);
        zombie.beginTransaction();
        committed.addAll(send(zombie, options, "before"));
        zombie.commitTransaction();
        zombie.beginTransaction();
        send(zombie, options, "zombie");
        try (KafkaProducer<String, String> owner = transactional(options)) {
            counts.put("fenced", refused(zombie::commitTransaction));
            owner.beginTransaction();
            committed.addAll(send(owner, options, "after"));
            owner.commitTransaction();
        }
        expect(options, "read_committed", committed);
        zombie.close();
    }

    static void timeout(Main.Options options, Map<String, Object> counts) throws Exception {
        Administration.createTopic(options, options.topic(), options.partitions());
        try (KafkaProducer<String, String> slow = transactional(options, "transaction.timeout.ms", 1500)) {
            slow.beginTransaction();
            send(slow, options, "slow");
            Main.Deadline deadline = options.deadline();
            while (endOffset(options, "read_committed") != endOffset(options, "read_uncommitted")) {
                deadline.check("the coordinator to abort the transaction");
                Thread.sleep(100);
            }
            counts.put("refused", refused(slow::commitTransaction));
        }
        try (KafkaProducer<String, String> next = transactional(options)) {
            next.beginTransaction();
            List<String> values = send(next, options, "next");
            next.commitTransaction();
            expect(options, "read_committed", values);
        }
    }

    private static String refused(Runnable commit) {
        try {
            commit.run();
        } catch (KafkaException e) {
            return e.getClass().getSimpleName();
        }
        throw new Main.Failed("the commit was not refused");
    }
}
