// Transactional producers of franz-go, each in a loop: --records of 100 bytes over --partitions in each transaction.
// With --per-second they begin so many transactions together, evenly spread; without, the next one when one has ended.
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

type load struct {
	bootstrap, topic               string
	producers, records, partitions int
	seconds, warmUp, perSecond     float64
}

func main() {
	var l load
	flag.StringVar(&l.bootstrap, "bootstrap", "127.0.0.1:9092", "address of the broker")
	flag.StringVar(&l.topic, "topic", "bench", "topic")
	flag.IntVar(&l.producers, "producers", 1, "producers at once, each with a connection and a transactional id of its own")
	flag.IntVar(&l.records, "records", 1, "records of a transaction")
	flag.IntVar(&l.partitions, "partitions", 1, "partitions they go to")
	flag.Float64Var(&l.seconds, "seconds", 3, "time to measure")
	flag.Float64Var(&l.warmUp, "warm-up", 1, "seconds before the measurement")
	flag.Float64Var(&l.perSecond, "per-second", 0, "transactions that all begin together in a second; 0: as many as they can")
	flag.Parse()
	found, err := l.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(found)
}

// times are those of one producer, or of all: whole transactions, and their commits alone.
type times struct {
	whole, commit []time.Duration
	err           error
}

func (l load) run() (map[string]float64, error) {
	begin, ended := make(chan time.Time), make(chan times)
	ready := make(chan error)
	for i := range l.producers {
		go func() { ended <- l.produce(i, ready, begin) }()
	}
	for range l.producers {
		if err := <-ready; err != nil {
			return nil, err
		}
	}
	start := time.Now()
	for range l.producers {
		begin <- start
	}
	var all times
	for range l.producers {
		one := <-ended
		all.err = errors.Join(all.err, one.err)
		all.whole, all.commit = append(all.whole, one.whole...), append(all.commit, one.commit...)
	}
	if all.err != nil {
		return nil, all.err
	}
	if len(all.whole) == 0 {
		return nil, errors.New("no transaction ended in time")
	}
	found := map[string]float64{"transactions_per_second": float64(len(all.whole)) / l.seconds}
	for name, took := range map[string][]time.Duration{"transaction": all.whole, "commit": all.commit} {
		slices.Sort(took)
		for _, share := range []int{50, 95, 99} {
			found[fmt.Sprintf("%s_p%d_ms", name, share)] = float64(took[len(took)*share/100].Microseconds()) / 1000
		}
	}
	return found, nil
}

// produce says when it is ready, and begins with all others.
func (l load) produce(number int, ready chan<- error, begin <-chan time.Time) (found times) {
	ctx := context.Background()
	client, err := kgo.NewClient(kgo.SeedBrokers(l.bootstrap), kgo.TransactionalID(fmt.Sprint("bench-", number, "-", time.Now().UnixNano())),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		ready <- err
		return found
	}
	defer client.Close()
	value := make([]byte, 100)
	transaction := func() (sent time.Time, err error) {
		if err := client.BeginTransaction(); err != nil {
			return sent, err
		}
		var failed error
		for i := range l.records {
			client.Produce(ctx, &kgo.Record{Topic: l.topic, Partition: int32((number + i) % l.partitions), Value: value}, func(_ *kgo.Record, err error) {
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
	_, err = transaction() // finds the coordinator and the leaders
	ready <- err
	if err != nil {
		return found
	}
	start := <-begin
	measured := start.Add(time.Duration(l.warmUp * float64(time.Second)))
	end := measured.Add(time.Duration(l.seconds * float64(time.Second)))
	next, every := start, time.Duration(0)
	if l.perSecond > 0 {
		every = time.Duration(float64(l.producers) / l.perSecond * float64(time.Second))
		next = start.Add(every * time.Duration(number) / time.Duration(l.producers))
	}
	for {
		time.Sleep(time.Until(next))
		before := time.Now()
		if before.After(end) {
			return found
		}
		sent, err := transaction()
		if err != nil {
			found.err = err
			return found
		}
		if after := time.Now(); before.After(measured) {
			found.whole = append(found.whole, after.Sub(before))
			found.commit = append(found.commit, after.Sub(sent))
		}
		next = next.Add(every)
	}
}
