import java.util.HashMap;
import java.util.Map;

/** How a client gets in where the broker asks who it is (SASL_SSL), as the environment says. */
final class Security {
    private Security() {}

    static Map<String, String> settings() {
        Map<String, String> settings = new HashMap<>();
        Map<String, String> told = System.getenv();
        if (!told.containsKey("CLIENT_SSL_CA")) return settings;
        String mechanism = told.get("CLIENT_SASL_MECHANISM");
        String module = mechanism.startsWith("SCRAM") ? "scram.ScramLoginModule" : "plain.PlainLoginModule";
        settings.put("security.protocol", "SASL_SSL");
        settings.put("ssl.truststore.type", "PEM");
        settings.put("ssl.truststore.location", told.get("CLIENT_SSL_CA"));
        settings.put("sasl.mechanism", mechanism);
        settings.put("sasl.jaas.config", String.format(
            "org.apache.kafka.common.security.%s required username=\"%s\" password=\"%s\";",
            module, told.get("CLIENT_SASL_USERNAME"), told.get("CLIENT_SASL_PASSWORD")));
        return settings;
    }
}
