import java.io.PrintStream;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.DumpLogSegments;

/** Calls DumpLogSegments once for each argument, with the words in it; a form feed stands before each one's output. */
public class Judge {
    public static void main(String[] calls) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            throw new IllegalStateException("exit " + code + ": " + message);
        });
        PrintStream out = System.out;
        for (String call : calls) {
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
