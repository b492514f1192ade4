package odradek;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.SharedServer;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.mockito.Mockito;

/**
 * `Main RESULTS CLASS...`: plays the tests of these classes, on Odradek or, without `-Dodradek.driver=PORT`, as they are.
 *
 * <p>Every harness of Kafka's tests makes its brokers and controllers with `new`, in the thread of the test: there they
 * get objects that we have taught, and the constructor is not run.
 */
final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        List<DiscoverySelector> classes = new ArrayList<>();
        for (int i = 1; i < arguments.length; i++) {
            classes.add(selectClass(arguments[i]));
        }
        Keys.take(Path.of(System.getProperty("odradek.keys")));
        if (System.getProperty("odradek.driver") != null) {
            replaceBrokers();
        }
        var request = LauncherDiscoveryRequestBuilder.request()
            .selectors(classes)
            .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
            .configurationParameter("junit.jupiter.execution.timeout.testable.method.default",
                System.getProperty("odradek.timeout", "120") + " s")
            .build();
        try (PrintStream out = new PrintStream(new FileOutputStream(arguments[0], true), false, StandardCharsets.UTF_8)) {
            LauncherFactory.create().execute(request, new Results(out));
        }
        System.exit(0); // threads that a test has left behind
    }

    private static void replaceBrokers() {
        Mockito.mockConstruction(ControllerServer.class, context -> Stub.settings(), (server, context) ->
            Controllers.replace(server, (SharedServer) context.arguments().get(0),
                (BootstrapMetadata) context.arguments().get(2)));
        Mockito.mockConstruction(BrokerServer.class, context -> Stub.settings(), (server, context) ->
            Brokers.replace(server, (SharedServer) context.arguments().get(0)));
    }
}
