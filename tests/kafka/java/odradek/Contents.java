package odradek;

import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.anyBoolean;
import static org.mockito.ArgumentMatchers.anyInt;
import static org.mockito.ArgumentMatchers.anyLong;
import static org.mockito.Mockito.doAnswer;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.FileRecords.TimestampAndOffset;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.OffsetResultHolder;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/** What is in a log, and what a test does to it past the protocol. */
final class Contents {
    private Contents() {}

    static void teach(UnifiedLog log, Cluster cluster, TopicPartition partition) {
        try {
            records(log, cluster, partition);
        } catch (IOException impossible) { // what is taught here throws nothing yet
            throw new UncheckedIOException(impossible);
        }
    }

    private static void records(UnifiedLog log, Cluster cluster, TopicPartition partition) throws IOException {
        doAnswer(call -> {
            cluster.append(partition, bytes(call.getArgument(0)));
            return null; // of what was appended the log itself tells
        }).when(log).appendAsLeader(any(MemoryRecords.class), anyInt());
        doAnswer(call -> null).when(log).flush(anyBoolean()); // everything is in memory
        doAnswer(call -> log.highWatermark()).when(log).updateHighWatermark(anyLong());
        doAnswer(call -> 0).when(log).deleteOldSegments();
        doAnswer(call -> {
            cluster.cut(partition, call.getArgument(0), false);
            return true;
        }).when(log).maybeIncrementLogStartOffset(anyLong(), any());
        doAnswer(call -> {
            cluster.cut(partition, call.getArgument(0), true);
            return true;
        }).when(log).truncateTo(anyLong());
        doAnswer(call -> {
            cluster.roll(partition);
            return null;
        }).when(log).roll();
        doAnswer(call -> offset(cluster.offset(partition, call.getArgument(0))))
            .when(log).fetchOffsetByTimestamp(anyLong(), any());
        doAnswer(call -> segments(cluster.segments(partition))).when(log).logSegments();
    }

    private static byte[] bytes(MemoryRecords records) {
        ByteBuffer buffer = records.buffer().duplicate();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private static OffsetResultHolder offset(JsonNode found) {
        long offset = found.get("offset").asLong();
        if (offset < 0) {
            return new OffsetResultHolder(Optional.<TimestampAndOffset>empty());
        }
        Optional<Integer> epoch = Optional.of(found.get("epoch").asInt()).filter(each -> each >= 0);
        return new OffsetResultHolder(new TimestampAndOffset(found.get("timestamp").asLong(), offset, epoch));
    }

    private static List<LogSegment> segments(JsonNode told) throws IOException {
        List<LogSegment> segments = new ArrayList<>();
        for (JsonNode each : told) {
            Path file = Files.createTempFile("segment", ".log");
            Files.write(file, Base64.getDecoder().decode(each.asText()));
            FileRecords records = FileRecords.open(file.toFile());
            LogSegment segment = Stub.of(LogSegment.class);
            doAnswer(call -> records).when(segment).log();
            segments.add(segment);
        }
        return segments;
    }
}
