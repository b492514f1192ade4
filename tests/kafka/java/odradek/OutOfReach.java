package odradek;

/**
 * A test asks a broker's objects for what nobody sees from outside. It looks into the JVM, where no broker is.
 *
 * <p>The last one is kept, because a test may catch it, wait for the condition until it has had enough, and say so.
 */
final class OutOfReach extends Error {
    private static volatile String last;

    OutOfReach(String what) {
        super(what);
        last = what;
    }

    /** What was asked for last since the call before; null if nothing was. */
    static String drain() {
        String what = last;
        last = null;
        return what;
    }
}
