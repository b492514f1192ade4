import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * The situations of docs/stories that the other scenarios do not get into. What becomes of the producer is counted as
 * `outcome`: it survives (the application saw nothing), aborts (and goes on), or ends (and another one goes on).
 */
class Stories {
    private static final int SESSION_MS = 6000;

    /** What is done within a transaction, between its beginning and its commit. */
    interface Transaction {
        void run(KafkaProducer<String, String> producer) throws Exception;
    }

    /** Two transactions are committed. */
    static void commit(Main.Options options, Map<String, Object> counts) throws Exception {
        topics(options);
        try (KafkaProducer<String, String> producer = Transactions.transactional(options)) {
            play(options, counts, producer, transaction -> write(transaction, options.topic(), "before"));
            if (counts.get("outcome").equals("survives")) {
                commit(producer, options, "next");
                expect(options, options.topic(), "read_committed", List.of("before", "next"));
            }
        }
    }

    /** The same, by a producer that is not the first of its transactional id. */
    static void restart(Main.Options options, Map<String, Object> counts) throws Exception {
        Transactions.transactional(options).close();
        commit(options, counts);
    }

    /** While a commit is on its way, another instance takes the transactional id over. */
    static void secondInstance(Main.Options options, Map<String, Object> counts) throws Exception {
        topics(options);
        KafkaProducer<String, String> first = Transactions.transactional(options);
        first.beginTransaction();
        write(first, options.topic(), "first");
        first.flush();
        Throwable[] failed = new Throwable[1];
        Thread commit = new Thread(() -> {
            try {
                first.commitTransaction();
            } catch (Throwable e) {
                failed[0] = e;
            }
        });
        commit.start();
        Thread.sleep(500);
        try (KafkaProducer<String, String> second = Transactions.transactional(options)) {
            commit(second, options, "next");
        }
        commit.join();
        Main.check(failed[0] != null, "the commit was not refused");
        counts.put("refused", name(failed[0]));
        try {
            first.abortTransaction();
            counts.put("outcome", "aborts");
        } catch (KafkaException e) {
            counts.put("then", name(e));
            counts.put("outcome", "ends");
        }
        first.close();
        expect(options, options.topic(), "read_committed", List.of("next"));
    }

    /** A transaction writes to one topic, and then to another one. */
    static void secondTopic(Main.Options options, Map<String, Object> counts) throws Exception {
        topics(options);
        play(options, counts, producer -> {
            write(producer, options.topic(), "first");
            producer.flush();
            write(producer, output(options), "second");
        });
    }

    /** A transaction takes longer than it may, because its second batch does. */
    static void timeout(Main.Options options, Map<String, Object> counts) throws Exception {
        topics(options);
        play(options, counts, producer -> {
            write(producer, options.topic(), "first");
            producer.flush();
            write(producer, options.topic(), "second");
        }, "transaction.timeout.ms", 1000);
    }

    /** A transaction is committed, nothing is done for a moment, and then another one is to be. */
    static void idle(Main.Options options, Map<String, Object> counts) throws Exception {
        topics(options);
        try (KafkaProducer<String, String> producer = Transactions.transactional(options)) {
            commit(producer, options, "before");
            Thread.sleep(2000);
            play(options, counts, producer, transaction -> write(transaction, options.topic(), "after"));
        }
    }

    /** Records are consumed, copied and their offsets committed in a transaction; again, if that is refused. */
    static void offsets(Main.Options options, Map<String, Object> counts) throws Exception {
        topics(options);
        try (KafkaProducer<String, String> plain = Records.producer(options);
             KafkaProducer<String, String> producer = Transactions.transactional(options);
             KafkaConsumer<String, String> consumer = member(options)) {
            write(plain, options.topic(), "order");
            plain.flush();
            consumer.subscribe(List.of(options.topic()));
            Map<TopicPartition, OffsetAndMetadata> behind = consume(options, consumer);
            Transaction copy = transaction -> {
                write(transaction, output(options), "next");
                Compat.sendOffsets(transaction, behind, consumer, options.group());
            };
            counts.put("outcome", "survives");
            try {
                transact(producer, copy);
            } catch (KafkaException e) {
                counts.put("outcome", "aborts");
                counts.put("refused", name(e));
                producer.abortTransaction();
                transact(producer, copy);
            }
            for (TopicPartition partition : behind.keySet())
                Main.check(Compat.committed(consumer, partition).offset() == 1, "the offset is not committed");
        }
        expect(options, output(options), "read_committed", List.of("next"));
    }

    /** While the offsets of a transaction are on their way, another member joins the group. */
    static void lateOffsets(Main.Options options, Map<String, Object> counts) throws Exception {
        lateOffsets(options, counts, member(options), member(options));
    }

    /** The same with members of a group of KIP-848, who have names. */
    static void lateEpoch(Main.Options options, Map<String, Object> counts) throws Exception {
        lateOffsets(options, counts, modern(options, "late"), modern(options, "other"));
    }

    private static void lateOffsets(Main.Options options, Map<String, Object> counts, KafkaConsumer<String, String> late,
                                    KafkaConsumer<String, String> joining) throws Exception {
        topics(options);
        try (KafkaProducer<String, String> plain = Records.producer(options);
             KafkaProducer<String, String> producer = Transactions.transactional(options);
             KafkaConsumer<String, String> consumer = late;
             KafkaConsumer<String, String> other = joining) {
            write(plain, options.topic(), "order");
            plain.flush();
            consumer.subscribe(List.of(options.topic()));
            Map<TopicPartition, OffsetAndMetadata> behind = consume(options, consumer);
            Object about = Compat.call(consumer, "groupMetadata");
            Throwable[] failed = new Throwable[1];
            Thread copying = new Thread(() -> {
                try {
                    transact(producer, transaction -> {
                        write(transaction, output(options), "copy");
                        Compat.call(transaction, "sendOffsetsToTransaction", behind, about);
                    });
                } catch (Throwable e) {
                    failed[0] = e;
                }
            });
            copying.start();
            Thread.sleep(500);
            other.subscribe(List.of(options.topic()));
            Main.Deadline deadline = options.deadline();
            while (copying.isAlive()) {
                deadline.check("the offsets to be refused");
                Compat.poll(consumer, 50);
                Compat.poll(other, 50);
            }
            counts.put("outcome", failed[0] == null ? "survives" : "aborts");
            if (failed[0] != null) {
                counts.put("refused", name(failed[0]));
                producer.abortTransaction();
            }
        }
        boolean survives = counts.get("outcome").equals("survives");
        expect(options, output(options), "read_committed", survives ? List.of("copy") : List.of());
    }

    /** A member of a group of KIP-848 loses what it has, is told so, and reads on where it has committed. */
    static void expiredMember(Main.Options options, Map<String, Object> counts) throws Exception {
        topics(options);
        int[] lost = new int[1];
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                lost[0] += partitions.size();
            }
        };
        try (KafkaProducer<String, String> plain = Records.producer(options);
             KafkaConsumer<String, String> consumer = modern(options, "late")) {
            write(plain, options.topic(), "before");
            plain.flush();
            consumer.subscribe(List.of(options.topic()), listener);
            consume(options, consumer);
            consumer.commitSync();
            Main.Deadline deadline = options.deadline();
            while (lost[0] == 0) {
                deadline.check("the member to lose its partitions");
                Main.check(Compat.poll(consumer, 50).isEmpty(), "a record came twice");
            }
            write(plain, options.topic(), "next");
            plain.flush();
            long behind = consume(options, consumer).get(new TopicPartition(options.topic(), 0)).offset();
            Main.check(behind == 2, "the member read on before offset " + behind);
        }
        counts.put("lost", lost[0]);
        counts.put("outcome", "survives");
    }

    /** A classic member goes on while one of KIP-848 joins its group, and leaves it everything in the end. */
    static void migration(Main.Options options, Map<String, Object> counts) throws Exception {
        topics(options);
        try (KafkaProducer<String, String> plain = Records.producer(options);
             KafkaConsumer<String, String> classic = member(options);
             KafkaConsumer<String, String> modern = modern(options, "modern")) {
            write(plain, options.topic(), "before");
            plain.flush();
            classic.subscribe(List.of(options.topic()));
            consume(options, classic);
            classic.commitSync();
            modern.subscribe(List.of(options.topic()));
            Set<TopicPartition> both = new HashSet<>();
            Main.Deadline deadline = options.deadline();
            while (classic.assignment().isEmpty() || modern.assignment().isEmpty()
                || classic.assignment().size() + modern.assignment().size() != options.partitions()) {
                deadline.check("both to have partitions: " + classic.assignment() + " and " + modern.assignment());
                Compat.poll(classic, 50);
                Compat.poll(modern, 50);
            }
            both.addAll(classic.assignment());
            both.addAll(modern.assignment());
            Main.check(both.size() == options.partitions(), "two have one partition");
            classic.close();
            while (modern.assignment().size() != options.partitions()) {
                deadline.check("the one that is left to have everything: " + modern.assignment());
                Compat.poll(modern, 50);
            }
            write(plain, options.topic(), "next");
            plain.flush();
            long behind = consume(options, modern).get(new TopicPartition(options.topic(), 0)).offset();
            Main.check(behind == 2, "the member read on before offset " + behind);
        }
        counts.put("outcome", "survives");
    }

    /** The application gives up on a record that is still on its way, and aborts; somebody else writes the next one. */
    static void late(Main.Options options, Map<String, Object> counts) throws Exception {
        topics(options);
        // The producer itself gives up: an application has no other way to abort what has no answer.
        KafkaProducer<String, String> producer = Transactions.transactional(options,
            "request.timeout.ms", 1000, "delivery.timeout.ms", 1500, "linger.ms", 0);
        producer.beginTransaction();
        try {
            producer.send(new ProducerRecord<>(options.topic(), 0, "late", "late")).get();
            throw new Main.Failed("the record was written");
        } catch (ExecutionException e) {
            counts.put("refused", name(e.getCause()));
        }
        try {
            producer.abortTransaction();
            counts.put("outcome", "aborts");
        } catch (KafkaException e) {
            counts.put("outcome", "ends");
            counts.put("then", name(e));
        }
        Thread.sleep(1000);
        try (KafkaProducer<String, String> plain = Records.producer(options)) {
            write(plain, options.topic(), "next");
        }
        counts.put("written", values(options, options.topic(), "read_uncommitted"));
        counts.put("committed", values(options, options.topic(), "read_committed"));
        Compat.call(producer, "close", java.time.Duration.ZERO);
    }

    // ------------------------------------------------------------------ what becomes of a producer

    private static void play(Main.Options options, Map<String, Object> counts, Transaction transaction, Object... pairs)
        throws Exception {
        try (KafkaProducer<String, String> producer = Transactions.transactional(options, pairs)) {
            play(options, counts, producer, transaction);
        }
    }

    private static void play(Main.Options options, Map<String, Object> counts, KafkaProducer<String, String> producer,
                             Transaction transaction) throws Exception {
        try {
            transact(producer, transaction);
            counts.put("outcome", "survives");
            return;
        } catch (KafkaException e) {
            counts.put("refused", name(e));
        }
        try {
            producer.abortTransaction();
            commit(producer, options, "next");
            counts.put("outcome", "aborts");
        } catch (KafkaException e) {
            counts.put("then", name(e));
            counts.put("outcome", "ends");
            try (KafkaProducer<String, String> another = Transactions.transactional(options)) {
                commit(another, options, "next");
            }
        }
        List<String> committed = values(options, options.topic(), "read_committed");
        Main.check(committed.remove("next") && List.of("before").containsAll(committed), "committed " + committed);
    }

    private static void transact(KafkaProducer<String, String> producer, Transaction transaction) throws Exception {
        producer.beginTransaction();
        transaction.run(producer);
        producer.commitTransaction();
    }

    private static void commit(KafkaProducer<String, String> producer, Main.Options options, String value) throws Exception {
        transact(producer, transaction -> write(transaction, options.topic(), value));
    }

    private static String name(Throwable error) {
        Throwable cause = error.getCause();
        return error.getClass().getSimpleName() + (cause == null ? "" : ", because of " + cause.getClass().getSimpleName());
    }

    // ------------------------------------------------------------------ topics and groups

    private static String output(Main.Options options) {
        return options.topic() + "-out";
    }

    private static void topics(Main.Options options) throws Exception {
        Administration.createTopic(options, options.topic(), options.partitions());
        Administration.createTopic(options, output(options), options.partitions());
    }

    private static void write(KafkaProducer<String, String> producer, String topic, String value) {
        producer.send(new ProducerRecord<>(topic, 0, value, value));
    }

    private static KafkaConsumer<String, String> member(Main.Options options) {
        return Records.consumer(options, "group.id", options.group(), "isolation.level", "read_committed",
            "session.timeout.ms", SESSION_MS, "heartbeat.interval.ms", 100);
    }

    /** A member of a group of KIP-848, of which the broker says how often it reports. */
    private static KafkaConsumer<String, String> modern(Main.Options options, String name) {
        return Records.consumer(options, "group.id", options.group(), "isolation.level", "read_committed",
            "group.protocol", "consumer", "client.id", name);
    }

    /** Polls until there is something; the offsets behind it. */
    private static Map<TopicPartition, OffsetAndMetadata> consume(Main.Options options, KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> behind = new HashMap<>();
        Main.Deadline deadline = options.deadline();
        while (behind.isEmpty()) {
            deadline.check("a record");
            ConsumerRecords<String, String> records = Compat.poll(consumer, 100);
            for (ConsumerRecord<String, String> record : records)
                behind.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        return behind;
    }

    private static void expect(Main.Options options, String topic, String isolation, List<String> values) {
        List<String> found = values(options, topic, isolation);
        Main.check(found.equals(values), isolation + " read " + found + ", expected " + values);
    }

    /** What a reader gets of partition 0 within a moment. */
    private static List<String> values(Main.Options options, String topic, String isolation) {
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = Records.consumer(options, "isolation.level", isolation)) {
            List<TopicPartition> partitions = List.of(new TopicPartition(topic, 0));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Main.Deadline quiet = new Main.Deadline(1.5);
            while (!quiet.passed())
                for (ConsumerRecord<String, String> record : Compat.poll(consumer, 100)) values.add(record.value());
        }
        return values;
    }
}
