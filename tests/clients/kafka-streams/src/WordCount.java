import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.producer.KafkaProducer;

/** Kafka Streams counts words exactly once, over a clean restart and over one in the middle of a transaction. */
public class WordCount {
    private static final int VOCABULARY = 40;
    private static final int WORDS = 5; // in each line
    private static final int THIRDS = 3; // of the lines: before, between and after the restarts
    private static final int CHUNKS = 50; // of the lines, where they come one after another
    private static final int PAUSE_MS = 200;

    private final Main.Options options;
    private final Path temporary;
    private final Instance.Application application;
    private final List<String> lines;
    private final AtomicReference<Throwable> failure = new AtomicReference<>();

    private WordCount(Main.Options options, Path temporary, String protocol) {
        this.options = options;
        this.temporary = temporary;
        application = new Instance.Application(options.bootstrap(), options.group(), options.topic(),
            options.topic() + "-out", temporary.resolve("state"), protocol);
        Random random = new Random(0);
        lines = IntStream.range(0, options.records()).mapToObj(line -> random.ints(WORDS, 0, VOCABULARY)
            .mapToObj(word -> "word-" + word).collect(Collectors.joining(" "))).toList();
    }

    public static void main(String[] arguments) {
        Map<String, Main.Scenario> scenarios = new HashMap<>();
        for (String name : Main.SCENARIOS.keySet())
            scenarios.put(name, Main.unsupported("Kafka Streams only counts words"));
        scenarios.put("word-count", (options, counts) -> wordCount(options, counts, "classic"));
        scenarios.put("streams-protocol", (options, counts) -> wordCount(options, counts, "streams"));
        scenarios.put("story-streams-expired", WordCount::expiredMember);
        Main.run(arguments, "kafka-streams " + Main.version("kafka-streams"), scenarios);
    }

    private static void wordCount(Main.Options options, Map<String, Object> counts, String protocol) throws Exception {
        Path temporary = Files.createTempDirectory("word-count");
        try {
            new WordCount(options, temporary, protocol).run(counts);
        } finally {
            delete(temporary);
        }
    }

    /** One instance, which is given lines for ten seconds; meanwhile its member is dropped, in whatever transaction. */
    private static void expiredMember(Main.Options options, Map<String, Object> counts) throws Exception {
        Path temporary = Files.createTempDirectory("word-count");
        try {
            new WordCount(options, temporary, "streams").goOn(counts);
        } finally {
            delete(temporary);
        }
    }

    private void goOn(Map<String, Object> counts) throws Exception {
        Administration.createTopic(options, application.input(), options.partitions());
        Administration.createTopic(options, application.output(), options.partitions());
        try (Updates committed = new Updates(options, application.output(), "read_committed");
             Instance instance = instance()) {
            for (int chunk = 0; chunk < CHUNKS; chunk++) {
                try (KafkaProducer<String, String> producer = Records.producer(options)) {
                    int lines = options.records();
                    Records.produce(producer, options, lines * chunk / CHUNKS, lines * (chunk + 1) / CHUNKS, this.lines::get);
                }
                Thread.sleep(PAUSE_MS);
            }
            until("the instance to commit its counts", () -> committed.poll().size() >= options.records() * WORDS);
            check(committed.counts);
            counts.put("updates", committed.size());
        }
        counts.put("outcome", "survives");
    }

    private void run(Map<String, Object> counts) throws Exception {
        Administration.createTopic(options, application.input(), options.partitions());
        Administration.createTopic(options, application.output(), options.partitions());
        try (Updates committed = new Updates(options, application.output(), "read_committed");
             Updates written = new Updates(options, application.output(), "read_uncommitted")) {
            produce(0);
            try (Instance first = instance()) {
                until("the first instance to commit its counts", () -> committed.poll().size() >= end(0) * WORDS);
                produce(1); // it is closed with these lines before it, or half counted
            }
            produce(2);
            haltInTransaction((end(2) - end(1)) * WORDS / 2, () -> written.end() > committed.end());
            try (Instance last = instance()) {
                until("the last instance to commit its counts", () -> committed.poll().size() >= end(2) * WORDS);
            }
            long end = written.end();
            Main.check(committed.end() == end, "a transaction is open although its producer is closed");
            until("all that is committed", () -> committed.poll().reached(end));
            until("all that is written", () -> written.poll().reached(end));
            check(committed.counts);
            int aborted = written.size() - committed.size();
            Main.check(aborted > 0, "no count of the instance that was halted in a transaction was aborted");
            counts.put("words", committed.counts.size());
            counts.put("updates", committed.size());
            counts.put("aborted_updates", aborted);
            counts.put("markers", end - written.size()); // in the output: at most one a transaction and partition
            counts.put("restarts", 2);
        }
    }

    private Instance instance() {
        return new Instance(application, () -> { }, thrown -> failure.compareAndSet(null, thrown));
    }

    /** In a process of its own runs an instance that stops after so many updates; kills it once its transaction is open. */
    private void haltInTransaction(int updates, Condition open) throws Exception {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
        command.add("-Djava.io.tmpdir=" + temporary); // the native library that it unpacks would outlive it elsewhere
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), Instance.class.getName()));
        command.addAll(application.arguments());
        command.add(Integer.toString(updates));
        Process halted = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try {
            until("the second instance to stop in a transaction", () -> {
                Main.check(halted.isAlive(), "the second instance ended by itself");
                return halted.getInputStream().available() > 0;
            });
            until("the transaction of the second instance to be open", open);
        } finally {
            halted.destroyForcibly().waitFor();
        }
    }

    private void produce(int third) {
        try (KafkaProducer<String, String> producer = Records.producer(options)) {
            Records.produce(producer, options, end(third - 1), end(third), lines::get);
        }
    }

    /** The number of lines up to the end of this third. */
    private int end(int third) {
        return options.records() * (third + 1) / THIRDS;
    }

    /** Each word must have been counted 1, 2, 3 and so on to its last occurrence, without a gap or a repetition. */
    private void check(Map<String, List<Long>> counts) {
        Map<String, Long> occurrences = lines.stream().flatMap(line -> Stream.of(line.split(" ")))
            .collect(Collectors.groupingBy(word -> word, Collectors.counting()));
        Map<String, List<Long>> expected = new HashMap<>();
        occurrences.forEach((word, count) -> expected.put(word, LongStream.rangeClosed(1, count).boxed().toList()));
        expected.forEach((word, each) -> Main.check(each.equals(counts.get(word)),
            word + " occurs " + each.size() + " times and was counted " + counts.get(word)));
        Main.check(counts.keySet().equals(expected.keySet()),
            "counted " + counts.keySet() + ", expected " + expected.keySet());
    }

    private interface Condition {
        boolean holds() throws Exception;
    }

    private void until(String what, Condition condition) throws Exception {
        Main.Deadline deadline = options.deadline();
        while (!condition.holds()) {
            if (failure.get() != null) throw new IllegalStateException("an instance ended", failure.get());
            deadline.check(what);
            Thread.sleep(20);
        }
    }

    private static void delete(Path folder) throws IOException {
        try (Stream<Path> paths = Files.walk(folder)) {
            for (Path path : paths.sorted(Comparator.reverseOrder()).toList()) Files.deleteIfExists(path);
        }
    }
}
