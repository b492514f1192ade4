import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;
import org.apache.kafka.common.protocol.Errors;

/**
 * The configuration keys and the error codes of a release, from the tables that its brokers read: one line a key, with
 * tabs between kind, name, type, "internal" or "shown", scope, and the default where there is one; or "error", name, code.
 */
public class ReleaseTables {
    public static void main(String[] arguments) throws Exception {
        print("broker", table("org.apache.kafka.server.config.AbstractKafkaConfig"), scopes());
        Object topics = Class.forName("org.apache.kafka.storage.internals.log.LogConfig").getMethod("configKeys").invoke(null);
        print("topic", keys(topics), Map.of());
        print("group", table("org.apache.kafka.coordinator.group.GroupConfig"), Map.of());
        for (Errors error : Errors.values())
            System.out.println(String.join("\t", "error", error.name(), String.valueOf(error.code())));
    }

    private static Map<String, ConfigKey> table(String name) throws Exception {
        return ((ConfigDef) Class.forName(name).getField("CONFIG_DEF").get(null)).configKeys();
    }

    @SuppressWarnings("unchecked")
    private static Map<String, ConfigKey> keys(Object table) {
        return (Map<String, ConfigKey>) table;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, String> scopes() throws Exception {
        Class<?> dynamic = Class.forName("org.apache.kafka.server.config.DynamicBrokerConfig");
        return (Map<String, String>) dynamic.getMethod("dynamicConfigUpdateModes").invoke(null);
    }

    private static void print(String kind, Map<String, ConfigKey> keys, Map<String, String> scopes) {
        for (ConfigKey key : new TreeMap<>(keys).values()) {
            String line = String.join("\t", kind, key.name, key.type.toString(), key.internalConfig ? "internal" : "shown",
                scopes.getOrDefault(key.name, "read-only"));
            String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null;
            System.out.println(value == null ? line : line + "\t" + value);
        }
    }
}
