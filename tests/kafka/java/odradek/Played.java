package odradek;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * What this JVM does not play. `-Dodradek.played=FILE` names, by JUnit's ids, what one before it has played, which ended
 * with a test that hung; `-Dodradek.left.out=FILE` names, as `CLASS METHOD #INVOCATION`, what is not applicable.
 */
public final class Played implements ExecutionCondition {
    private static final Set<String> PLAYED = read("odradek.played");
    private static final Set<String> LEFT_OUT = read("odradek.left.out");

    private static Set<String> read(String property) {
        String file = System.getProperty(property);
        try {
            return file == null ? Set.of() : Set.copyOf(Files.readAllLines(Path.of(file)));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        boolean leave = PLAYED.contains(context.getUniqueId()) || LEFT_OUT.contains(name(context));
        return leave
            ? ConditionEvaluationResult.disabled("left out")
            : ConditionEvaluationResult.enabled(null);
    }

    private static String name(ExtensionContext context) {
        String id = context.getUniqueId();
        boolean isInvocation = id.endsWith("]") && id.contains("[test-template-invocation:#");
        String invocation = isInvocation ? id.substring(id.lastIndexOf('#'), id.length() - 1) : "";
        String method = context.getTestMethod().map(found -> found.getName()).orElse("");
        return (context.getTestClass().map(Class::getName).orElse("") + " " + method + " " + invocation).trim();
    }
}
