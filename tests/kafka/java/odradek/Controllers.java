package odradek;

import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.anyInt;
import static org.mockito.Mockito.doAnswer;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.ControllerServer;
import kafka.server.QuotaFactory.QuotaManagers;
import kafka.server.SharedServer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.controller.ResultOrError;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.raft.RaftLog;

/** What stands where a test has made a `ControllerServer`: the first broker is the controller, and nothing listens here. */
final class Controllers {
    private Controllers() {}

    static void replace(ControllerServer server, SharedServer shared, BootstrapMetadata metadata) {
        Cluster cluster = Cluster.of(shared.clusterId());
        cluster.format(metadata);
        cluster.configure(shared.controllerConfig().originals());
        doAnswer(call -> shared.controllerConfig()).when(server).config();
        doAnswer(call -> shared).when(server).sharedServer();
        doAnswer(call -> shared.time()).when(server).time();
        doAnswer(call -> shared.clusterId()).when(server).clusterId();
        doAnswer(call -> metadata).when(server).bootstrapMetadata();
        var authorizer = Acls.plugin(cluster, cluster::image,
            shared.controllerConfig().originals().get("authorizer.class.name"));
        doAnswer(call -> authorizer).when(server).authorizerPlugin();
        doAnswer(call -> CompletableFuture.completedFuture(0)).when(server).socketServerFirstBoundPortFuture();
        doAnswer(call -> {
            cluster.started(server);
            Elections.tell(cluster);
            Quotas.tell(cluster);
            Logins.tell(cluster);
            return null;
        }).when(server).startup();
        doAnswer(call -> {
            Elections.forget();
            Quotas.forget();
            Logins.forget();
            cluster.ended(server);
            return null;
        }).when(server).shutdown();
        doAnswer(call -> null).when(server).awaitShutdown();
        SocketServer sockets = Stub.of(SocketServer.class);
        doAnswer(call -> cluster.controllerPort()).when(sockets).boundPort(any());
        doAnswer(call -> sockets).when(server).socketServer();
        Quotas quotas = new Quotas(cluster, Quotas.CONTROLLER, shared.controllerConfig());
        QuotaManagers managers = quotas.managers();
        doAnswer(call -> managers).when(server).quotaManagers();
        Metrics metrics = quotas.metrics();
        doAnswer(call -> metrics).when(server).metrics();
        Controller controller = controller(cluster);
        doAnswer(call -> controller).when(server).controller();
        KafkaRaftManager<?> raft = raft(cluster);
        doAnswer(call -> raft).when(server).raftManager();
    }

    private static Controller controller(Cluster cluster) {
        Controller controller = Stub.of(Controller.class);
        doAnswer(call -> true).when(controller).isActive();
        doAnswer(call -> CompletableFuture.completedFuture(null)).when(controller).waitForReadyBrokers(anyInt());
        doAnswer(call -> CompletableFuture.completedFuture(ids(cluster))).when(controller).findAllTopicIds(any());
        doAnswer(call -> CompletableFuture.completedFuture(ids(cluster, call.getArgument(1))))
            .when(controller).findTopicIds(any(), any());
        return controller;
    }

    private static Map<String, Uuid> ids(Cluster cluster) {
        Map<String, Uuid> ids = new HashMap<>();
        cluster.image().topics().topicsByName().forEach((name, topic) -> ids.put(name, topic.id()));
        return ids;
    }

    private static Map<String, ResultOrError<Uuid>> ids(Cluster cluster, Collection<String> names) {
        Map<String, Uuid> ids = ids(cluster);
        Map<String, ResultOrError<Uuid>> found = new HashMap<>();
        for (String name : names) {
            found.put(name, ids.containsKey(name)
                ? new ResultOrError<>(ids.get(name))
                : new ResultOrError<>(new ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION)));
        }
        return found;
    }

    private static KafkaRaftManager<?> raft(Cluster cluster) {
        RaftLog log = Stub.of(RaftLog.class);
        doAnswer(call -> new LogOffsetMetadata(cluster.image().offset() + 1)).when(log).endOffset();
        KafkaRaftManager<?> raft = Stub.of(KafkaRaftManager.class);
        doAnswer(call -> log).when(raft).raftLog();
        return raft;
    }
}
