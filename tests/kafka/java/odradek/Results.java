package odradek;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.HashMap;
import java.util.Map;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;

/** Tells of every test, as it begins and as it ends, in a line of JSON. */
final class Results implements TestExecutionListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int TRACE_MAX = 6000;

    private final PrintStream out;
    private final Map<String, Long> begun = new HashMap<>();
    private TestPlan plan;

    Results(PrintStream out) {
        this.out = out;
    }

    @Override
    public void testPlanExecutionStarted(TestPlan testPlan) {
        plan = testPlan;
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        begun.put(test.getUniqueId(), System.nanoTime());
        if (test.isTest()) {
            OutOfReach.drain();
            tell(line("begun", test));
        }
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        tell(line("skipped", test).put("message", reason));
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        boolean succeeded = result.getStatus() == TestExecutionResult.Status.SUCCESSFUL;
        if (!test.isTest() && succeeded) {
            return;
        }
        ObjectNode line = line(test.isTest() ? "ended" : "container", test);
        line.put("result", result.getStatus().name().toLowerCase());
        line.put("seconds", (System.nanoTime() - begun.get(test.getUniqueId())) / 1e9);
        String asked = OutOfReach.drain();
        result.getThrowable().ifPresent(thrown -> {
            line.put("message", String.valueOf(thrown));
            line.put("trace", trace(thrown));
            line.put("out_of_reach", asked);
        });
        tell(line);
    }

    private ObjectNode line(String event, TestIdentifier test) {
        ObjectNode line = JSON.createObjectNode().put("event", event).put("id", test.getUniqueId());
        line.put("display", test.getDisplayName());
        test.getSource().ifPresent(source -> {
            if (source instanceof MethodSource method) {
                line.put("method", method.getMethodName());
            }
        });
        for (TestIdentifier above = test; above != null; above = plan.getParent(above).orElse(null)) {
            if (above.getSource().orElse(null) instanceof ClassSource of) {
                line.put("class", of.getClassName());
                break;
            }
        }
        return line;
    }

    private void tell(ObjectNode line) {
        synchronized (out) {
            out.println(line);
            out.flush();
        }
    }

    private static String trace(Throwable thrown) {
        StringWriter text = new StringWriter();
        thrown.printStackTrace(new PrintWriter(text));
        return text.toString().substring(0, Math.min(TRACE_MAX, text.toString().length()));
    }
}
