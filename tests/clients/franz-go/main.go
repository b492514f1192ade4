// One scenario of franz-go: reads the options, runs it, prints one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// options is the one argument style of all client programs: --name value.
type options struct {
	bootstrap, scenario, topic, group, transactionalID, compression string
	records, partitions, transactions, timeout                      int
}

type counts map[string]any

type scenario func(context.Context, options, counts) error

var scenarios = map[string]scenario{
	"produce-consume": produceConsume,
	"group":           group,
	"admin":           admin,
	"transactions":    transactions,
	"txn-offsets":     txnOffsets,
	"zombie":          zombie,
	"txn-timeout":     txnTimeout,
}

func parse() options {
	var o options
	flag.StringVar(&o.bootstrap, "bootstrap", "", "host:port")
	flag.StringVar(&o.scenario, "scenario", "", "what to play")
	flag.StringVar(&o.topic, "topic", "checked", "topic to create and use")
	flag.StringVar(&o.group, "group", "", "consumer group")
	flag.StringVar(&o.transactionalID, "transactional-id", "", "transactional id")
	flag.StringVar(&o.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	flag.IntVar(&o.records, "records", 1000, "records to write")
	flag.IntVar(&o.partitions, "partitions", 3, "partitions of the topic")
	flag.IntVar(&o.transactions, "transactions", 20, "transactions to make")
	flag.IntVar(&o.timeout, "timeout", 60, "seconds for each wait")
	flag.Parse()
	if o.group == "" {
		o.group = o.topic + "-group"
	}
	if o.transactionalID == "" {
		o.transactionalID = o.topic + "-id"
	}
	return o
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/twmb/franz-go" {
				return "franz-go " + module.Version
			}
		}
	}
	return "franz-go"
}

func main() {
	o := parse()
	play := scenarios[o.scenario]
	if play == nil || o.bootstrap == "" {
		flag.Usage()
		os.Exit(2)
	}
	found := counts{}
	start := time.Now()
	err := play(context.Background(), o, found)
	result := map[string]any{
		"ok": err == nil, "client": version(), "scenario": o.scenario, "counts": found, "error": nil, "unsupported": false,
		"seconds": math.Round(time.Since(start).Seconds()*1000) / 1000,
	}
	if err != nil {
		result["error"] = err.Error()
	}
	line, _ := json.Marshal(result)
	fmt.Println(string(line))
	if err != nil {
		os.Exit(1)
	}
}

var padding = strings.Repeat("x", 86)

func value(i int) string { return fmt.Sprintf("record-%06d-%s", i, padding) }

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// client is an idempotent producer, and whatever the further options make of it.
func client(o options, more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(o.bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[o.compression]),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}, more...)...)
}

func createTopics(ctx context.Context, o options, topics ...string) error {
	c, err := client(o)
	if err != nil {
		return err
	}
	defer c.Close()
	answers, err := kadm.NewClient(c).CreateTopics(ctx, int32(o.partitions), 1, nil, topics...)
	return errors.Join(err, answers.Error())
}

// produce writes records from..to, record i to partition i % partitions, and checks that the offsets given back follow one another.
func produce(ctx context.Context, c *kgo.Client, o options, from, to int) error {
	var wrong error
	next := map[int32]int64{}
	for i := from; i < to; i++ {
		record := &kgo.Record{Topic: o.topic, Partition: int32(i % o.partitions), Key: fmt.Append(nil, i), Value: []byte(value(i))}
		c.Produce(ctx, record, func(r *kgo.Record, err error) { // called by one goroutine at a time
			if expected, ok := next[r.Partition]; err == nil && ok && expected != r.Offset {
				err = fmt.Errorf("offset %d after %d in partition %d", r.Offset, expected-1, r.Partition)
			}
			next[r.Partition] = r.Offset + 1
			if wrong == nil {
				wrong = err
			}
		})
	}
	return errors.Join(c.Flush(ctx), wrong)
}

// read gives the records of all partitions: the expected number, then waits half a second for those that should not come.
func read(ctx context.Context, o options, topic string, isolation kgo.IsolationLevel, expected int) (map[int32][]*kgo.Record, error) {
	c, err := client(o, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(isolation), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	found, count, quiet := map[int32][]*kgo.Record{}, 0, false
	for end := time.Now().Add(time.Duration(o.timeout) * time.Second); time.Now().Before(end); {
		if count >= expected && !quiet {
			quiet, end = true, time.Now().Add(500*time.Millisecond)
		}
		waiting, cancel := context.WithDeadline(ctx, end)
		fetches := c.PollFetches(waiting)
		for _, failed := range fetches.Errors() {
			if waiting.Err() == nil {
				cancel()
				return nil, failed.Err
			}
		}
		cancel()
		fetches.EachRecord(func(r *kgo.Record) {
			found[r.Partition] = append(found[r.Partition], r)
			count++
		})
	}
	if count != expected {
		return nil, fmt.Errorf("read %d records, expected %d", count, expected)
	}
	return found, nil
}

// until waits for a condition, as long as the options allow.
func until(o options, what string, holds func() (bool, error)) error {
	for end := time.Now().Add(time.Duration(o.timeout) * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if done, err := holds(); err != nil || done {
			return err
		}
	}
	return errors.New("timed out waiting for " + what)
}
