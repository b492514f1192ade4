import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Share consumers (KIP-932): each scenario is one thing that a share group promises. */
public class Sharing {
    private static final int LOCK_MS = 1500;
    /** The limit of deliveries of the stories of dead letters. */
    private static final int DELIVERIES = 2;
    private static final int QUIET_S = 20;
    private final Main.Options options;
    private final TopicPartition partition;

    private Sharing(Main.Options options) {
        this.options = options;
        partition = new TopicPartition(options.topic(), 0);
    }

    public static void main(String[] arguments) {
        Map<String, Main.Scenario> scenarios = new HashMap<>();
        for (String name : Main.SCENARIOS.keySet()) scenarios.put(name, Main.unsupported("a share consumer only shares"));
        scenarios.put("share", (options, counts) -> new Sharing(options).run(counts));
        scenarios.put("story-share-lock", (options, counts) -> new Sharing(options).lateAcknowledgement(counts));
        scenarios.put("story-share-aborted", (options, counts) -> new Sharing(options).lateMarkers(counts));
        scenarios.put("story-share-dead-letter", (options, counts) -> new Sharing(options).deadLetter(counts));
        Main.run(arguments, "kafka-clients " + Main.version("kafka"), scenarios);
    }

    private void run(Map<String, Object> counts) throws Exception {
        Administration.createTopic(options, options.topic(), 1);
        for (String group : List.of("all", "some", "two", "slow", "committed")) configure(group);
        counts.put("accepted", accepted());
        counts.put("redelivered", releasedAndRejected());
        counts.put("members", twoMembers());
        counts.put("expired", locksExpire());
        counts.put("committed", abortedIsInvisible());
    }

    private String group(String name) {
        return options.group() + "-" + name;
    }

    /** Begins at the first record, has short locks, and sees what is committed where that is its name. */
    private void configure(String name) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group(name));
        Map<String, String> wanted = new TreeMap<>(Map.of("share.auto.offset.reset", "earliest"));
        if (name.equals("committed")) wanted.put("share.isolation.level", "read_committed");
        if (name.equals("dead")) {
            wanted.put("errors.deadletterqueue.topic.name", letters());
            wanted.put("errors.deadletterqueue.copy.record.enable", "true");
        }
        if (name.equals("slow")) wanted.put("share.record.lock.duration.ms", String.valueOf(LOCK_MS));
        List<AlterConfigOp> operations = new ArrayList<>();
        wanted.forEach((key, value) ->
            operations.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
        try (Admin admin = Admin.create(Records.properties(options))) {
            admin.incrementalAlterConfigs(Map.of(resource, operations)).all().get();
        }
    }

    private KafkaShareConsumer<String, String> member(String name, String mode) {
        Properties properties = Records.properties(options, "group.id", group(name),
            "share.acknowledgement.mode", mode, "max.poll.records", 50);
        KafkaShareConsumer<String, String> member =
            new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
        member.subscribe(List.of(options.topic()));
        return member;
    }

    private void produce(int from, int to) {
        try (KafkaProducer<String, String> producer = Records.producer(options)) {
            for (int i = from; i < to; i++)
                producer.send(new ProducerRecord<>(options.topic(), 0, null, Records.value(i)));
        }
    }

    private void until(String what, BooleanSupplier holds) {
        Main.Deadline deadline = options.deadline();
        while (!holds.getAsBoolean()) deadline.check(what);
    }

    /** Every record comes, is accepted, and the group has got to the end. */
    private int accepted() throws Exception {
        produce(0, options.records());
        Set<String> got = new HashSet<>();
        try (KafkaShareConsumer<String, String> member = member("all", "implicit")) {
            until("every record", () -> {
                for (ConsumerRecord<String, String> record : member.poll(Duration.ofMillis(200)))
                    Main.check(got.add(record.value()), "a record came twice: " + record.value());
                return got.size() == options.records();
            });
            member.commitSync();
        }
        try (Admin admin = Admin.create(Records.properties(options))) {
            var offsets = admin.listShareGroupOffsets(Map.of(group("all"), new ListShareGroupOffsetsSpec()))
                .partitionsToOffsetInfo(group("all")).get();
            long start = offsets.get(partition).startOffset();
            long lag = offsets.get(partition).lag().orElse(-1L);
            Main.check(lag == 0, "the group stands at " + start + " with a lag of " + lag);
        }
        return got.size();
    }

    /** What is released comes again, with a higher count; what is rejected does not. */
    private int releasedAndRejected() {
        Map<Long, Integer> deliveries = new TreeMap<>();
        Set<Long> rejected = new HashSet<>();
        Set<Long> done = new HashSet<>();
        try (KafkaShareConsumer<String, String> member = member("some", "explicit")) {
            until("every record to be accepted or rejected", () -> {
                for (ConsumerRecord<String, String> record : member.poll(Duration.ofMillis(200))) {
                    int count = record.deliveryCount().orElseThrow();
                    Main.check(!rejected.contains(record.offset()), "a rejected record came again");
                    Main.check(count == deliveries.merge(record.offset(), 1, Integer::sum),
                        "a record comes for the time " + deliveries.get(record.offset()) + " and says " + count);
                    if (record.offset() % 10 == 3 && count == 1) {
                        member.acknowledge(record, AcknowledgeType.RELEASE);
                    } else if (record.offset() % 10 == 7) {
                        member.acknowledge(record, AcknowledgeType.REJECT);
                        rejected.add(record.offset());
                        done.add(record.offset());
                    } else {
                        member.acknowledge(record, AcknowledgeType.ACCEPT);
                        done.add(record.offset());
                    }
                }
                member.commitSync();
                return done.size() == options.records();
            });
        }
        long again = deliveries.values().stream().filter(count -> count == 2).count();
        Main.check(again == options.records() / 10, again + " records came twice");
        return (int) again;
    }

    /** Two members read from one partition: both get records, and nobody gets one that the other has. */
    private int twoMembers() {
        Map<String, Integer> got = new HashMap<>();
        Set<String> seen = new HashSet<>();
        try (KafkaShareConsumer<String, String> first = member("two", "implicit");
             KafkaShareConsumer<String, String> second = member("two", "implicit")) {
            until("every record to come to one of two members", () -> {
                int member = 0;
                for (KafkaShareConsumer<String, String> each : List.of(first, second)) {
                    String name = "member " + member++;
                    for (ConsumerRecord<String, String> record : each.poll(Duration.ofMillis(100))) {
                        Main.check(seen.add(record.value()), "both members got " + record.value());
                        got.merge(name, 1, Integer::sum);
                    }
                }
                return seen.size() == options.records();
            });
        }
        Main.check(got.size() == 2, "one member got everything: " + got);
        return got.size();
    }

    /** A member that keeps records too long loses them to another. */
    private int locksExpire() {
        Set<Long> kept = new HashSet<>();
        Set<Long> came = new HashSet<>();
        try (KafkaShareConsumer<String, String> slow = member("slow", "explicit");
             KafkaShareConsumer<String, String> other = member("slow", "implicit")) {
            until("records", () -> {
                for (ConsumerRecord<String, String> record : slow.poll(Duration.ofMillis(200))) kept.add(record.offset());
                return !kept.isEmpty();
            });
            until("the records of the slow member", () -> {
                for (ConsumerRecord<String, String> record : other.poll(Duration.ofMillis(200)))
                    if (kept.contains(record.offset()) && record.deliveryCount().orElseThrow() > 1) came.add(record.offset());
                return came.containsAll(kept);
            });
        }
        return came.size();
    }

    /** A story: a record is accepted when its lock is over; that is refused, and it comes for the second time. */
    private void lateAcknowledgement(Map<String, Object> counts) throws Exception {
        Administration.createTopic(options, options.topic(), 1);
        configure("late");
        produce(0, 1);
        try (KafkaShareConsumer<String, String> member = member("late", "explicit")) {
            ConsumerRecord<String, String> first = next(member);
            member.acknowledge(first, AcknowledgeType.ACCEPT);
            Map<TopicIdPartition, Optional<KafkaException>> refused = member.commitSync();
            ConsumerRecord<String, String> again = next(member);
            Main.check(again.offset() == first.offset() && again.deliveryCount().orElseThrow() == 2,
                "offset " + again.offset() + " came for the time " + again.deliveryCount());
            member.acknowledge(again, AcknowledgeType.ACCEPT);
            Map<TopicIdPartition, Optional<KafkaException>> taken = member.commitSync();
            Main.check(refused.values().stream().allMatch(Optional::isPresent), "too late, and taken: " + refused);
            Main.check(taken.values().stream().noneMatch(Optional::isPresent), "in time, and refused: " + taken);
            counts.put("refused", refused.values().iterator().next().orElseThrow().getClass().getSimpleName());
        }
        counts.put("outcome", "again");
    }

    /** A story: markers come late, and a group that reads committed records gets none that is aborted. */
    private void lateMarkers(Map<String, Object> counts) throws Exception {
        Administration.createTopic(options, options.topic(), 1);
        configure("committed");
        try (KafkaShareConsumer<String, String> member = member("committed", "implicit");
             KafkaProducer<String, String> producer = Records.producer(options, "transactional.id", options.transactionalId())) {
            producer.initTransactions();
            for (String value : List.of("aborted", "next")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(options.topic(), 0, null, value));
                producer.flush();
                if (value.equals("aborted")) producer.abortTransaction();
                else producer.commitTransaction();
            }
            ConsumerRecord<String, String> record = next(member);
            Main.check(record.value().equals("next"), "there came " + record.value());
        }
        counts.put("outcome", "survives");
    }

    /** A story: a record is given back until it is a dead letter, and the one behind it is accepted. */
    private void deadLetter(Map<String, Object> counts) throws Exception {
        Administration.createTopic(options, options.topic(), 1);
        configure("dead");
        produce(0, 1);
        try (KafkaShareConsumer<String, String> member = member("dead", "explicit")) {
            for (int delivery = 1; delivery <= DELIVERIES; delivery++) {
                ConsumerRecord<String, String> bad = next(member);
                Main.check(bad.offset() == 0 && bad.deliveryCount().orElseThrow() == delivery,
                    "offset " + bad.offset() + " came for the time " + bad.deliveryCount() + ", not " + delivery);
                member.acknowledge(bad, AcknowledgeType.RELEASE);
                taken(member);
            }
            produce(1, 2);
            ConsumerRecord<String, String> good = next(member);
            Main.check(good.offset() == 1, "after the dead letter there came offset " + good.offset());
            member.acknowledge(good, AcknowledgeType.ACCEPT);
            member.commitSync();
            List<String> written = writtenLetters(member);
            counts.put("letters", written);
            counts.put("outcome", written.size() == 1 ? "survives" : "twice");
        }
    }

    private void taken(KafkaShareConsumer<String, String> member) {
        Map<TopicIdPartition, Optional<KafkaException>> taken = member.commitSync();
        Main.check(taken.values().stream().noneMatch(Optional::isPresent), "refused: " + taken);
    }

    private String letters() {
        return "dlq." + options.topic();
    }

    /** Two records of the queue, as offset and cause; one, if there comes no other for a while. */
    private List<String> writtenLetters(KafkaShareConsumer<String, String> member) {
        List<String> written = new ArrayList<>();
        try (KafkaConsumer<String, String> reader = new KafkaConsumer<>(
                Records.properties(options, "auto.offset.reset", "earliest", "allow.auto.create.topics", false),
                new StringDeserializer(), new StringDeserializer())) {
            reader.assign(List.of(new TopicPartition(letters(), 0)));
            long end = System.nanoTime() + Duration.ofSeconds(QUIET_S).toNanos();
            until("a dead letter", () -> {
                // A new leader looks at the state of the records when a member fetches there.
                for (ConsumerRecord<String, String> again : member.poll(Duration.ofMillis(200))) {
                    Main.check(again.offset() == 1, "a dead letter came again");
                    member.acknowledge(again, AcknowledgeType.ACCEPT);
                }
                for (ConsumerRecord<String, String> letter : reader.poll(Duration.ofMillis(200)))
                    written.add(header(letter, "offset") + ": " + header(letter, "message"));
                return written.size() > 1 || written.size() == 1 && System.nanoTime() > end;
            });
        }
        return written;
    }

    private static String header(ConsumerRecord<String, String> letter, String name) {
        return new String(letter.headers().lastHeader("__dlq.errors." + name).value(), StandardCharsets.UTF_8);
    }

    /** The next record. */
    private ConsumerRecord<String, String> next(KafkaShareConsumer<String, String> member) {
        List<ConsumerRecord<String, String>> came = new ArrayList<>();
        until("a record", () -> {
            for (ConsumerRecord<String, String> record : member.poll(Duration.ofMillis(200))) came.add(record);
            return !came.isEmpty();
        });
        Main.check(came.size() == 1, came.size() + " records came");
        return came.get(0);
    }

    /** A group that reads committed records gets those of no transaction that was aborted. */
    private int abortedIsInvisible() {
        int begin = options.records();
        try (KafkaProducer<String, String> producer = Records.producer(options, "transactional.id", options.transactionalId())) {
            producer.initTransactions();
            for (int transaction = 0; transaction < options.transactions(); transaction++) {
                producer.beginTransaction();
                for (int i = 0; i < 5; i++) {
                    String value = (transaction % 2 == 0 ? "aborted-" : "committed-") + transaction + "-" + i;
                    producer.send(new ProducerRecord<>(options.topic(), 0, null, value));
                }
                producer.flush();
                if (transaction % 2 == 0) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
        produce(begin, begin + 1);
        Set<String> got = new HashSet<>();
        try (KafkaShareConsumer<String, String> member = member("committed", "implicit")) {
            until("the last record", () -> {
                for (ConsumerRecord<String, String> record : member.poll(Duration.ofMillis(200))) {
                    Main.check(!record.value().startsWith("aborted"), "an aborted record came: " + record.value());
                    got.add(record.value());
                }
                return got.contains(Records.value(begin));
            });
        }
        int expected = options.records() + 1 + 5 * (options.transactions() / 2);
        Main.check(got.size() == expected, got.size() + " records came, not " + expected);
        return got.size();
    }
}
