import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A driver for `odradek conform`: fill in the ten verbs and `failure`. The loop below needs no change.
 *
 * A verb throws what the client throws; `failure` gives that its name and class. Throw Unsupported for something that
 * the client cannot do. Run: java -cp JARS:. Driver
 * (the jars: your client and jackson-databind).
 */
public class Driver {
    static class Unsupported extends Exception {
        Unsupported(String why) { super(why); }
    }

    /** An error as the judge reads it: retriable, abortable, fatal or unknown. */
    record Failure(String name, String category, String message) {}

    /** The fields of a request. */
    @SuppressWarnings("unchecked")
    record Request(Map<String, Object> fields) {
        String verb() { return text("verb"); }
        String client() { return text("client"); }
        String text(String name) { return fields.get(name) == null ? null : fields.get(name).toString(); }
        boolean flag(String name) { return Boolean.TRUE.equals(fields.get(name)); }
        int number(String name, int otherwise) { return fields.get(name) instanceof Number n ? n.intValue() : otherwise; }
        <T> List<T> list(String name) { return (List<T>) fields.getOrDefault(name, List.of()); }
        Map<String, Object> config() { return (Map<String, Object>) fields.getOrDefault("config", Map.of()); }
    }

    // ---- What you fill in --------------------------------------------------------------------------------------

    String library() { return "my-client"; }

    String version() throws Exception { return "0.0"; }

    /** Name: as in Kafka's table of errors (PRODUCER_FENCED). Category: what the client tells its user to do. An error of
     * your own code comes here as well; standard error has its stack trace. */
    Failure failure(String client, Throwable error) {
        return new Failure(error.getClass().getSimpleName(), "unknown", error.getMessage());
    }

    /** Makes a client of the text("role") producer or consumer; text("bootstrap"), config() by the names of the Java
     * client, list("needs"): keys of it without which the scenario has no sense: throw Unsupported if you lack one. A
     * producer with a transactional.id initialises its transactions here, unless flag("lazy"): then at a second init. */
    void init(Request request) throws Exception { throw new Unsupported("init"); }

    void begin(Request request) throws Exception { throw new Unsupported("begin"); }

    /** text("topic"), text("value"), text("key") and number("partition", -1) or none; flag("wait"): waits for the
     * acknowledgement, and answers Map.of("partition", p, "offset", o), else null. */
    Map<String, Object> send(Request request) throws Exception { throw new Unsupported("send"); }

    /** Waits for all that was sent; throws the first error since the last flush. */
    void flush(Request request) throws Exception { throw new Unsupported("flush"); }

    /** text("group"), text("consumer") (a client's name) or none, list("offsets") of maps topic, partition, offset. */
    void sendOffsets(Request request) throws Exception { throw new Unsupported("send_offsets"); }

    /** Of the transaction; of a consumer, its positions. */
    void commit(Request request) throws Exception { throw new Unsupported("commit"); }

    /** Records that it drops fail; the next flush or commit must not throw their errors again. */
    void abort(Request request) throws Exception { throw new Unsupported("abort"); }

    /** list("topics"), text("mode"): classic or consumer (KIP-848). */
    void subscribe(Request request) throws Exception { throw new Unsupported("subscribe"); }

    /** Reads until there are number("max", 500) records or number("timeout_ms", 0) is over: Map.of("records", list of maps
     * topic, partition, offset, key, value), empty if none came. */
    Map<String, Object> poll(Request request) throws Exception { throw new Unsupported("poll"); }

    /** Forgets the client; an open transaction is left as it is where the client can do that. */
    void close(Request request) throws Exception { throw new Unsupported("close"); }

    public static void main(String[] arguments) throws Exception { new Driver().run(); }

    // ---- The loop: a request a line, an answer a line ----------------------------------------------------------

    static final List<String> VERBS =
        List.of("init", "begin", "send", "flush", "send_offsets", "commit", "abort", "subscribe", "poll", "close");
    static final int PATIENCE_MS = 25_000, POLL_GRACE_MS = 4_000; // the judge waits for 30 s, and 5 s beyond timeout_ms
    private static final ObjectMapper JSON = new ObjectMapper();

    /** The client's threads must not hold the process: it ends with its standard input. */
    final void run() throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // what libraries print is no answer
        Map<String, Object> about = Map.of("library", library(), "version", version(), "language", "java", "verbs", VERBS);
        answers.println(JSON.writeValueAsString(Map.of("hello", about)));
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.writeValueAsString(answer(threads, line)));
        }
        Runtime.getRuntime().halt(0);
    }

    private Map<String, Object> answer(ExecutorService threads, String line) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", null);
        Request request = new Request(Map.of());
        try {
            request = new Request(JSON.readValue(line, Map.class));
            answer.put("id", request.fields().get("id"));
            int limit = request.number("timeout_ms", PATIENCE_MS) + (request.verb().equals("poll") ? POLL_GRACE_MS : 0);
            // in a thread, so that a call that never ends costs its request alone; it is not cancelled
            Request asked = request;
            Map<String, Object> done = threads.submit(() -> call(asked)).get(limit, TimeUnit.MILLISECONDS);
            answer.put("done", done == null ? Map.of() : done);
        } catch (TimeoutException e) {
            answer.put("error", asMap(new Failure("TIMED_OUT", "unknown", "the client has not finished")));
        } catch (ExecutionException e) {
            if (e.getCause() instanceof Unsupported why) answer.put("unsupported", why.getMessage());
            else {
                e.getCause().printStackTrace();
                answer.put("error", asMap(failure(request.client(), e.getCause())));
            }
        } catch (Exception e) {
            answer.put("error", asMap(new Failure("PROTOCOL", "unknown", e.toString())));
        }
        return answer;
    }

    private static Map<String, Object> asMap(Failure failure) {
        return Map.of("name", failure.name(), "class", failure.category(), "message", String.valueOf(failure.message()));
    }

    private Map<String, Object> call(Request request) throws Exception {
        switch (request.verb()) {
            case "init" -> init(request);
            case "begin" -> begin(request);
            case "send" -> { return send(request); }
            case "flush" -> flush(request);
            case "send_offsets" -> sendOffsets(request);
            case "commit" -> commit(request);
            case "abort" -> abort(request);
            case "subscribe" -> subscribe(request);
            case "poll" -> { return poll(request); }
            case "close" -> close(request);
            default -> throw new Unsupported("no verb " + request.verb());
        }
        return null;
    }
}
