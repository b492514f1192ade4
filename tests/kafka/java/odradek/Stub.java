package odradek;

import java.util.Set;
import org.mockito.Mockito;
import org.mockito.MockSettings;
import org.mockito.invocation.InvocationOnMock;
import org.mockito.stubbing.Answer;
import kafka.utils.Logging;

/** Objects of Kafka's classes that answer what they were taught, and are out of reach in everything else. */
final class Stub {
    private static final Set<String> OF_EVERY_OBJECT = Set.of("toString", "hashCode", "equals");

    private Stub() {}

    static <T> T of(Class<T> type) {
        return Mockito.mock(type, settings());
    }

    static MockSettings settings() {
        return Mockito.withSettings().stubOnly().defaultAnswer((Answer<Object>) Stub::answer);
    }

    static Object answer(InvocationOnMock call) throws Throwable {
        Class<?> declares = call.getMethod().getDeclaringClass();
        String name = call.getMethod().getName();
        if (declares == Logging.class || isLogging(call)) {
            return Mockito.RETURNS_DEFAULTS.answer(call);
        }
        if (OF_EVERY_OBJECT.contains(name)) {
            return Mockito.RETURNS_DEFAULTS.answer(call);
        }
        if (name.contains("$default$")) { // the value of a parameter that a Scala caller left out
            return call.callRealMethod();
        }
        throw new OutOfReach(declares.getSimpleName() + "." + name);
    }

    /** Scala copies the methods of a trait into the classes that have it. */
    private static boolean isLogging(InvocationOnMock call) {
        try {
            Logging.class.getMethod(call.getMethod().getName(), call.getMethod().getParameterTypes());
            return true;
        } catch (NoSuchMethodException notThere) {
            return false;
        }
    }
}
