package odradek;

import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.anyShort;
import static org.mockito.Mockito.doAnswer;

import java.util.function.Supplier;
import kafka.coordinator.transaction.CoordinatorEpochAndTxnMetadata;
import kafka.coordinator.transaction.TransactionCoordinator;
import kafka.coordinator.transaction.TransactionStateManager;
import org.apache.kafka.coordinator.transaction.TransactionMetadata;
import scala.Option;
import scala.util.Right;

/** The transaction coordinator: the epoch of a transactional id, which a test reads and sets. */
final class Transactions {
    private Transactions() {}

    static TransactionCoordinator coordinator(Cluster cluster) {
        TransactionStateManager manager = Stub.of(TransactionStateManager.class);
        doAnswer(call -> new Right<>(Option.apply(new CoordinatorEpochAndTxnMetadata(0, entry(cluster, call.getArgument(0))))))
            .when(manager).getTransactionState(any());
        TransactionCoordinator coordinator = Stub.of(TransactionCoordinator.class);
        doAnswer(call -> manager).when(coordinator).transactionManager();
        return coordinator;
    }

    private static TransactionMetadata entry(Cluster cluster, String transactionalId) {
        TransactionMetadata entry = Stub.of(TransactionMetadata.class);
        doAnswer(call -> call.<Supplier<?>>getArgument(0).get()).when(entry).inLock(any());
        doAnswer(call -> cluster.producerEpoch(transactionalId)).when(entry).producerEpoch();
        doAnswer(call -> {
            cluster.setProducerEpoch(transactionalId, call.getArgument(0));
            return null;
        }).when(entry).setProducerEpoch(anyShort());
        return entry;
    }
}
