import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** The admin client; steps that a release does not have are left out and not counted. */
class Administration {
    static void createTopic(Main.Options options, String topic, int partitions) throws Exception {
        try (AdminClient admin = AdminClient.create(Records.properties(options))) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
    }

    interface Step {
        void run() throws Exception;
    }

    static void admin(Main.Options options, Map<String, Object> counts) throws Exception {
        List<String> done = new ArrayList<>();
        try (AdminClient admin = AdminClient.create(Records.properties(options))) {
            Map<String, Step> steps = new java.util.LinkedHashMap<>();
            steps.put("create", () -> create(admin, options));
            steps.put("create again", () -> refused(TopicExistsException.class, () -> create(admin, options)));
            steps.put("describe", () -> describe(admin, options, options.partitions()));
            steps.put("configs", () -> configs(admin, options));
            steps.put("alter config", () -> alterConfig(admin, options));
            steps.put("create partitions", () -> createPartitions(admin, options));
            steps.put("list offsets", () -> listOffsets(options));
            steps.put("delete records", () -> deleteRecords(admin, options));
            steps.put("group offsets", () -> groupOffsets(admin, options));
            steps.put("delete group", () -> deleteGroup(admin, options));
            steps.put("cluster", () -> Main.check(admin.describeCluster().nodes().get().size() >= 1, "no nodes"));
            steps.put("delete", () -> delete(admin, options));
            for (var step : steps.entrySet()) {
                try {
                    step.getValue().run();
                    done.add(step.getKey());
                } catch (UnsupportedOperationException e) {
                    System.err.println(step.getKey() + ": " + e.getMessage());
                } catch (Exception e) {
                    throw new IllegalStateException(step.getKey(), e);
                }
            }
        }
        counts.put("steps", done);
    }

    private static void refused(Class<? extends Exception> expected, Step step) throws Exception {
        try {
            step.run();
        } catch (ExecutionException e) {
            Main.check(expected.isInstance(e.getCause()), "expected " + expected.getSimpleName() + ", got " + e.getCause());
            return;
        }
        throw new Main.Failed("expected " + expected.getSimpleName());
    }

    private static void create(AdminClient admin, Main.Options options) throws Exception {
        NewTopic topic = new NewTopic(options.topic(), options.partitions(), (short) 1).configs(Map.of("retention.ms", "3600000"));
        admin.createTopics(List.of(topic)).all().get();
    }

    private static TopicDescription description(AdminClient admin, Main.Options options) throws Exception {
        return Compat.<Map<String, TopicDescription>>await(admin.describeTopics(Set.of(options.topic())), "allTopicNames|all").get(options.topic());
    }

    private static void describe(AdminClient admin, Main.Options options, int partitions) throws Exception {
        TopicDescription description = description(admin, options);
        Main.check(description.partitions().size() == partitions, "described " + description);
        description.partitions().forEach(partition -> Main.check(
            partition.leader() != null && partition.replicas().size() == 1 && partition.isr().size() == 1, "described " + partition));
    }

    private static String config(AdminClient admin, Main.Options options, String name) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, options.topic());
        return admin.describeConfigs(Set.of(resource)).all().get().get(resource).get(name).value();
    }

    private static void configs(AdminClient admin, Main.Options options) throws Exception {
        Main.check("3600000".equals(config(admin, options, "retention.ms")), "retention.ms is not what the topic was created with");
        Main.check("delete".equals(config(admin, options, "cleanup.policy")), "cleanup.policy has not its default");
    }

    private static void alterConfig(AdminClient admin, Main.Options options) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, options.topic());
        Class<?> entry = Class.forName("org.apache.kafka.clients.admin.ConfigEntry");
        Object bytes = entry.getConstructor(String.class, String.class).newInstance("max.message.bytes", "65536");
        Object result;
        try {
            Class<?> op = Class.forName("org.apache.kafka.clients.admin.AlterConfigOp");
            Class<?> type = Class.forName("org.apache.kafka.clients.admin.AlterConfigOp$OpType");
            Object set = op.getConstructor(entry, type).newInstance(bytes, type.getEnumConstants()[0]);
            result = Compat.call(admin, "incrementalAlterConfigs", Map.of(resource, List.of(set)));
        } catch (ClassNotFoundException e) { // before 2.3: all configs of the topic at once
            Class<?> config = Class.forName("org.apache.kafka.clients.admin.Config");
            Object whole = config.getConstructor(Collection.class).newInstance(List.of(bytes));
            result = Compat.call(admin, "alterConfigs", Map.of(resource, whole));
        }
        Compat.await(result, "all");
        Main.Deadline deadline = options.deadline(); // the answer does not wait until every broker knows
        while (!"65536".equals(config(admin, options, "max.message.bytes"))) deadline.check("max.message.bytes to be altered");
    }

    private static void createPartitions(AdminClient admin, Main.Options options) throws Exception {
        int more = options.partitions() + 2;
        try {
            Class<?> newPartitions = Class.forName("org.apache.kafka.clients.admin.NewPartitions");
            Object increase = newPartitions.getMethod("increaseTo", int.class).invoke(null, more);
            Compat.await(Compat.call(admin, "createPartitions", Map.of(options.topic(), increase)), "all");
        } catch (ClassNotFoundException e) {
            throw new UnsupportedOperationException("this release has no createPartitions");
        }
        Main.Deadline deadline = options.deadline();
        while (description(admin, options).partitions().size() != more) deadline.check("new partitions");
        describe(admin, options, more);
    }

    private static void listOffsets(Main.Options options) {
        try (KafkaProducer<String, String> producer = Records.producer(options);
             KafkaConsumer<String, String> consumer = Records.consumer(options)) {
            Records.produce(producer, options, 0, 10 * options.partitions());
            TopicPartition partition = new TopicPartition(options.topic(), 0);
            Main.check(consumer.beginningOffsets(List.of(partition)).get(partition) == 0, "the first offset is not 0");
            Main.check(consumer.endOffsets(List.of(partition)).get(partition) == 10, "the end offset is not 10");
            var found = consumer.offsetsForTimes(Map.of(partition, 1L)).get(partition);
            Main.check(found != null && found.offset() == 0, "the first offset by time is " + found);
        }
    }

    private static void deleteRecords(AdminClient admin, Main.Options options) throws Exception {
        TopicPartition partition = new TopicPartition(options.topic(), 0);
        try {
            Class<?> records = Class.forName("org.apache.kafka.clients.admin.RecordsToDelete");
            Object before = records.getMethod("beforeOffset", long.class).invoke(null, 4L);
            Compat.await(Compat.call(admin, "deleteRecords", Map.of(partition, before)), "all");
        } catch (ClassNotFoundException e) {
            throw new UnsupportedOperationException("this release has no deleteRecords");
        }
        try (KafkaConsumer<String, String> consumer = Records.consumer(options)) {
            Main.check(consumer.beginningOffsets(List.of(partition)).get(partition) == 4, "the first offset is not 4");
        }
    }

    @SuppressWarnings("unchecked")
    private static void groupOffsets(AdminClient admin, Main.Options options) throws Exception {
        TopicPartition partition = new TopicPartition(options.topic(), 0);
        try (KafkaConsumer<String, String> consumer = Records.consumer(options, "group.id", options.group())) {
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(7, "seven")));
        }
        Object listing = Compat.has(admin, "listGroups") ? Compat.call(admin, "listGroups") : Compat.call(admin, "listConsumerGroups");
        boolean listed = false;
        for (Object group : Compat.<Collection<Object>>await(listing, "all"))
            listed |= Compat.call(group, "groupId").equals(options.group());
        Main.check(listed, options.group() + " is not listed");
        Object result = Compat.call(admin, "listConsumerGroupOffsets", options.group());
        Map<TopicPartition, OffsetAndMetadata> offsets = Compat.await(result, "partitionsToOffsetAndMetadata");
        Main.check(Objects.equals(offsets, Map.of(partition, new OffsetAndMetadata(7, "seven"))), "group offsets " + offsets);
        Map<String, Object> groups = Compat.await(Compat.call(admin, "describeConsumerGroups", List.of(options.group())), "all");
        Object members = Compat.call(groups.get(options.group()), "members");
        Main.check(((Collection<Object>) members).isEmpty(), "members of an empty group: " + members);
        if (!Compat.has(admin, "alterConsumerGroupOffsets", options.group(), new HashMap<>())) return;
        Compat.await(Compat.call(admin, "alterConsumerGroupOffsets", options.group(), Map.of(partition, new OffsetAndMetadata(8))), "all");
        offsets = Compat.await(Compat.call(admin, "listConsumerGroupOffsets", options.group()), "partitionsToOffsetAndMetadata");
        Main.check(offsets.get(partition).offset() == 8, "altered group offsets " + offsets);
    }

    private static void deleteGroup(AdminClient admin, Main.Options options) throws Exception {
        Compat.await(Compat.call(admin, "deleteConsumerGroups", List.of(options.group())), "all");
        Map<?, ?> offsets = Compat.await(Compat.call(admin, "listConsumerGroupOffsets", options.group()), "partitionsToOffsetAndMetadata");
        Main.check(offsets.isEmpty(), "offsets of a deleted group: " + offsets);
    }

    private static void delete(AdminClient admin, Main.Options options) throws Exception {
        Main.check(admin.listTopics().names().get().contains(options.topic()), "the topic is not listed");
        admin.deleteTopics(List.of(options.topic())).all().get();
        Main.Deadline deadline = options.deadline();
        while (admin.listTopics().names().get().contains(options.topic())) deadline.check("the topic to be gone");
        refused(UnknownTopicOrPartitionException.class, () -> description(admin, options));
    }
}
