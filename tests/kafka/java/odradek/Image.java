package odradek;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.metadata.AbortTransactionRecord;
import org.apache.kafka.common.metadata.BeginTransactionRecord;
import org.apache.kafka.common.metadata.EndTransactionRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.metadata.MetadataRecordSerde;

/** The metadata log of a cluster, folded by Kafka's own classes. */
final class Image {
    private final MetadataRecordSerde serde = new MetadataRecordSerde();
    private MetadataImage image = MetadataImage.EMPTY;
    private final Elections elections = new Elections();
    private List<ApiMessage> transaction;

    MetadataImage now() {
        return image;
    }

    Elections elections() {
        return elections;
    }

    long nextOffset() {
        return image.provenance().lastContainedOffset() + 1;
    }

    void fold(byte[] batches) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        long last = nextOffset() - 1;
        int epoch = 0;
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(batches)).batches()) {
            if (!batch.isControlBatch()) {
                batch.forEach(record -> fold(record, delta));
            }
            last = batch.lastOffset();
            epoch = batch.partitionLeaderEpoch();
        }
        image = delta.apply(new MetadataProvenance(last, epoch, 0, true));
    }

    private void fold(Record record, MetadataDelta delta) {
        ApiMessage message = serde.read(new ByteBufferAccessor(record.value()), record.valueSize()).message();
        if (message instanceof BeginTransactionRecord) {
            transaction = new ArrayList<>();
        } else if (message instanceof EndTransactionRecord) {
            transaction.forEach(each -> replay(each, delta));
            transaction = null;
        } else if (message instanceof AbortTransactionRecord) {
            transaction = null;
        } else if (transaction != null) {
            transaction.add(message);
        } else {
            replay(message, delta);
        }
    }

    private void replay(ApiMessage message, MetadataDelta delta) {
        elections.replay(message);
        delta.replay(message);
    }
}
