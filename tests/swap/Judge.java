import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.DumpLogSegments;

/** Calls DumpLogSegments once for each line of input, with its words; a form feed stands before each one's output. */
public class Judge {
    public static void main(String[] none) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            throw new IllegalStateException("exit " + code + ": " + message);
        });
        PrintStream out = System.out;
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in));
        for (String call = calls.readLine(); call != null; call = calls.readLine()) {
            out.print("\f\n");
            try {
                DumpLogSegments.main(call.split(" "));
            } catch (Exception failed) {
                failed.printStackTrace();
                System.err.println(call);
                Runtime.getRuntime().halt(1);
            }
        }
        out.flush();
    }
}
