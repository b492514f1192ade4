// One scenario of kafka-go, which has no idempotent and no transactional producer.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"odradek/scenarios"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

const (
	patience    = 30 * time.Second
	fetchWait   = 100 * time.Millisecond
	linger      = 5 * time.Millisecond
	heartbeat   = 300 * time.Millisecond
	session     = 6 * time.Second
	metadataAge = 100 * time.Millisecond
	batchLength = 1000
	inboxLength = 1000
)

var ctx = context.Background()

var codecs = map[string]kafka.Compression{
	"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

var isolations = map[scenarios.Isolation]kafka.IsolationLevel{
	scenarios.ReadUncommitted: kafka.ReadUncommitted, scenarios.ReadCommitted: kafka.ReadCommitted,
}

type client struct {
	scenarios.Lacking
	bootstrap string
	api       *kafka.Client
	members   atomic.Int32
}

func (c *client) Version() string { return scenarios.Release("github.com/segmentio/kafka-go") }

func (c *client) Produce(topic string, records []scenarios.Record, how scenarios.Producing) ([]int64, error) {
	if how.Idempotent {
		return nil, fmt.Errorf("idempotent producer: %w", errors.ErrUnsupported)
	}
	offsets := make([]int64, len(records))
	number := func(m kafka.Message) int { return m.WriterData.(int) }
	writer := kafka.Writer{
		Addr: kafka.TCP(c.bootstrap), Topic: topic, Transport: c.api.Transport,
		RequiredAcks: kafka.RequireAll, Compression: codecs[how.Compression], BatchSize: batchLength, BatchTimeout: linger,
		Balancer: kafka.BalancerFunc(func(m kafka.Message, _ ...int) int { return int(records[number(m)].Partition) }),
		Completion: func(written []kafka.Message, _ error) {
			for _, m := range written {
				offsets[number(m)] = m.Offset
			}
		},
	}
	var messages []kafka.Message
	for i, record := range records {
		messages = append(messages, kafka.Message{Key: []byte(record.Key), Value: []byte(record.Value), WriterData: i})
	}
	err := writer.WriteMessages(ctx, messages...)
	return offsets, cmp.Or(err, writer.Close()) // Completion is over only when the writer is closed
}

// reading takes what readers fetch in goroutines of their own.
type reading struct {
	readers []*kafka.Reader
	inbox   scenarios.Inbox[kafka.Message]
	failed  chan error
	closed  chan struct{}
}

func read(configs ...kafka.ReaderConfig) *reading {
	r := &reading{
		inbox: make(chan kafka.Message, inboxLength), failed: make(chan error, len(configs)), closed: make(chan struct{}),
	}
	for _, config := range configs {
		reader := kafka.NewReader(config)
		r.readers = append(r.readers, reader)
		go func() {
			for {
				message, err := reader.FetchMessage(ctx)
				if errors.Is(err, io.EOF) { // closed
					return
				}
				if err != nil {
					r.failed <- err
					return
				}
				r.inbox.Put(message, r.closed)
			}
		}()
	}
	return r
}

func (r *reading) take(wait time.Duration) ([]kafka.Message, error) {
	select {
	case err := <-r.failed:
		return nil, err
	default:
		return r.inbox.Take(wait, inboxLength), nil
	}
}

func (r *reading) Poll(wait time.Duration) ([]scenarios.Record, error) {
	messages, err := r.take(wait)
	return found(messages), err
}

func found(messages []kafka.Message) []scenarios.Record {
	var records []scenarios.Record
	for _, m := range messages {
		records = append(records,
			scenarios.Record{Partition: int32(m.Partition), Offset: m.Offset, Key: string(m.Key), Value: string(m.Value)})
	}
	return records
}

func (r *reading) Close() error {
	close(r.closed)
	var all error
	for _, reader := range r.readers {
		all = errors.Join(all, reader.Close())
	}
	return all
}

func (c *client) Reader(topic string, partitions int, isolation scenarios.Isolation) (scenarios.Reader, error) {
	var configs []kafka.ReaderConfig
	for partition := range partitions {
		configs = append(configs, kafka.ReaderConfig{
			Brokers: []string{c.bootstrap}, Topic: topic, Partition: partition, StartOffset: kafka.FirstOffset,
			MaxWait: fetchWait, IsolationLevel: isolations[isolation], Dialer: dialer(""),
		})
	}
	return read(configs...), nil
}

func login(s *scenarios.Security) sasl.Mechanism {
	if s.Mechanism == "SCRAM-SHA-512" {
		mechanism, err := scram.Mechanism(scram.SHA512, s.Username, s.Password)
		if err != nil {
			panic(err)
		}
		return mechanism
	}
	return plain.Mechanism{Username: s.Username, Password: s.Password}
}

func dialer(clientID string) *kafka.Dialer {
	made := &kafka.Dialer{ClientID: clientID, Timeout: patience, DualStack: true}
	if s := scenarios.Secured(); s != nil {
		made.TLS, made.SASLMechanism = s.TLS, login(s)
	}
	return made
}

// member has a client id of its own: a reader does not tell its partitions, so the broker is asked for them.
type member struct {
	*reading
	c            *client
	topic, group string
	clientID     string
	polled       map[int]kafka.Message // the last of each partition
}

func (c *client) Member(topic, group string) (scenarios.Member, error) {
	id := fmt.Sprintf("%s-%d", group, c.members.Add(1))
	reading := read(kafka.ReaderConfig{
		Brokers: []string{c.bootstrap}, GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset, MaxWait: fetchWait,
		HeartbeatInterval: heartbeat, SessionTimeout: session, JoinGroupBackoff: metadataAge,
		Dialer: dialer(id),
	})
	return &member{reading, c, topic, group, id, map[int]kafka.Message{}}, nil
}

func (m *member) Poll(wait time.Duration) ([]scenarios.Record, error) {
	messages, err := m.take(wait)
	for _, message := range messages {
		m.polled[message.Partition] = message
	}
	return found(messages), err
}

func (m *member) Assigned() ([]int32, error) {
	described, err := m.c.describe(m.group)
	if err != nil || described.GroupState != "Stable" {
		return nil, err
	}
	var assigned []int32
	for _, each := range described.Members {
		for _, topic := range each.MemberAssignments.Topics {
			for _, partition := range topic.Partitions {
				if each.ClientID == m.clientID && topic.Topic == m.topic {
					assigned = append(assigned, int32(partition))
				}
			}
		}
	}
	return assigned, nil
}

func (m *member) Commit() error {
	var last []kafka.Message
	for _, message := range m.polled {
		last = append(last, message)
	}
	clear(m.polled)
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := m.readers[0].CommitMessages(waiting, last...)
	for _, tooLate := range []kafka.Error{kafka.RebalanceInProgress, kafka.IllegalGeneration, kafka.UnknownMemberId} {
		if errors.Is(err, tooLate) {
			return nil
		}
	}
	return err
}

func main() {
	scenarios.Main(func(bootstrap string) (scenarios.Client, error) {
		transport := &kafka.Transport{MetadataTTL: metadataAge, ClientID: "odradek"}
		if s := scenarios.Secured(); s != nil {
			transport.TLS, transport.SASL = s.TLS, login(s)
		}
		api := &kafka.Client{Addr: kafka.TCP(bootstrap), Timeout: patience, Transport: transport}
		return &client{bootstrap: bootstrap, api: api}, nil
	})
}
