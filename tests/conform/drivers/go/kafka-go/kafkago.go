package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

var ctx = context.Background()

// client is a writer without idempotence and transactions, which the library does not have, or a reader in a group.
type client struct {
	writer *kafka.Writer
	sent   []chan error // since the last flush
	reader *kafka.Reader
	config kafka.ReaderConfig
	polled []kafka.Message
}

type family struct{ clients Named[client] }

func init() { driver = &family{} }

func (f *family) About() (string, string) {
	return "kafka-go", Release("github.com/segmentio/kafka-go")
}

func (f *family) Failure(err error) Failure {
	var each kafka.WriteErrors
	if errors.As(err, &each) {
		err = cmp.Or(each...)
	}
	var code kafka.Error
	if !errors.As(err, &code) {
		return Failure{fmt.Sprintf("%T", err), "unknown", err.Error()}
	}
	// the library says of an error only whether it is temporary
	class := map[bool]string{true: "retriable", false: "unknown"}[code.Temporary()]
	return Failure{Name(int(code), code.Title()), class, err.Error()}
}

func (f *family) Init(r Request) error {
	if r.Config["transactional.id"] != nil || r.Config["enable.idempotence"] == true {
		return fmt.Errorf("kafka-go has no idempotent and no transactional producer: %w", ErrUnsupported)
	}
	if err := Lacking(r, settings); err != nil {
		return err
	}
	c, _ := f.clients.Make(r.Client)
	c.writer = &kafka.Writer{Addr: kafka.TCP(Addresses(r)...), RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond, Balancer: kafka.BalancerFunc(partition)}
	c.config = kafka.ReaderConfig{Brokers: Addresses(r), StartOffset: kafka.FirstOffset, MaxWait: 100 * time.Millisecond}
	settings["client.id"](c.writer, &c.config, r.Client)
	for key, value := range r.Config {
		if set := settings[key]; set != nil {
			set(c.writer, &c.config, value)
		}
	}
	return nil
}

func (f *family) Send(r Request) (*PartitionOffset, error) {
	c, message := f.clients.Get(r.Client), kafka.Message{Topic: r.Topic, Value: []byte(r.Value)}
	if r.Key != nil {
		message.Key = []byte(*r.Key)
	}
	if r.Partition != nil {
		message.WriterData = int(*r.Partition)
	}
	if r.Wait {
		return f.written(c, message)
	}
	answered := make(chan error, 1)
	go func() { answered <- c.writer.WriteMessages(ctx, message) }()
	c.sent = append(c.sent, answered)
	return nil, nil
}

// written learns the offset from a writer of its own: the library tells it to a callback of the writer alone.
func (f *family) written(c *client, message kafka.Message) (*PartitionOffset, error) {
	w, at := c.writer, &PartitionOffset{Topic: message.Topic}
	one := &kafka.Writer{Addr: w.Addr, RequiredAcks: w.RequiredAcks, BatchSize: 1, Balancer: w.Balancer, Transport: w.Transport, MaxAttempts: w.MaxAttempts,
		WriteBackoffMin: w.WriteBackoffMin, WriteBackoffMax: w.WriteBackoffMax, WriteTimeout: w.WriteTimeout,
		Completion: func(written []kafka.Message, _ error) {
			at.Partition, at.Offset = int32(written[0].Partition), written[0].Offset
		}}
	err := one.WriteMessages(ctx, message)
	return at, cmp.Or(err, one.Close())
}

func (f *family) Flush(r Request) (first error) {
	c := f.clients.Get(r.Client)
	for _, answered := range c.sent {
		first = cmp.Or(first, <-answered)
	}
	c.sent = nil
	return first
}

func (f *family) Begin(Request) error       { return ErrUnsupported }
func (f *family) Abort(Request) error       { return ErrUnsupported }
func (f *family) SendOffsets(Request) error { return ErrUnsupported }

func (f *family) Commit(r Request) error {
	c := f.clients.Get(r.Client)
	if c.reader == nil {
		return ErrUnsupported
	}
	defer func() { c.polled = nil }()
	return c.reader.CommitMessages(ctx, c.polled...)
}

func (f *family) Subscribe(r Request) error {
	c := f.clients.Get(r.Client)
	if r.Mode == "consumer" {
		return fmt.Errorf("kafka-go knows classic groups only: %w", ErrUnsupported)
	}
	c.config.GroupTopics = r.Topics
	c.reader = kafka.NewReader(c.config)
	return nil
}

func (f *family) Poll(r Request, most int, within time.Duration) (records []Record, err error) {
	c := f.clients.Get(r.Client)
	waiting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for len(records) < most {
		from, err := c.reader.FetchMessage(waiting)
		if waiting.Err() != nil {
			return records, nil
		} else if err != nil {
			return records, err
		}
		c.polled = append(c.polled, from)
		records = append(records, Record{PartitionOffset{from.Topic, int32(from.Partition), from.Offset}, Text(from.Key), string(from.Value)})
	}
	return records, nil
}

func (f *family) Close(r Request) error {
	c := f.clients.Get(r.Client)
	f.clients.Forget(r.Client)
	if c.reader != nil {
		return c.reader.Close()
	}
	return c.writer.Close()
}
