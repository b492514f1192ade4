import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactions of several transactional ids at once, until the standard input ends. Each writes its value, ID-NUMBER,
 * into every partition, and commits the offset NUMBER of the group ID. Prints a line "OUTCOME VALUE" for each, and
 * "done" where the last one of all ids has ended.
 *   Transactions BOOTSTRAP TOPIC PARTITIONS SEED ID...
 */
public class Transactions {
    public static void main(String[] args) throws Exception {
        List<Thread> writers = new ArrayList<>();
        boolean[] ends = {false};
        for (int n = 4; n < args.length; n++) {
            String id = args[n];
            Random draws = new Random(Long.parseLong(args[3]) * 31 + n);
            Thread writer = new Thread(() -> write(args[0], args[1], Integer.parseInt(args[2]), id, draws, ends));
            writer.start();
            writers.add(writer);
        }
        while (System.in.read() >= 0) {
        }
        ends[0] = true;
        for (Thread writer : writers) {
            writer.join();
        }
        System.out.println("done");
    }

    static void write(String bootstrap, String topic, int partitions, String id, Random draws, boolean[] ends) {
        KafkaProducer<String, String> producer = null;
        for (int number = 1; ; number++) {
            String value = id + "-" + number, outcome = "unknown";
            try {
                if (producer == null) {
                    producer = made(bootstrap, id);
                    producer.initTransactions();
                }
                if (ends[0]) {
                    producer.close();
                    return;
                }
                outcome = transaction(producer, topic, partitions, id, number, value, draws);
            } catch (KafkaException | IllegalStateException failed) {
                // Whatever has become of it, the next incarnation of this transactional id ends it.
                producer.close(Duration.ZERO);
                producer = null;
            }
            say(outcome + " " + value);
        }
    }

    static String transaction(KafkaProducer<String, String> producer, String topic, int partitions, String id,
                              int number, String value, Random draws) {
        producer.beginTransaction();
        for (int partition = 0; partition < partitions; partition++) {
            producer.send(new ProducerRecord<>(topic, partition, null, value + ".".repeat(draws.nextInt(20_000))));
        }
        producer.sendOffsetsToTransaction(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(number)),
            new ConsumerGroupMetadata(id));
        if (draws.nextInt(10) < 3) {
            producer.flush();
            producer.abortTransaction();
            return "aborted";
        }
        producer.commitTransaction();
        return "committed";
    }

    static KafkaProducer<String, String> made(String bootstrap, String id) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        settings.put("retry.backoff.ms", 20);
        settings.put("reconnect.backoff.ms", 20);
        settings.put("reconnect.backoff.max.ms", 100);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
