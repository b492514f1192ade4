package odradek;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.KeyPairGeneratorSpi;
import java.security.PrivateKey;
import java.security.Provider;
import java.security.SecureRandom;
import java.security.Security;
import java.security.interfaces.RSAPrivateCrtKey;
import java.security.spec.PKCS8EncodedKeySpec;
import java.security.spec.RSAPublicKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * RSA keys that were made before. The tests make two for each client with TLS, and a JVM that compiles as little as this
 * one needs more than a second for each: some classes would never come to their end.
 */
public final class Keys extends Provider {
    private static final int BITS = 2048;
    private static final List<KeyPair> MADE = new ArrayList<>();
    private static final AtomicInteger TAKEN = new AtomicInteger();

    private Keys() {
        super("Odradek", "1", "RSA keys that were made before");
        put("KeyPairGenerator.RSA", Generator.class.getName());
    }

    /** From now on whoever wants a pair of keys gets one of these, in turn: PKCS#8, a line of base64 for each. */
    static void take(Path file) throws IOException, GeneralSecurityException {
        KeyFactory factory = KeyFactory.getInstance("RSA");
        for (String line : Files.readAllLines(file)) {
            PrivateKey secret = factory.generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(line)));
            RSAPrivateCrtKey numbers = (RSAPrivateCrtKey) secret;
            var known = new RSAPublicKeySpec(numbers.getModulus(), numbers.getPublicExponent());
            MADE.add(new KeyPair(factory.generatePublic(known), secret));
        }
        Security.insertProviderAt(new Keys(), 1);
    }

    /** Hands them out; keys of another size it has made. */
    public static final class Generator extends KeyPairGeneratorSpi {
        private int bits = BITS;
        private SecureRandom random = new SecureRandom();

        @Override
        public void initialize(int keysize, SecureRandom random) {
            this.bits = keysize;
            this.random = random;
        }

        @Override
        public KeyPair generateKeyPair() {
            if (bits == BITS) {
                return MADE.get(TAKEN.getAndIncrement() % MADE.size());
            }
            try {
                KeyPairGenerator other = KeyPairGenerator.getInstance("RSA", "SunRsaSign");
                other.initialize(bits, random);
                return other.generateKeyPair();
            } catch (GeneralSecurityException impossible) {
                throw new IllegalStateException(impossible);
            }
        }
    }
}
