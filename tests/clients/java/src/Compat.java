import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;

/** Calls that have other names or arguments in other releases (0.11 to 4.4), found at run time. */
class Compat {
    /** True if the class of the target has a method of this name and these arguments. */
    static boolean has(Object target, String name, Object... arguments) {
        return find(target, name, arguments) != null;
    }

    /** True if this release brings the library that has this class. */
    static boolean bundled(String className) {
        try {
            Class.forName(className, false, Compat.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException e) {
            return false;
        }
    }

    /** Calls the public method; UnsupportedOperationException where this release has none. */
    static Object call(Object target, String name, Object... arguments) throws Exception {
        Method method = find(target, name, arguments);
        if (method == null) throw new UnsupportedOperationException("this release has no " + name);
        method.setAccessible(true);
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof Exception cause) throw cause;
            throw e;
        }
    }

    /** Calls the first of several methods that exists, and waits for its future if it gives one. */
    @SuppressWarnings("unchecked")
    static <T> T await(Object target, String names, Object... arguments) throws Exception {
        for (String name : names.split("\\|")) {
            if (!has(target, name, arguments)) continue;
            Object answer = call(target, name, arguments);
            return (T) (answer instanceof KafkaFuture<?> future ? future.get() : answer);
        }
        throw new UnsupportedOperationException("this release has no " + names);
    }

    private static Method find(Object target, String name, Object[] arguments) {
        for (Method method : target.getClass().getMethods()) {
            if (!method.getName().equals(name) || method.getParameterCount() != arguments.length) continue;
            boolean fits = true;
            for (int i = 0; i < arguments.length; i++) fits &= method.getParameterTypes()[i].isInstance(arguments[i])
                || method.getParameterTypes()[i] == long.class && arguments[i] instanceof Long;
            if (fits) return method;
        }
        return null;
    }

    private static final boolean POLL_TAKES_DURATION = Arrays.stream(Consumer.class.getMethods())
        .anyMatch(method -> method.getName().equals("poll") && method.getParameterTypes()[0] == Duration.class);

    @SuppressWarnings("unchecked")
    static <K, V> ConsumerRecords<K, V> poll(Consumer<K, V> consumer, long milliseconds) {
        Object patience = POLL_TAKES_DURATION ? Duration.ofMillis(milliseconds) : (Object) milliseconds;
        try {
            return (ConsumerRecords<K, V>) call(consumer, "poll", patience);
        } catch (RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    /** With the consumer's member and generation where the release can (2.5), else with the group's name. */
    static void sendOffsets(Producer<?, ?> producer, Map<TopicPartition, OffsetAndMetadata> offsets,
                            Consumer<?, ?> consumer, String group) throws Exception {
        Object about = has(consumer, "groupMetadata") ? call(consumer, "groupMetadata") : group;
        call(producer, "sendOffsetsToTransaction", offsets, about);
    }

    static OffsetAndMetadata committed(Consumer<?, ?> consumer, TopicPartition partition) throws Exception {
        if (has(consumer, "committed", partition)) return (OffsetAndMetadata) call(consumer, "committed", partition);
        return (OffsetAndMetadata) ((Map<?, ?>) call(consumer, "committed", java.util.Set.of(partition))).get(partition);
    }
}
