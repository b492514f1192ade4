import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's command-line tools one after another in one virtual machine. A line of the input is a class and its arguments,
 * with tabs between; the output is what the tool printed, and then a line of the character EOT and the exit code.
 */
class Tools {
    private static final String END = "\u0004";

    private static final String AFTER_THE_END = "\u0005";

    /** In the place of the end of the process. Some tools catch and print it, and end once more. */
    private static final class Ended extends RuntimeException {
        Ended() {
            super(AFTER_THE_END, null, false, false);
        }

        @Override
        public String toString() {
            return AFTER_THE_END;
        }
    }

    private static Integer ended;

    private static void end(int code) {
        if (ended == null) ended = code;
        throw new Ended();
    }

    public static void main(String[] arguments) throws IOException {
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        PrintStream out = System.out;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(said, true, StandardCharsets.UTF_8);
            System.setOut(both);
            System.setErr(both);
            int code = run(line.split("\t"), both);
            both.flush();
            out.println(said.toString(StandardCharsets.UTF_8) + "\n" + END + code);
            out.flush();
        }
    }

    private static int run(String[] words, PrintStream err) {
        ended = null;
        try {
            Class.forName(words[0]).getMethod("main", String[].class)
                .invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            return 0;
        } catch (InvocationTargetException thrown) {
            if (ended != null) return ended;
            err.println("threw " + thrown.getCause());
            return 1;
        } catch (ReflectiveOperationException missing) {
            err.println(missing);
            return 127;
        }
    }
}
