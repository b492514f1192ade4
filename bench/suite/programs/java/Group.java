import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/** A group of three that rebalances. */
class Group {
    /** A member that polls in a thread of its own until it leaves. */
    static class Joined extends Thread {
        final List<ConsumerRecord<String, String>> found = new CopyOnWriteArrayList<>();
        volatile int assigned;
        volatile Throwable failure;
        private volatile boolean leaving;
        private final Play play;

        Joined(Play play) {
            this.play = play;
            start();
        }

        @Override
        public void run() {
            try (KafkaConsumer<String, String> member = play.member()) {
                while (!leaving) {
                    var records = member.poll(Duration.ofMillis(100));
                    records.forEach(found::add);
                    if (!records.isEmpty()) member.commitSync();
                    assigned = member.assignment().size();
                }
            } catch (Throwable thrown) {
                failure = thrown;
            }
        }

        void leave() throws Exception {
            leaving = true;
            join();
            if (failure != null) throw new IllegalStateException(failure);
        }
    }

    static void rebalance(Play play) throws Exception {
        play.create(play.topic);
        List<Joined> members = new ArrayList<>(List.of(new Joined(play), new Joined(play), new Joined(play)));
        try {
            shared(play, members, 0, play.records);
            members.remove(2).leave();
            for (Joined member : members) member.found.clear();
            shared(play, members, play.records, 2 * play.records);
        } finally {
            for (Joined member : members) member.leaving = true;
            for (Joined member : members) member.leave();
        }
        play.committed(2 * play.records);
    }

    /** The members share the partitions, then each record is read once. */
    private static void shared(Play play, List<Joined> members, int from, int end) throws Exception {
        int share = play.partitions / members.size();
        Play.until("the partitions are shared", () -> {
            for (Joined member : members) if (member.failure != null) throw new IllegalStateException(member.failure);
            return members.stream().allMatch(member -> member.assigned == share);
        });
        play.produce(from, end);
        Play.until("all is read", () -> members.stream().mapToInt(member -> member.found.size()).sum() >= end - from);
        List<ConsumerRecord<String, String>> all = new ArrayList<>();
        for (Joined member : members) all.addAll(member.found);
        Play.expect(all, play.made(play.topic, from, end));
    }
}
