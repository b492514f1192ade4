package odradek;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import javax.net.ssl.SSLSession;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.security.auth.AuthenticationContext;
import org.apache.kafka.common.security.auth.KafkaPrincipalBuilder;
import org.apache.kafka.common.security.auth.PlaintextAuthenticationContext;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.security.auth.SslAuthenticationContext;
import org.mockito.Mockito;

/** Builders of principals that tests bring along: brokers ask here who comes, at every connection. */
final class Builders {
    private static final Map<String, Known> KNOWN = new ConcurrentHashMap<>();
    private static ServerSocket server;

    private Builders() {}

    private record Known(KafkaPrincipalBuilder builder, Endpoint listener) {
        String principal(String certified) {
            InetAddress here = InetAddress.getLoopbackAddress();
            AuthenticationContext context = new PlaintextAuthenticationContext(here, listener.listener());
            if (listener.securityProtocol() == SecurityProtocol.SSL) {
                context = new SslAuthenticationContext(session(certified), here, listener.listener());
            }
            return builder.build(context).toString();
        }

        private static SSLSession session(String certified) {
            SSLSession session = Stub.of(SSLSession.class);
            try {
                Mockito.doAnswer(call -> new X500Principal(certified)).when(session).getPeerPrincipal();
            } catch (IOException impossible) {
                throw new UncheckedIOException(impossible);
            }
            return session;
        }
    }

    /** How a broker asks this builder. */
    static synchronized void tell(ObjectNode request, KafkaPrincipalBuilder builder, Endpoint listener) {
        try {
            if (server == null) {
                server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
                Thread thread = new Thread(Builders::serve, "principals");
                thread.setDaemon(true);
                thread.start();
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        String name = String.valueOf(KNOWN.size());
        KNOWN.put(name, new Known(builder, listener));
        request.put("port", server.getLocalPort()).put("name", name);
    }

    private static void serve() {
        while (true) {
            try (Socket asked = server.accept()) {
                var lines = new BufferedReader(new InputStreamReader(asked.getInputStream(), StandardCharsets.UTF_8));
                String[] question = lines.readLine().split("\t", 2);
                OutputStream answer = asked.getOutputStream();
                answer.write((KNOWN.get(question[0]).principal(question[1]) + "\n").getBytes(StandardCharsets.UTF_8));
            } catch (IOException | RuntimeException | AssertionError error) {
                error.printStackTrace(); // nobody gets in, and the log says why
            }
        }
    }
}
