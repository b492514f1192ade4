package dev.odradek;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** A client of the hub that ODRADEK_HUB names, or of one that is started and ends with this process. */
public final class Hub {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final String READY = "odradek hub ready url=";
    private static Hub found;
    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final String url;
    private final String token;

    Hub(String url, String token) {
        this.url = url.replaceAll("/+$", "");
        this.token = token;
    }

    /** The hub of this process. */
    public static synchronized Hub get() {
        if (found == null) {
            String named = System.getenv("ODRADEK_HUB");
            found = new Hub(named == null || named.isEmpty() ? start() : named, System.getenv("ODRADEK_HUB_TOKEN"));
        }
        return found;
    }

    // Its standard input ends when this process does, however that comes about, and it with that.
    private static String start() {
        List<String> words = new ArrayList<>(List.of("odradek", "hub", "--listen", "127.0.0.1:0", "--until-stdin-ends"));
        String recordings = System.getenv("ODRADEK_RECORD_DIR");
        if (recordings != null && !recordings.isEmpty()) {
            words.addAll(List.of("--record", recordings));
        }
        ProcessBuilder command = new ProcessBuilder(words);
        try {
            Process process = command.redirectError(ProcessBuilder.Redirect.INHERIT).start();
            BufferedReader said = process.inputReader();
            for (String line = said.readLine(); line != null; line = said.readLine()) {
                if (line.startsWith(READY)) {
                    return line.substring(READY.length());
                }
            }
        } catch (IOException error) {
            throw new UncheckedIOException("no hub: ODRADEK_HUB names none, and `odradek hub` cannot be started", error);
        }
        throw new IllegalStateException("no hub: `odradek hub` has ended");
    }

    /** What the hub answers to a call; the body is anything that Jackson writes. Throws HubRefused. */
    public JsonNode call(String method, String path, Object body) {
        try {
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path));
            request.method(method, body == null ? BodyPublishers.noBody() : BodyPublishers.ofByteArray(JSON.writeValueAsBytes(body)));
            if (token != null) {
                request.header("Authorization", "Bearer " + token);
            }
            HttpResponse<byte[]> response = client.send(request.build(), BodyHandlers.ofByteArray());
            JsonNode answer = response.body().length == 0 ? JSON.missingNode() : JSON.readTree(response.body());
            if (response.statusCode() >= 400) {
                throw told(new HubRefused(response.statusCode(), answer));
            }
            return answer;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
    }

    /** The same, told at the line of the test: without the frames of this package. */
    static <T extends Throwable> T told(T error) {
        String ours = Hub.class.getPackageName();
        error.setStackTrace(Arrays.stream(error.getStackTrace())
                .filter(frame -> frame.getClassName().lastIndexOf('.') != ours.length() || !frame.getClassName().startsWith(ours))
                .toArray(StackTraceElement[]::new));
        return error;
    }

    /** The hub has answered with a problem document. */
    public static final class HubRefused extends RuntimeException {
        public final int status;

        HubRefused(int status, JsonNode problem) {
            super((problem.path("field").asText("") + " " + problem.path("detail").asText()).trim());
            this.status = status;
        }
    }
}
