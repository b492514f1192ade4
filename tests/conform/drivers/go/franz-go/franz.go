package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var ctx = context.Background()

// After these the client is of no more use; from others an abort recovers.
var fatal = []error{kerr.ProducerFenced, kerr.InvalidProducerIDMapping, kerr.TransactionalIDAuthorizationFailed,
	kerr.ClusterAuthorizationFailed, kerr.InvalidTransactionTimeout, kerr.UnsupportedVersion, kerr.FencedInstanceID,
	kerr.InvalidTxnState}

// client is a producer from its initialisation on, a consumer from its subscription on.
type client struct {
	*kgo.Client
	options       []kgo.Opt
	transactional bool
	failed        First
}

type franz struct{ clients Named[client] }

func init() { driver = &franz{} }

func (f *franz) About() (string, string) { return "franz-go", Release("github.com/twmb/franz-go") }

func (f *franz) Failure(err error) Failure {
	var answered *kerr.Error
	if !errors.As(err, &answered) {
		return Failure{fmt.Sprintf("%T", err), "unknown", err.Error()}
	}
	class := map[bool]string{true: "retriable", false: "abortable"}[answered.Retriable]
	if slices.ContainsFunc(fatal, func(each error) bool { return errors.Is(err, each) }) {
		class = "fatal"
	}
	return Failure{answered.Message, class, err.Error()}
}

func (f *franz) Init(r Request) (err error) {
	if err := Lacking(r, settings); err != nil {
		return err
	}
	c, made := f.clients.Make(r.Client)
	if made {
		c.options = []kgo.Opt{kgo.SeedBrokers(Addresses(r)...), kgo.ClientID(r.Client),
			kgo.RecordPartitioner(partitioner{}), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
		for key, value := range r.Config {
			if set := settings[key]; set != nil && set(value) != nil {
				c.options = append(c.options, set(value))
			}
		}
		c.transactional = r.Config["transactional.id"] != nil
		if r.Role == "producer" {
			if c.Client, err = kgo.NewClient(c.options...); err != nil {
				f.clients.Forget(r.Client)
				return err
			}
		}
	}
	if c.transactional && !r.Lazy {
		_, _, err = c.ProducerID(ctx)
	}
	return err
}

func (f *franz) Begin(r Request) error { return f.clients.Get(r.Client).BeginTransaction() }

func (f *franz) Send(r Request) (*PartitionOffset, error) {
	c, record := f.clients.Get(r.Client), &kgo.Record{Topic: r.Topic, Partition: -1, Value: []byte(r.Value)}
	if r.Key != nil {
		record.Key = []byte(*r.Key)
	}
	if r.Partition != nil {
		record.Partition = *r.Partition
	}
	if r.Wait {
		sent, err := c.ProduceSync(ctx, record).First()
		return &PartitionOffset{sent.Topic, sent.Partition, sent.Offset}, err
	}
	c.Produce(ctx, record, func(_ *kgo.Record, err error) { c.failed.Note(err) })
	return nil, nil
}

func (f *franz) Flush(r Request) error {
	c := f.clients.Get(r.Client)
	if err := c.Client.Flush(ctx); err != nil {
		return err
	}
	return c.failed.Take()
}

func (f *franz) SendOffsets(Request) error {
	return fmt.Errorf("offsets go only with a GroupTransactSession, which is producer and consumer at once: %w", ErrUnsupported)
}

// Commit sends what is buffered before, as its manual says.
func (f *franz) Commit(r Request) error {
	c := f.clients.Get(r.Client)
	if !c.transactional {
		return c.CommitUncommittedOffsets(ctx)
	}
	if err := f.Flush(r); err != nil {
		return err
	}
	return c.EndTransaction(ctx, kgo.TryCommit)
}

func (f *franz) Abort(r Request) error {
	c := f.clients.Get(r.Client)
	err := c.AbortBufferedRecords(ctx)
	if c.failed.Take(); err != nil { // that of records which are dropped here
		return err
	}
	return c.EndTransaction(ctx, kgo.TryAbort)
}

func (f *franz) Subscribe(r Request) (err error) {
	c := f.clients.Get(r.Client)
	c.Client, err = kgo.NewClient(append(c.options, kgo.DisableAutoCommit(), within(r.Mode), kgo.ConsumeTopics(r.Topics...))...)
	return err
}

func (f *franz) Poll(r Request, most int, within time.Duration) (records []Record, err error) {
	waiting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for len(records) < most && waiting.Err() == nil {
		fetches := f.clients.Get(r.Client).PollRecords(waiting, most-len(records))
		if err := fetches.Err(); err != nil && waiting.Err() == nil {
			return records, err
		}
		fetches.EachRecord(func(from *kgo.Record) {
			at := PartitionOffset{from.Topic, from.Partition, from.Offset}
			records = append(records, Record{at, Text(from.Key), string(from.Value)})
		})
	}
	return records, nil
}

func (f *franz) Close(r Request) error {
	defer f.clients.Forget(r.Client)
	f.clients.Get(r.Client).Client.Close()
	return nil
}
