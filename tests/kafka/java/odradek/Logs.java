package odradek;

import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.anyBoolean;
import static org.mockito.ArgumentMatchers.anyLong;
import static org.mockito.Mockito.doAnswer;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Supplier;
import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.ConfigResource.Type;
import org.apache.kafka.coordinator.transaction.TransactionLogConfig;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.TopicImage;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.storage.internals.log.LogCleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import scala.Option;
import scala.collection.immutable.Seq$;
import scala.collection.immutable.Set;
import scala.jdk.javaapi.CollectionConverters;

/** The logs of a broker: those of the partitions that it is a replica of. There is one copy, so all say the same. */
final class Logs {
    private final Cluster cluster;
    private final Supplier<MetadataImage> image;
    private final KRaftMetadataCache cache;
    private final Supplier<KafkaConfig> config;
    private final int broker;

    Logs(Cluster cluster, Supplier<MetadataImage> image, KRaftMetadataCache cache, Supplier<KafkaConfig> config) {
        this.cluster = cluster;
        this.image = image;
        this.cache = cache;
        this.config = config;
        this.broker = config.get().nodeId();
    }

    LogManager manager() {
        LogManager manager = Stub.of(LogManager.class);
        doAnswer(call -> log(call.getArgument(0))).when(manager).getLog(any(), anyBoolean());
        doAnswer(call -> Seq$.MODULE$.empty()).when(manager).liveLogDirs();
        doAnswer(call -> producerConfig()).when(manager).producerStateManagerConfig();
        doAnswer(call -> new LogConfig(config.get().extractLogConfigMap())).when(manager).currentDefaultConfig();
        doAnswer(call -> log(call.getArgument(0)).get())
            .when(manager).getOrCreateLog(any(), anyBoolean(), anyBoolean(), any(), any());
        LogCleaner cleaner = cleaner();
        doAnswer(call -> cleaner).when(manager).cleaner();
        return manager;
    }

    private LogCleaner cleaner() {
        LogCleaner cleaner = Stub.of(LogCleaner.class);
        try {
            doAnswer(call -> cleaned(call.getArgument(0), call.getArgument(1), call.getArgument(2)))
                .when(cleaner).awaitCleaned(any(), anyLong(), anyLong());
        } catch (InterruptedException impossible) { // it is taught, not asked
            throw new IllegalStateException(impossible);
        }
        return cleaner;
    }

    /** Whether a log is clean up to an offset before the time is over (ms). */
    private boolean cleaned(TopicPartition partition, long offset, long patience) throws InterruptedException {
        long end = System.currentTimeMillis() + patience;
        while (cluster.clean(partition) < offset) {
            if (System.currentTimeMillis() > end) {
                return false;
            }
            Thread.sleep(100);
        }
        return true;
    }

    private ProducerStateManagerConfig producerConfig() {
        TransactionLogConfig set = new TransactionLogConfig(config.get());
        return new ProducerStateManagerConfig(set.producerIdExpirationMs(), set.transactionPartitionVerificationEnable());
    }

    private LogConfig logConfig(TopicPartition partition) {
        var topic = new ConfigResource(Type.TOPIC, partition.topic());
        return LogConfig.fromProps(config.get().extractLogConfigMap(), image.get().configs().configProperties(topic));
    }

    ReplicaManager replicas() {
        ReplicaManager replicas = Stub.of(ReplicaManager.class);
        doAnswer(call -> log(call.getArgument(0))).when(replicas).localLog(any());
        doAnswer(call -> log(call.getArgument(0))).when(replicas).getLog(any());
        doAnswer(call -> partition(call.getArgument(0))).when(replicas).onlinePartition(any());
        doAnswer(call -> manager()).when(replicas).logManager();
        doAnswer(call -> cache).when(replicas).metadataCache();
        doAnswer(call -> broker).when(replicas).localBrokerId();
        return replicas;
    }

    private Optional<PartitionRegistration> held(TopicPartition partition) {
        TopicImage topic = image.get().topics().getTopic(partition.topic());
        PartitionRegistration registered = topic == null ? null : topic.partitions().get(partition.partition());
        return Optional.ofNullable(registered)
            .filter(found -> Arrays.stream(found.replicas).anyMatch(replica -> replica == broker));
    }

    private Option<Partition> partition(TopicPartition partition) {
        if (held(partition).isEmpty()) {
            return Option.empty();
        }
        Partition stub = Stub.of(Partition.class);
        doAnswer(call -> log(partition)).when(stub).log();
        doAnswer(call -> leads(partition)).when(stub).isLeader();
        doAnswer(call -> leads(partition) ? log(partition) : Option.empty()).when(stub).leaderLogIfLocal();
        doAnswer(call -> log(partition).get()).when(stub).localLogOrException();
        doAnswer(call -> leader(partition)).when(stub).leaderReplicaIdOpt();
        doAnswer(call -> leads(partition) ? leader(partition) : Option.empty()).when(stub).leaderIdIfLocal();
        doAnswer(call -> inSync(partition)).when(stub).inSyncReplicaIds();
        doAnswer(call -> held(partition).map(found -> found.leaderEpoch).orElse(-1)).when(stub).getLeaderEpoch();
        return Option.apply(stub);
    }

    private Option<Object> leader(TopicPartition partition) {
        int leader = held(partition).map(found -> found.leader).orElse(-1);
        return leader < 0 ? Option.empty() : Option.apply(leader);
    }

    private Set<Object> inSync(TopicPartition partition) {
        HashSet<Object> replicas = new HashSet<>();
        held(partition).ifPresent(found -> Arrays.stream(found.isr).forEach(replicas::add));
        return CollectionConverters.asScala(replicas).toSet();
    }

    private boolean leads(TopicPartition partition) {
        return held(partition).map(found -> found.leader == broker).orElse(false);
    }

    private Option<UnifiedLog> log(TopicPartition partition) {
        if (held(partition).isEmpty() || cluster.log(partition).isEmpty()) {
            return Option.empty();
        }
        UnifiedLog log = Stub.of(UnifiedLog.class);
        doAnswer(call -> partition).when(log).topicPartition();
        doAnswer(call -> logConfig(partition)).when(log).config();
        doAnswer(call -> at(partition, "start")).when(log).logStartOffset();
        doAnswer(call -> at(partition, "end")).when(log).logEndOffset();
        doAnswer(call -> new LogOffsetMetadata(at(partition, "end"))).when(log).logEndOffsetMetadata();
        doAnswer(call -> at(partition, "highWatermark")).when(log).highWatermark();
        doAnswer(call -> at(partition, "stable")).when(log).lastStableOffset();
        doAnswer(call -> at(partition, "size")).when(log).size();
        doAnswer(call -> Optional.of((int) at(partition, "epoch"))).when(log).latestEpoch();
        ProducerStateManager producers = Stub.of(ProducerStateManager.class);
        doAnswer(call -> producers(partition)).when(producers).activeProducers();
        doAnswer(call -> producers).when(log).producerStateManager();
        Contents.teach(log, cluster, partition);
        return Option.apply(log);
    }

    private Map<Long, ProducerStateEntry> producers(TopicPartition partition) {
        Map<Long, ProducerStateEntry> producers = new HashMap<>();
        JsonNode log = cluster.log(partition).orElseThrow(() -> new OutOfReach("producers without a leader"));
        for (JsonNode each : log.get("producers")) {
            long id = each.get("id").asLong();
            long open = each.get("openSince").asLong();
            producers.put(id, new ProducerStateEntry(id, (short) each.get("epoch").asInt(),
                each.get("coordinatorEpoch").asInt(), each.get("timestamp").asLong(),
                open < 0 ? OptionalLong.empty() : OptionalLong.of(open)));
        }
        return producers;
    }

    private long at(TopicPartition partition, String what) {
        Optional<JsonNode> log = cluster.log(partition);
        return log.orElseThrow(() -> new OutOfReach("UnifiedLog of " + partition + " without a leader"))
            .get(what).asLong();
    }
}
