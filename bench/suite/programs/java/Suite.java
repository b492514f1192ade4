import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;

/**
 * The plays of the suite for the Java client: plays each line of its input, `play=commit bootstrap=127.0.0.1:9092
 * topic=t …`, and answers it with one line of JSON. What each play checks is said in bench/suite/cases.py.
 *
 * Arguments: consumer.NAME=VALUE and producer.NAME=VALUE, settings of the clients beside their own.
 */
public class Suite {
    interface Scene {
        void run(Play play) throws Exception;
    }

    static final Map<String, Scene> SCENES = Map.ofEntries(
        Map.entry("roundtrip", Plays::roundtrip), Map.entry("missing", Plays::missing),
        Map.entry("resume", Plays::resume), Map.entry("waiting", Plays::waiting),
        Map.entry("commit", play -> Plays.transact(play, false)), Map.entry("abort", play -> Plays.transact(play, true)),
        Map.entry("copy", Plays::copy), Map.entry("rebalance", Group::rebalance), Map.entry("fence", Plays::fence),
        Map.entry("topics", Plays::topics), Map.entry("records", Plays::offsets), Map.entry("groups", Plays::groups));

    public static void main(String[] settings) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, String> given = words(line.split(" "));
            long began = System.nanoTime();
            String error = null;
            try (Play play = new Play(given, words(settings))) {
                SCENES.get(given.get("play")).run(play);
            } catch (Throwable thrown) {
                thrown.printStackTrace();
                error = thrown.toString();
            }
            Map<String, Object> told = new HashMap<>();
            told.put("seconds", (System.nanoTime() - began) / 1e9);
            told.put("error", error);
            told.put("unsupported", false);
            System.out.println(Main.json(told));
            System.out.flush();
        }
        System.exit(0);
    }

    static Map<String, String> words(String[] all) {
        Map<String, String> given = new HashMap<>();
        for (String word : all) given.put(word.substring(0, word.indexOf('=')), word.substring(word.indexOf('=') + 1));
        return given;
    }
}
