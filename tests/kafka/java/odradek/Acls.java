package odradek;

import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.doAnswer;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.AclDeleteResult.AclBindingDeleteResult;
import org.apache.kafka.server.authorizer.Authorizer;
import scala.Option;

/** The authorizer of a broker or a controller: its permissions are those of the metadata log. */
final class Acls {
    private final Cluster cluster;
    private final Supplier<MetadataImage> image;

    private Acls(Cluster cluster, Supplier<MetadataImage> image) {
        this.cluster = cluster;
        this.image = image;
    }

    /** None where the configuration names no authorizer. */
    static Option<Plugin<Authorizer>> plugin(Cluster cluster, Supplier<MetadataImage> image, Object className) {
        if (className == null || className.toString().isEmpty()) {
            return Option.empty();
        }
        Authorizer authorizer = new Acls(cluster, image).authorizer();
        return Option.apply(Plugin.wrapInstance(authorizer, null, "authorizer.class.name"));
    }

    private Authorizer authorizer() {
        Authorizer authorizer = Stub.of(Authorizer.class);
        doAnswer(call -> matching(call.getArgument(0))).when(authorizer).acls(any());
        doAnswer(call -> image.get().acls().acls().size()).when(authorizer).aclCount();
        doAnswer(call -> {
            List<AclBinding> bindings = call.getArgument(1);
            cluster.createAcls(bindings);
            return bindings.stream().map(each -> CompletableFuture.completedFuture(AclCreateResult.SUCCESS)).toList();
        }).when(authorizer).createAcls(any(), any());
        doAnswer(call -> delete(call.getArgument(1))).when(authorizer).deleteAcls(any(), any());
        return authorizer;
    }

    private List<AclBinding> matching(AclBindingFilter filter) {
        return image.get().acls().acls().values().stream().map(StandardAcl::toBinding).filter(filter::matches).toList();
    }

    private List<CompletableFuture<AclDeleteResult>> delete(List<AclBindingFilter> filters) {
        List<CompletableFuture<AclDeleteResult>> results = new ArrayList<>();
        for (AclBindingFilter filter : filters) {
            List<AclBindingDeleteResult> gone = matching(filter).stream().map(AclBindingDeleteResult::new).toList();
            cluster.deleteAcls(List.of(filter));
            results.add(CompletableFuture.completedFuture(new AclDeleteResult(gone)));
        }
        return results;
    }
}
