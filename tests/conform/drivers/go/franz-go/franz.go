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
	sent          Sent
}

type franz struct {
	skeleton
	clients Named[client]
}

func init() { driver = &franz{} }

func (f *franz) About() (string, string) { return "franz-go", Release("github.com/twmb/franz-go") }

func (f *franz) Failure(_ string, err error) Failure {
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
		c.options = append(options(r.Config), kgo.SeedBrokers(Addresses(r)...), kgo.RecordPartitioner(partitioner))
		c.transactional = r.Config["transactional.id"] != nil
	}
	if made && r.Role == "producer" {
		if c.Client, err = kgo.NewClient(c.options...); err != nil {
			f.clients.Forget(r.Client)
			return err
		}
	}
	if c.transactional && !r.Lazy {
		_, _, err = c.ProducerID(ctx)
	}
	return err
}

func (f *franz) Begin(r Request) error { return f.clients.Get(r.Client).BeginTransaction() }

func (f *franz) Send(r Request) (*PartitionOffset, error) {
	c, record := f.clients.Get(r.Client), &kgo.Record{Topic: r.Topic, Partition: r.At(), Key: r.KeyBytes(), Value: []byte(r.Value)}
	if r.Wait {
		sent, err := c.ProduceSync(ctx, record).First()
		return &PartitionOffset{sent.Topic, sent.Partition, sent.Offset}, err
	}
	outcome := c.sent.Expect()
	c.Produce(ctx, record, func(_ *kgo.Record, err error) { outcome <- err })
	return nil, nil
}

func (f *franz) Flush(r Request) error {
	c := f.clients.Get(r.Client)
	if err := c.Client.Flush(ctx); err != nil {
		return err
	}
	return c.sent.Wait()
}

func (f *franz) SendOffsets(Request) error {
	return Unsupported("a GroupTransactSession commits the positions of what it has polled itself, and nothing else commits offsets")
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
	if err := c.AbortBufferedRecords(ctx); err != nil {
		return err
	}
	_ = c.sent.Wait() // the errors of records which are dropped here
	return c.EndTransaction(ctx, kgo.TryAbort)
}

func (f *franz) Subscribe(r Request) (err error) {
	c := f.clients.Get(r.Client)
	c.Client, err = kgo.NewClient(append(c.options, kgo.DisableAutoCommit(), within(r.Mode), kgo.ConsumeTopics(r.Topics...))...)
	return err
}

func (f *franz) Poll(r Request, most int, within time.Duration) ([]Record, error) {
	return Collect(most, within, func(waiting context.Context) (Record, error) {
		for {
			fetches := f.clients.Get(r.Client).PollRecords(waiting, 1)
			if from := fetches.Records(); len(from) > 0 {
				return Read(from[0].Topic, from[0].Partition, from[0].Offset, from[0].Key, from[0].Value), nil
			} else if err := errors.Join(fetches.Err(), waiting.Err()); err != nil {
				return Record{}, err
			}
		}
	})
}

func (f *franz) Close(r Request) error {
	c := f.clients.Get(r.Client)
	f.clients.Forget(r.Client)
	if c.Client != nil {
		c.Client.Close()
	}
	return nil
}
