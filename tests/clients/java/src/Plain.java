import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.WakeupException;

/** Produce and consume, and consumer groups. */
class Plain {
    static void produceConsume(Main.Options options, Map<String, Object> counts) throws Exception {
        // one request in flight: without sequence numbers a retry could overtake the batches behind it
        roundTrip(options, counts, "enable.idempotence", false, "max.in.flight.requests.per.connection", 1,
            "retries", Integer.MAX_VALUE, "batch.size", 65536);
    }

    static void idempotent(Main.Options options, Map<String, Object> counts) throws Exception {
        // the default number of records fills several of these; 0.11 has one request in flight, later releases five
        roundTrip(options, counts, "enable.idempotence", true, "batch.size", 4096);
    }

    /** Produces with this configuration, reads back, and finds all records in order, unchanged. */
    private static void roundTrip(Main.Options options, Map<String, Object> counts, Object... configuration)
        throws Exception {
        Administration.createTopic(options, options.topic(), options.partitions());
        Object[] all = Stream.concat(Stream.of("linger.ms", 5), Stream.of(configuration)).toArray();
        try (KafkaProducer<String, String> producer = Records.producer(options, all)) {
            Records.produce(producer, options, 0, options.records());
        }
        var found = Records.read(options, options.topic(), "read_uncommitted", options.records());
        for (int partition = 0; partition < options.partitions(); partition++) {
            List<ConsumerRecord<String, String>> records = found.getOrDefault(partition, List.of());
            for (int n = 0; n < records.size(); n++) {
                ConsumerRecord<String, String> record = records.get(n);
                int i = n * options.partitions() + partition;
                Main.check(record.offset() == n && record.key().equals(Integer.toString(i)) && record.value().equals(Records.value(i)),
                    "partition " + partition + " has " + record.key() + " at offset " + record.offset() + ", expected " + i + " at " + n);
            }
        }
        counts.put("records", options.records());
    }

    /** One member: polls and commits in a thread of its own until it is told to leave. */
    static class Member extends Thread {
        final KafkaConsumer<String, String> consumer;
        final Set<Integer> seen;
        final List<Integer> own = java.util.Collections.synchronizedList(new ArrayList<>());
        volatile Set<TopicPartition> assigned = Set.of();
        volatile Throwable failure;
        private volatile boolean leaving;

        Member(Main.Options options, Set<Integer> seen) {
            this.seen = seen;
            // With the consumer protocol (KIP-848) it is the broker that says how often a member reports.
            consumer = options.scenario().equals("consumer-protocol")
                ? Records.consumer(options, "group.id", options.group(), "group.protocol", "consumer")
                : Records.consumer(options, "group.id", options.group(), "heartbeat.interval.ms", 300,
                    "session.timeout.ms", 6000);
            consumer.subscribe(List.of(options.topic()));
            start();
        }

        @Override
        public void run() {
            try {
                while (!leaving) {
                    ConsumerRecords<String, String> records = Compat.poll(consumer, 100);
                    assigned = new HashSet<>(consumer.assignment());
                    for (ConsumerRecord<String, String> record : records) {
                        seen.add(Integer.parseInt(record.key()));
                        own.add(Integer.parseInt(record.key()));
                    }
                    try {
                        if (!records.isEmpty()) consumer.commitSync();
                    } catch (CommitFailedException | RetriableException e) {
                        // a rebalance came first: the records come again
                    }
                }
                assigned = Set.of();
                consumer.close();
            } catch (WakeupException e) {
                consumer.close();
            } catch (Throwable e) {
                failure = e;
            }
        }

        void leave() throws InterruptedException {
            leaving = true;
            join(20_000);
            Main.check(!isAlive(), "a member did not leave");
        }
    }

    static void until(Main.Options options, String what, List<Member> members, BooleanSupplier holds) throws InterruptedException {
        Main.Deadline deadline = options.deadline();
        while (!holds.getAsBoolean()) {
            for (Member member : members) Main.check(member.failure == null, what + ": " + member.failure);
            deadline.check(what + "; assigned " + members.stream().map(member -> member.assigned.toString()).toList());
            Thread.sleep(20);
        }
    }

    /** The same with a group of KIP-848, which the broker assigns. */
    static void consumerProtocol(Main.Options options, Map<String, Object> counts) throws Exception {
        group(options, counts);
    }

    static void group(Main.Options options, Map<String, Object> counts) throws Exception {
        int n = options.records(), partitions = options.partitions(), again = 5;
        Administration.createTopic(options, options.topic(), partitions);
        Set<Integer> seen = ConcurrentHashMap.newKeySet();
        try (KafkaProducer<String, String> producer = Records.producer(options)) {
            Records.produce(producer, options, 0, n);
            Member first = new Member(options, seen), second = new Member(options, seen);
            List<Member> both = List.of(first, second);
            until(options, "two members to split the partitions", both, () -> {
                Set<TopicPartition> union = new HashSet<>(first.assigned);
                union.addAll(second.assigned);
                return union.size() == partitions && first.assigned.size() + second.assigned.size() == partitions
                    && !first.assigned.isEmpty() && !second.assigned.isEmpty();
            });
            until(options, "the first records", both, () -> seen.size() == n);

            second.leave();
            until(options, "one member to take over all partitions", List.of(first), () -> first.assigned.size() == partitions);
            Records.produce(producer, options, n, 2 * n);
            until(options, "the second records", List.of(first), () -> seen.size() == 2 * n);
            first.leave();

            TopicPartition rewound = new TopicPartition(options.topic(), 0);
            try (KafkaConsumer<String, String> outsider = Records.consumer(options, "group.id", options.group())) {
                for (TopicPartition partition : Records.partitions(options.topic(), partitions)) {
                    long end = outsider.endOffsets(List.of(partition)).get(partition);
                    OffsetAndMetadata committed = Compat.committed(outsider, partition);
                    Main.check(committed != null && committed.offset() == end, partition + " committed " + committed + ", expected " + end);
                    if (partition.equals(rewound)) outsider.commitSync(Map.of(rewound, new OffsetAndMetadata(end - again, "rewound")));
                }
            }
            Records.produce(producer, options, 2 * n, 3 * n);
            Member third = new Member(options, ConcurrentHashMap.newKeySet());
            until(options, "a new member to resume", List.of(third), () -> third.own.size() >= n + again);
            Thread.sleep(300);
            third.leave();
            Set<Integer> expected = new HashSet<>();
            for (int i = 2 * n; i < 3 * n; i++) expected.add(i);
            int last = (2 * n - 1) / partitions * partitions; // the last record of partition 0 before the rewinding
            for (int i = 0; i < again; i++) expected.add(last - i * partitions);
            Main.check(third.own.size() == n + again && new HashSet<>(third.own).equals(expected),
                "resumed with " + third.own.size() + " records, expected exactly the " + (n + again) + " behind the committed offsets");
            counts.put("records", seen.size() + third.own.size());
            counts.put("repeated", first.own.size() + second.own.size() - seen.size());
        }
    }
}
