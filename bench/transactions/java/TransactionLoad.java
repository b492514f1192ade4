import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** One transactional producer in a loop: --records of 100 bytes over --partitions in each transaction. */
public class TransactionLoad {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = new LinkedHashMap<>();
        for (int i = 0; i + 1 < arguments.length; i += 2) given.put(arguments[i].substring(2), arguments[i + 1]);
        String topic = given.get("topic");
        int records = Integer.parseInt(given.getOrDefault("records", "1"));
        int partitions = Integer.parseInt(given.getOrDefault("partitions", "1"));
        double seconds = Double.parseDouble(given.getOrDefault("seconds", "3"));
        double warmUp = Double.parseDouble(given.getOrDefault("warm-up", "1"));
        Properties properties = new Properties();
        properties.put("bootstrap.servers", given.get("bootstrap"));
        properties.put("transactional.id", "bench-" + System.nanoTime());
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            producer.initTransactions();
            byte[] value = new byte[100];
            transaction(producer, topic, records, partitions, value); // finds the leaders
            long[] whole = new long[1 << 20], commit = new long[1 << 20];
            int count = 0;
            long start = System.nanoTime(), measured = start + (long) (warmUp * 1e9), end = measured + (long) (seconds * 1e9);
            for (long before = start; before < end; ) {
                long sent = transaction(producer, topic, records, partitions, value);
                long after = System.nanoTime();
                if (before >= measured) {
                    whole[count] = after - before;
                    commit[count++] = after - sent;
                } else start = after;
                before = after;
            }
            double elapsed = (System.nanoTime() - start) / 1e9;
            System.out.printf("{\"transactions_per_second\": %.1f, %s, %s}%n", count / elapsed,
                percentiles("transaction", whole, count), percentiles("commit", commit, count));
        }
        System.exit(0);
    }

    /** Gives the time at which the records had been acknowledged and the commit was asked for. */
    static long transaction(KafkaProducer<byte[], byte[]> producer, String topic, int records, int partitions, byte[] value) {
        producer.beginTransaction();
        for (int i = 0; i < records; i++) producer.send(new ProducerRecord<>(topic, i % partitions, null, value));
        producer.flush();
        long sent = System.nanoTime();
        producer.commitTransaction();
        return sent;
    }

    static String percentiles(String name, long[] took, int count) {
        long[] sorted = Arrays.copyOf(took, count);
        Arrays.sort(sorted);
        StringBuilder text = new StringBuilder();
        for (int share : new int[] {50, 95, 99}) {
            if (share > 50) text.append(", ");
            text.append(String.format("\"%s_p%d_ms\": %.3f", name, share, sorted[count * share / 100] / 1e6));
        }
        return text.toString();
    }
}
