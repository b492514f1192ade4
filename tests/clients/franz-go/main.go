// One scenario of franz-go.
package main

import (
	"context"
	"time"

	"odradek/scenarios"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	patience  = 30 * time.Second
	fetchWait = 100 * time.Millisecond // a fetch that a rebalance has made useless holds up the next one
)

var ctx = context.Background()

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

var isolations = map[scenarios.Isolation]kgo.IsolationLevel{
	scenarios.ReadUncommitted: kgo.ReadUncommitted(), scenarios.ReadCommitted: kgo.ReadCommitted(),
}

type franz struct {
	bootstrap string
	adm       *kadm.Client
	members   context.Context
	name      string // of members, if they have one
}

func (f *franz) Version() string { return scenarios.Release("github.com/twmb/franz-go") }

// options are those of every client; without further ones it is an idempotent producer.
func (f *franz) options(more ...kgo.Opt) []kgo.Opt {
	if s := scenarios.Secured(); s != nil {
		more = append(more, kgo.DialTLSConfig(s.TLS), kgo.SASL(login(s)))
	}
	return append([]kgo.Opt{
		kgo.SeedBrokers(f.bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.FetchMaxWait(fetchWait),
	}, more...)
}

func (f *franz) client(more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(f.options(more...)...)
}

func toSend(topic string, record scenarios.Record) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: record.Partition, Key: []byte(record.Key), Value: []byte(record.Value)}
}

func found(records []*kgo.Record) []scenarios.Record {
	var all []scenarios.Record
	for _, r := range records {
		key, value := string(r.Key), string(r.Value)
		all = append(all, scenarios.Record{Partition: r.Partition, Offset: r.Offset, Key: key, Value: value})
	}
	return all
}

// poll gives an error only if it is not that the time is over.
func poll(wait time.Duration, fetch func(context.Context) kgo.Fetches) ([]*kgo.Record, error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	fetches := fetch(waiting)
	for _, failed := range fetches.Errors() {
		if waiting.Err() == nil {
			return nil, failed.Err
		}
	}
	return fetches.Records(), nil
}

func (f *franz) Produce(topic string, records []scenarios.Record, how scenarios.Producing) ([]int64, error) {
	options := []kgo.Opt{kgo.ProducerBatchCompression(codecs[how.Compression])}
	if !how.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	if how.BatchBytes > 0 {
		options = append(options, kgo.ProducerBatchMaxBytes(int32(how.BatchBytes)))
	}
	c, err := f.client(options...)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	offsets := make([]int64, len(records))
	var wrong error
	for i, record := range records {
		c.Produce(ctx, toSend(topic, record), func(r *kgo.Record, err error) { // called by one goroutine at a time
			offsets[i] = r.Offset
			if wrong == nil {
				wrong = err
			}
		})
	}
	if err := c.Flush(ctx); err != nil {
		return nil, err
	}
	return offsets, wrong
}

type reader struct{ c *kgo.Client }

func (f *franz) Reader(topic string, _ int, isolation scenarios.Isolation) (scenarios.Reader, error) {
	c, err := f.client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(isolations[isolation]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	return reader{c}, err
}

func (r reader) Poll(wait time.Duration) ([]scenarios.Record, error) {
	records, err := poll(wait, r.c.PollFetches)
	return found(records), err
}

func (r reader) Close() error {
	r.c.Close()
	return nil
}

func main() {
	scenarios.Main(func(bootstrap string) (scenarios.Client, error) {
		f := &franz{bootstrap: bootstrap, members: ctx}
		c, err := f.client()
		if err != nil {
			return nil, err
		}
		f.adm = kadm.NewClient(c)
		return f, nil
	})
}
