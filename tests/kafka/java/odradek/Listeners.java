package odradek;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.security.auth.KafkaPrincipalBuilder;
import org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder;
import org.apache.kafka.common.security.plain.PlainLoginModule;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import scala.jdk.javaapi.CollectionConverters;

/** The listeners of a broker, and how clients get in: said in a way that a process without a JVM can take. */
final class Listeners {
    private static final String SIGNERS = "sasl.oauthbearer.jwks.endpoint.url";
    private static final String MECHANISMS = "sasl.enabled.mechanisms";
    private static final String BUILDER = "principal.builder.class";
    private static final String AUTHORIZER = "authorizer.class.name";

    private final KafkaConfig config;

    Listeners(KafkaConfig config) {
        this.config = config;
    }

    /** Where clients connect; a port of 0 is the one from before, or any. */
    List<Cluster.Listening> listening(Map<String, Integer> before) {
        List<Cluster.Listening> listening = new ArrayList<>();
        for (Endpoint each : CollectionConverters.asJava(config.effectiveAdvertisedBrokerListeners())) {
            int port = each.port() > 0 ? each.port() : before.getOrDefault(each.listener(), 0);
            listening.add(new Cluster.Listening(each, port, builder(each)));
        }
        return listening;
    }

    /** The test's own builder of principals, if it has one. */
    private KafkaPrincipalBuilder builder(Endpoint listener) {
        String own = "listener.name." + listener.listener().toLowerCase(Locale.ROOT) + '.' + BUILDER;
        Object named = config.originals().getOrDefault(own, config.originals().get(BUILDER));
        if (named == null) {
            return null;
        }
        try {
            Class<?> type = named instanceof Class<?> found ? found : Class.forName(named.toString());
            if (type == DefaultKafkaPrincipalBuilder.class) {
                return null;
            }
            if (listener.securityProtocol().name.startsWith("SASL")) {
                throw new OutOfReach("a builder of principals for " + listener.securityProtocol());
            }
            return (KafkaPrincipalBuilder) type.getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** What the configuration says in terms of Java, in terms of files and texts. */
    void translate(Map<String, String> given) {
        for (String key : List.copyOf(given.keySet())) {
            for (String kind : new String[] {"ssl.keystore.", "ssl.truststore."}) {
                if (key.endsWith(kind + "location")) {
                    store(given, key.substring(0, key.length() - kind.length() - "location".length()), kind);
                }
            }
            if (key.endsWith(SIGNERS) && given.get(key).startsWith("http")) {
                signers(given, key);
            }
            if (key.endsWith(MECHANISMS)) {
                List<String> mechanisms = new ArrayList<>(List.of(given.get(key).split(",")));
                // Nobody can log in by it, and other mechanisms may be what the test is about.
                if (mechanisms.size() > 1) {
                    mechanisms.remove("GSSAPI");
                }
                given.put(key, String.join(",", mechanisms));
            }
        }
        authorizer(given);
        given.keySet().removeIf(key -> key.startsWith("listener.name.") && key.endsWith(BUILDER)); // see builder
        for (Endpoint each : CollectionConverters.asJava(config.effectiveAdvertisedBrokerListeners())) {
            logins(each.listener().toLowerCase(Locale.ROOT), given);
        }
    }

    /** The keys of those who sign tokens: the broker reads no URL but that of a file. */
    private static void signers(Map<String, String> given, String key) {
        try (InputStream in = URI.create(given.remove(key)).toURL().openStream()) {
            String keys = new String(in.readAllBytes(), StandardCharsets.UTF_8);
            given.put(key.substring(0, key.length() - SIGNERS.length()) + "odradek.sasl.oauthbearer.jwks", keys);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** One that only watches Kafka's own authorizer decides as that does. */
    private static void authorizer(Map<String, String> given) {
        String name = given.get(AUTHORIZER);
        if (name == null || name.isEmpty()) {
            return;
        }
        try {
            if (StandardAuthorizer.class.isAssignableFrom(Class.forName(name))) {
                given.put(AUTHORIZER, StandardAuthorizer.class.getName());
                return;
            }
        } catch (ClassNotFoundException unknown) {
            // the one below says so
        }
        throw new OutOfReach("an authorizer of the test's own");
    }

    /** Those of JAAS's own configuration, which is one for the whole JVM. */
    private static void logins(String listener, Map<String, String> given) {
        String key = "listener.name." + listener + ".plain.sasl.jaas.config";
        if (given.containsKey(key)) {
            return;
        }
        AppConfigurationEntry[] entries = null;
        try {
            Configuration jaas = Configuration.getConfiguration();
            entries = jaas.getAppConfigurationEntry(listener + ".KafkaServer");
            entries = entries == null ? jaas.getAppConfigurationEntry("KafkaServer") : entries;
        } catch (SecurityException none) {
            // nobody has configured JAAS
        }
        for (AppConfigurationEntry entry : entries == null ? new AppConfigurationEntry[0] : entries) {
            if (entry.getLoginModuleName().equals(PlainLoginModule.class.getName())) {
                StringBuilder text = new StringBuilder(entry.getLoginModuleName()).append(" required");
                entry.getOptions().forEach((name, value) ->
                    text.append(' ').append(name).append("=\"").append(value).append('"'));
                given.put(key, text.append(';').toString());
            }
        }
    }

    /** Java's old format as the newer one, which others can read; one password is for the file and for its keys. */
    private static void store(Map<String, String> given, String prefix, String kind) {
        String type = given.getOrDefault(prefix + kind + "type", "JKS");
        String password = given.get(prefix + kind + "password");
        if (!type.equals("JKS") || password == null) {
            return;
        }
        String keyPassword = given.getOrDefault(prefix + "ssl.key.password", password);
        Path location = Path.of(given.get(prefix + kind + "location"));
        try {
            KeyStore old = KeyStore.getInstance("JKS");
            try (InputStream in = Files.newInputStream(location)) {
                old.load(in, password.toCharArray());
            }
            KeyStore newer = KeyStore.getInstance("PKCS12");
            newer.load(null, null);
            for (String alias : Collections.list(old.aliases())) {
                var protection = new KeyStore.PasswordProtection(keyPassword.toCharArray());
                boolean isKey = old.isKeyEntry(alias);
                newer.setEntry(alias, old.getEntry(alias, isKey ? protection : null),
                    isKey ? new KeyStore.PasswordProtection(password.toCharArray()) : null);
            }
            Path target = Files.createTempFile("store", ".p12");
            try (OutputStream out = Files.newOutputStream(target)) {
                newer.store(out, password.toCharArray());
            }
            given.put(prefix + kind + "location", target.toString());
            given.put(prefix + kind + "type", "PKCS12");
            if (kind.equals("ssl.keystore.")) {
                given.put(prefix + "ssl.key.password", password);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }
}
