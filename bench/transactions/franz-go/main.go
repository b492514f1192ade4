// One transactional producer of franz-go in a loop: --records of 100 bytes over --partitions in each transaction.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap := flag.String("bootstrap", "127.0.0.1:9092", "address of the broker")
	topic := flag.String("topic", "bench", "topic")
	records := flag.Int("records", 1, "records of a transaction")
	partitions := flag.Int("partitions", 1, "partitions they go to")
	seconds := flag.Float64("seconds", 3, "time to measure")
	warmUp := flag.Float64("warm-up", 1, "seconds before the measurement")
	flag.Parse()
	found, err := run(*bootstrap, *topic, *records, *partitions, *seconds, *warmUp)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(found)
}

func run(bootstrap, topic string, records, partitions int, seconds, warmUp float64) (map[string]float64, error) {
	ctx := context.Background()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.TransactionalID(fmt.Sprint("bench-", time.Now().UnixNano())),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	value := make([]byte, 100)
	transaction := func() (sent time.Time, err error) {
		if err := client.BeginTransaction(); err != nil {
			return sent, err
		}
		var failed error
		for i := range records {
			client.Produce(ctx, &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed = err
				}
			})
		}
		if err := client.Flush(ctx); err != nil || failed != nil {
			return sent, errors.Join(err, failed)
		}
		sent = time.Now()
		return sent, client.EndTransaction(ctx, kgo.TryCommit)
	}
	if _, err := transaction(); err != nil { // finds the coordinator and the leaders
		return nil, err
	}
	var whole, commit []time.Duration
	start := time.Now()
	measured := start.Add(time.Duration(warmUp * float64(time.Second)))
	end := measured.Add(time.Duration(seconds * float64(time.Second)))
	for before := start; before.Before(end); {
		sent, err := transaction()
		if err != nil {
			return nil, err
		}
		after := time.Now()
		if before.Before(measured) {
			start = after
		} else {
			whole = append(whole, after.Sub(before))
			commit = append(commit, after.Sub(sent))
		}
		before = after
	}
	if len(whole) == 0 {
		return nil, errors.New("no transaction ended in time")
	}
	found := map[string]float64{"transactions_per_second": float64(len(whole)) / time.Since(start).Seconds()}
	for name, took := range map[string][]time.Duration{"transaction": whole, "commit": commit} {
		slices.Sort(took)
		for _, share := range []int{50, 95, 99} {
			found[fmt.Sprintf("%s_p%d_ms", name, share)] = float64(took[len(took)*share/100].Microseconds()) / 1000
		}
	}
	return found, nil
}
