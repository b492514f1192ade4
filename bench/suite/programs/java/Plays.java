import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** The plays of one client at a time. */
class Plays {
    static void roundtrip(Play play) throws Exception {
        play.create(play.topic);
        missing(play);
    }

    static void missing(Play play) throws Exception {
        play.produce(0, play.records);
        play.read(play.topic, "read_uncommitted", play.made(play.topic, 0, play.records));
    }

    static void resume(Play play) throws Exception {
        play.create(play.topic);
        for (int from : new int[] {0, play.records}) {
            play.produce(from, from + play.records);
            try (KafkaConsumer<String, String> member = play.member()) {
                Play.expect(play.take(member, play.records), play.made(play.topic, from, from + play.records));
                member.commitSync();
            }
        }
        play.committed(2 * play.records);
    }

    static void waiting(Play play) throws Exception {
        play.create(play.topic);
        try (KafkaConsumer<String, String> reader = play.reader(play.topic, "read_uncommitted")) {
            for (int i = 0; i < play.records; i++) {
                Main.check(reader.poll(Duration.ofMillis(20)).isEmpty(), "a record came before it was written");
                play.produce(i, i + 1);
                Play.expect(play.take(reader, 1), play.made(play.topic, i, i + 1));
            }
        }
    }

    static void transact(Play play, boolean aborts) throws Exception {
        play.create(play.topic);
        List<ProducerRecord<String, String>> committed = new ArrayList<>();
        try (KafkaProducer<String, String> producer = play.transactional()) {
            for (int n = 0; n < play.transactions; n++) {
                var records = play.made(play.topic, n * play.records, (n + 1) * play.records);
                producer.beginTransaction();
                if (aborts && (play.transactions - n) % 2 == 0) {
                    play.send(producer, records);
                    producer.abortTransaction();
                } else {
                    records.forEach(producer::send);
                    producer.commitTransaction();
                    committed.addAll(records);
                }
            }
        }
        play.read(play.topic, "read_committed", committed);
        if (aborts) play.read(play.topic, "read_uncommitted", play.made(play.topic, 0, play.transactions * play.records));
    }

    static void copy(Play play) throws Exception {
        String output = play.topic + "-out";
        int total = play.transactions * play.records;
        play.create(play.topic);
        play.create(output);
        play.produce(0, total);
        try (KafkaProducer<String, String> producer = play.transactional();
             KafkaConsumer<String, String> member = play.member("max.poll.records", play.records)) {
            for (int copied = 0; copied < total; ) {
                List<ConsumerRecord<String, String>> records = play.take(member, 1);
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                producer.beginTransaction();
                for (var record : records) {
                    producer.send(new ProducerRecord<>(output, record.partition(), record.key(), record.value()));
                    offsets.put(new TopicPartition(play.topic, record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, member.groupMetadata());
                producer.commitTransaction();
                copied += records.size();
            }
        }
        play.read(output, "read_committed", play.made(output, 0, total));
        play.committed(total);
    }

    static void fence(Play play) throws Exception {
        play.create(play.topic);
        try (KafkaProducer<String, String> old = play.transactional()) {
            old.beginTransaction();
            play.send(old, play.made(play.topic, 0, play.records));
            try (KafkaProducer<String, String> owner = play.transactional()) {
                refused(old);
                var records = play.made(play.topic, play.records, 2 * play.records);
                owner.beginTransaction();
                records.forEach(owner::send);
                owner.commitTransaction();
                play.read(play.topic, "read_committed", records);
            }
        }
    }

    private static void refused(KafkaProducer<String, String> old) {
        try {
            old.commitTransaction();
        } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
            return;
        }
        throw new Main.Failed("the commit of the first producer was not refused");
    }

    private static String config(Play play, String name) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, play.topic);
        return play.admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name).value();
    }

    private static int partitions(Play play) throws Exception {
        return play.admin.describeTopics(List.of(play.topic)).allTopicNames().get().get(play.topic).partitions().size();
    }

    static void topics(Play play) throws Exception {
        NewTopic topic = new NewTopic(play.topic, play.partitions, (short) 1).configs(Map.of("retention.ms", "3600000"));
        play.admin.createTopics(List.of(topic)).all().get();
        Play.until("the topic is described", () -> { // another broker may know of it a little later
            try {
                return partitions(play) == play.partitions;
            } catch (ExecutionException notYet) {
                if (notYet.getCause() instanceof UnknownTopicOrPartitionException) return false;
                throw notYet;
            }
        });
        Main.check(config(play, "retention.ms").equals("3600000"), "retention.ms is another");
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, play.topic);
        var set = new AlterConfigOp(new ConfigEntry("max.message.bytes", "65536"), AlterConfigOp.OpType.SET);
        play.admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
        Play.until("max.message.bytes is set", () -> config(play, "max.message.bytes").equals("65536"));
        play.admin.createPartitions(Map.of(play.topic, NewPartitions.increaseTo(play.partitions + 2))).all().get();
        Play.until("there are more partitions", () -> partitions(play) == play.partitions + 2);
        Main.check(play.admin.listTopics().names().get().contains(play.topic), "the topic is not listed");
        play.admin.deleteTopics(List.of(play.topic)).all().get();
        Play.until("the topic is gone", () -> !play.admin.listTopics().names().get().contains(play.topic));
    }

    private static long offset(Play play, int at, OffsetSpec which) throws Exception {
        TopicPartition partition = new TopicPartition(play.topic, at);
        return play.admin.listOffsets(Map.of(partition, which)).all().get().get(partition).offset();
    }

    static void offsets(Play play) throws Exception {
        play.create(play.topic);
        play.produce(0, play.records * play.partitions);
        for (int at = 0; at < play.partitions; at++) {
            Main.check(offset(play, at, OffsetSpec.earliest()) == 0, "the first offset is not 0");
            Main.check(offset(play, at, OffsetSpec.latest()) == play.records, "the end offset is another");
            var before = Map.of(new TopicPartition(play.topic, at), RecordsToDelete.beforeOffset(4));
            play.admin.deleteRecords(before).all().get();
            Main.check(offset(play, at, OffsetSpec.earliest()) == 4, "the first offset is not 4");
        }
    }

    static void groups(Play play) throws Exception {
        play.create(play.topic);
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (int at = 0; at < play.partitions; at++) offsets.put(new TopicPartition(play.topic, at), new OffsetAndMetadata(7 + at));
        play.admin.alterConsumerGroupOffsets(play.group, offsets).all().get();
        var listed = play.admin.listGroups().all().get();
        Main.check(listed.stream().anyMatch(group -> group.groupId().equals(play.group)), "the group is not listed");
        var found = play.admin.listConsumerGroupOffsets(play.group).partitionsToOffsetAndMetadata().get();
        Main.check(found.equals(offsets), "committed " + found);
    }
}
