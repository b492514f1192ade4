// Three hard cases for a transactional client, and a story, played with franz-go.
package example

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	odradek "odradek.dev/helpers/go"
)

func till(t *testing.T, cluster *odradek.Cluster) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(cluster.Seeds()...),
		kgo.TransactionalID("till-1"),
		kgo.TransactionTimeout(time.Minute),
		kgo.DefaultProduceTopic("orders"),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func send(t *testing.T, client *kgo.Client, value string) {
	t.Helper()
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(context.Background(), kgo.StringRecord(value)).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// committed are the values up to the last stable offset, which the test has waited for.
func committed(t *testing.T, cluster *odradek.Cluster, count int) (values []string) {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(cluster.Seeds()...),
		kgo.ConsumeTopics("orders"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	limited, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for len(values) < count && limited.Err() == nil {
		client.PollFetches(limited).EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values
}

func TestACommitWhoseAnswerIsLost(t *testing.T) {
	cluster := odradek.New(t, odradek.Options{Topics: []string{"orders"}})
	cluster.Arm(odradek.Rule{
		Match: odradek.Match{"api": "END_TXN", "transactional_id": "till-1"}, Act: odradek.Act{"disconnect": "after"}, Expect: odradek.Hits(1),
	})
	client := till(t, cluster)
	commit(t, client, "one coffee")
	cluster.Wait("transaction", map[string]any{"id": "till-1", "state": "CompleteCommit"})
	if values := committed(t, cluster, 1); len(values) != 1 || values[0] != "one coffee" {
		t.Fatal(values)
	}
}

func TestMarkersThatWait(t *testing.T) {
	cluster := odradek.New(t, odradek.Options{Brokers: 3, Topics: []string{"orders"}})
	cluster.Arm(odradek.Rule{
		Name: "markers", Match: odradek.Match{"api": "WRITE_TXN_MARKERS"}, Act: odradek.Act{"hold": true}, When: odradek.When{"times": "all"}, Expect: odradek.AtLeast(1),
	})
	client := till(t, cluster)
	commit(t, client, "one coffee")
	cluster.Wait("rule", map[string]any{"name": "markers", "held": 1})
	var partition struct {
		LastStableOffset int `json:"last_stable_offset"`
		HighWatermark    int `json:"high_watermark"`
	}
	cluster.Get(&partition, "partitions", "orders", "0")
	if partition.LastStableOffset != 0 || partition.HighWatermark != 1 {
		t.Fatal(partition)
	}
	cluster.Disarm("markers")
	cluster.Wait("partition", map[string]any{"topic": "orders", "partition": 0, "last_stable_offset": 2})
	if values := committed(t, cluster, 1); len(values) != 1 {
		t.Fatal(values)
	}
}

func TestATransactionThatTakesTooLong(t *testing.T) {
	cluster := odradek.New(t, odradek.Options{Topics: []string{"orders"}})
	client := till(t, cluster)
	send(t, client, "one coffee")
	cluster.Advance(2 * time.Minute)
	cluster.Wait("transaction", map[string]any{"id": "till-1", "state": "CompleteAbort"})
	if err := client.EndTransaction(context.Background(), kgo.TryCommit); err == nil {
		t.Fatal("a transaction that was aborted was committed")
	}
}

func TestAStory(t *testing.T) {
	cluster := odradek.New(t, odradek.Options{Story: "end-txn-answer-lost-in-prepare"})
	commit(t, till(t, cluster), "one coffee")
	cluster.Verify()
}

func TestAStateThatIsMadeOnceAndForked(t *testing.T) {
	origin := odradek.New(t, odradek.Options{Topics: []string{"orders"}})
	send(t, till(t, origin), "one coffee")
	hanging := "hanging-" + origin.ID // a hub may have several suites
	origin.Snapshot(hanging)
	for range 2 {
		fork := odradek.New(t, odradek.Options{From: hanging})
		fork.Advance(2 * time.Minute) // its own time alone: each fork still has the transaction to abort
		fork.Wait("transaction", map[string]any{"id": "till-1", "state": "CompleteAbort"})
	}
}

func commit(t *testing.T, client *kgo.Client, value string) {
	t.Helper()
	send(t, client, value)
	if err := client.EndTransaction(context.Background(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
}

func TestAClusterWithLogins(t *testing.T) {
	users := map[string]string{"alice": "hush"}
	cluster := odradek.New(t, odradek.Options{Topics: []string{"orders"}, Security: "sasl-ssl", Users: users})
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(cluster.Access.CA))
	for password, welcome := range map[string]bool{"hush": true, "guessed": false} {
		client, err := kgo.NewClient(
			kgo.SeedBrokers(cluster.Seeds()...),
			kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}),
			kgo.SASL(plain.Auth{User: "alice", Pass: password}.AsMechanism()),
			kgo.DefaultProduceTopic("orders"),
		)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		limited, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := client.Ping(limited); (err == nil) != welcome {
			t.Errorf("with the password %s: %v", password, err)
		}
	}
}
