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

// Settings of the Java client that kafka-go has, and the fields that they are.
var settings = map[string]string{
	"client.id": "Transport.ClientID Config.Dialer.ClientID", "acks": "Writer.RequiredAcks", "linger.ms": "Writer.BatchTimeout",
	"retries": "Writer.MaxAttempts", "retry.backoff.ms": "Writer.WriteBackoffMin", "retry.backoff.max.ms": "Writer.WriteBackoffMax",
	"request.timeout.ms": "Writer.WriteTimeout", "group.id": "Config.GroupID", "session.timeout.ms": "Config.SessionTimeout",
	"heartbeat.interval.ms": "Config.HeartbeatInterval", "fetch.max.wait.ms": "Config.MaxWait",
	"isolation.level": "Config.IsolationLevel", "auto.offset.reset": "Config.StartOffset",
}

var words = map[string]any{
	"acks 0": kafka.RequireNone, "acks 1": kafka.RequireOne, "acks all": kafka.RequireAll, "acks -1": kafka.RequireAll,
	"isolation.level read_committed": kafka.ReadCommitted, "isolation.level read_uncommitted": kafka.ReadUncommitted,
	"auto.offset.reset earliest": kafka.FirstOffset, "auto.offset.reset latest": kafka.LastOffset,
	"linger.ms 0": time.Millisecond, // 0 stands for its default, a second
}

// client is a writer without idempotence and transactions, which the library does not have, or a reader in a group.
type client struct {
	Writer    *kafka.Writer
	Transport *kafka.Transport
	Config    kafka.ReaderConfig
	reader    *kafka.Reader
	sent      Sent
	polled    []kafka.Message
}

type family struct {
	skeleton
	clients Named[client]
}

func init() { driver = &family{} }
func (f *family) About() (string, string) {
	return "kafka-go", Release("github.com/segmentio/kafka-go")
}

func (f *family) Failure(_ string, err error) Failure {
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
		return Unsupported("kafka-go has no idempotent and no transactional producer")
	}
	if err := Lacking(r, settings); err != nil {
		return err
	}
	c, _ := f.clients.Make(r.Client)
	c.Transport = &kafka.Transport{ClientID: r.Client}
	c.Writer = &kafka.Writer{Addr: kafka.TCP(Addresses(r)...), RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond,
		Balancer: kafka.BalancerFunc(partition), Transport: c.Transport}
	c.Config = kafka.ReaderConfig{Brokers: Addresses(r), StartOffset: kafka.FirstOffset, MaxWait: 100 * time.Millisecond,
		Dialer: &kafka.Dialer{ClientID: r.Client, Timeout: 10 * time.Second}}
	Fill(r.Config, c, settings, words)
	if r.Config["retries"] != nil {
		c.Writer.MaxAttempts++ // the first one is no retry
	}
	return nil
}

// partition heeds the partition of a record that has one.
func partition(m kafka.Message, partitions ...int) int {
	if at := m.WriterData.(int32); at >= 0 {
		return int(at)
	}
	return (&kafka.Hash{}).Balance(m, partitions...)
}

func (f *family) Send(r Request) (*PartitionOffset, error) {
	message := kafka.Message{Topic: r.Topic, Key: r.KeyBytes(), Value: []byte(r.Value), WriterData: r.At()}
	c := f.clients.Get(r.Client)
	if r.Wait {
		return c.written(message)
	}
	outcome := c.sent.Expect()
	go func() { outcome <- c.Writer.WriteMessages(ctx, message) }()
	return nil, nil
}

// written learns the offset from a writer of its own: the library tells it to a callback of the writer alone.
func (c *client) written(message kafka.Message) (*PartitionOffset, error) {
	w, at := c.Writer, &PartitionOffset{Topic: message.Topic}
	one := &kafka.Writer{Addr: w.Addr, RequiredAcks: w.RequiredAcks, BatchSize: 1, Balancer: w.Balancer, Transport: w.Transport, MaxAttempts: w.MaxAttempts,
		WriteBackoffMin: w.WriteBackoffMin, WriteBackoffMax: w.WriteBackoffMax, WriteTimeout: w.WriteTimeout}
	one.Completion = func(in []kafka.Message, _ error) { at.Partition, at.Offset = int32(in[0].Partition), in[0].Offset }
	err := one.WriteMessages(ctx, message)
	return at, cmp.Or(err, one.Close())
}

func (f *family) Flush(r Request) error { return f.clients.Get(r.Client).sent.Wait() }

func (f *family) Commit(r Request) error {
	c := f.clients.Get(r.Client)
	defer func() { c.polled = nil }()
	return c.reader.CommitMessages(ctx, c.polled...)
}

func (f *family) Subscribe(r Request) error {
	if r.Mode == "consumer" {
		return Unsupported("kafka-go knows classic groups only")
	}
	c := f.clients.Get(r.Client)
	c.Config.GroupTopics = r.Topics
	c.reader = kafka.NewReader(c.Config)
	return nil
}

func (f *family) Poll(r Request, most int, within time.Duration) ([]Record, error) {
	c := f.clients.Get(r.Client)
	return Collect(most, within, func(waiting context.Context) (Record, error) {
		from, err := c.reader.FetchMessage(waiting)
		if err == nil {
			c.polled = append(c.polled, from)
		}
		return Read(from.Topic, int32(from.Partition), from.Offset, from.Key, from.Value), err
	})
}

func (f *family) Close(r Request) error {
	c := f.clients.Get(r.Client)
	f.clients.Forget(r.Client)
	if c.reader != nil {
		return c.reader.Close()
	}
	return c.Writer.Close()
}
