import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactions of Kafka's own client, which speaks level 2: BOOTSTRAP ID COUNT LEAVE_OPEN. Every third one is aborted. */
public class Transactions {
    public static void main(String[] args) throws Exception {
        String id = args[1];
        int count = Integer.parseInt(args[2]);
        var producer = new KafkaProducer<String, String>(
            Map.of("bootstrap.servers", args[0], "transactional.id", id), new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        for (int number = 0; number < count; number++) {
            producer.beginTransaction();
            for (int partition = 0; partition < 1 + number % 3; partition++) {
                for (int record = 0; record < 3; record++) {
                    producer.send(new ProducerRecord<>("orders", partition, null, id + "-" + number + "-" + record));
                    if (record > 0) producer.flush();
                }
            }
            if (number % 3 == 2) producer.abortTransaction(); else producer.commitTransaction();
        }
        if (Boolean.parseBoolean(args[3])) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("orders", 2, null, "still open")).get();
            System.out.println("open");
            System.exit(0);
        }
        producer.close();
    }
}
