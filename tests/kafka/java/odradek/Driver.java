package odradek;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** The process that has the clusters (driver.py): one line of JSON there, one back. */
final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static Driver instance;

    private final BufferedReader answers;
    private final OutputStream requests;

    private Driver(int port) throws IOException {
        Socket socket = new Socket(InetAddress.getLoopbackAddress(), port);
        socket.setTcpNoDelay(true);
        answers = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
        requests = socket.getOutputStream();
    }

    static synchronized Driver instance() {
        if (instance == null) {
            try {
                instance = new Driver(Integer.getInteger("odradek.driver"));
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
        return instance;
    }

    static ObjectNode request(String kind, String cluster) {
        return JSON.createObjectNode().put("type", kind).put("cluster", cluster);
    }

    synchronized JsonNode ask(ObjectNode request) {
        try {
            requests.write((JSON.writeValueAsString(request) + "\n").getBytes(StandardCharsets.UTF_8));
            JsonNode answer = JSON.readTree(answers.readLine());
            if (answer.has("error")) {
                throw new IllegalStateException("the driver: " + answer.get("error").asText());
            }
            return answer;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
