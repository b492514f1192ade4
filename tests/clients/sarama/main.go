// One scenario of sarama. With --max it speaks the newest protocol versions that the library knows.
package main

import (
	"errors"
	"flag"
	"log"
	"os"
	"time"

	"odradek/scenarios"

	"github.com/IBM/sarama"
)

const (
	retryPause  = 100 * time.Millisecond
	fetchWait   = 100 * time.Millisecond
	heartbeat   = 300 * time.Millisecond
	session     = 6 * time.Second
	inboxLength = 1000
)

var newest = flag.Bool("max", false, "speak the newest protocol versions")

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

var isolations = map[scenarios.Isolation]sarama.IsolationLevel{
	scenarios.ReadUncommitted: sarama.ReadUncommitted, scenarios.ReadCommitted: sarama.ReadCommitted,
}

type client struct {
	addresses []string
	admin     sarama.ClusterAdmin
}

func (c *client) Version() string {
	version := scenarios.Release("github.com/IBM/sarama")
	if *newest {
		version += "+max"
	}
	return version
}

// config is the library's, but for shorter waits and the settings that the scenarios are about.
func config() *sarama.Config {
	config := sarama.NewConfig()
	if *newest {
		config.Version = sarama.MaxVersion
	}
	if s := scenarios.Secured(); s != nil {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, s.TLS
		config.Net.SASL.Enable, config.Net.SASL.Mechanism = true, sarama.SASLMechanism(s.Mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = s.Username, s.Password
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{} }
	}
	config.Net.MaxOpenRequests = 1 // keeps the order without idempotence, and is the only value allowed with it
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Retry.Backoff = retryPause
	config.Consumer.MaxWaitTime = fetchWait
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Heartbeat.Interval = heartbeat
	config.Consumer.Group.Session.Timeout = session
	config.Consumer.Group.Rebalance.Retry.Backoff = retryPause
	return config
}

func toSend(topic string, records []scenarios.Record) []*sarama.ProducerMessage {
	var messages []*sarama.ProducerMessage
	for _, record := range records {
		messages = append(messages, &sarama.ProducerMessage{
			Topic: topic, Partition: record.Partition,
			Key: sarama.StringEncoder(record.Key), Value: sarama.StringEncoder(record.Value),
		})
	}
	return messages
}

// send gives the first error: all of them together only say how many they are.
func send(producer sarama.SyncProducer, messages []*sarama.ProducerMessage) error {
	err := producer.SendMessages(messages)
	var each sarama.ProducerErrors
	if errors.As(err, &each) {
		return each[0].Err
	}
	return err
}

func found(m *sarama.ConsumerMessage) scenarios.Record {
	return scenarios.Record{Partition: m.Partition, Offset: m.Offset, Key: string(m.Key), Value: string(m.Value)}
}

func (c *client) Produce(topic string, records []scenarios.Record, how scenarios.Producing) ([]int64, error) {
	config := config()
	config.Producer.Compression = codecs[how.Compression]
	config.Producer.Idempotent = how.Idempotent
	if how.BatchBytes > 0 {
		config.Producer.MaxMessageBytes = how.BatchBytes // of a batch as well
	}
	producer, err := sarama.NewSyncProducer(c.addresses, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := toSend(topic, records)
	if err := send(producer, messages); err != nil {
		return nil, err
	}
	var offsets []int64
	for _, message := range messages {
		offsets = append(offsets, message.Offset)
	}
	return offsets, nil
}

// reader has a consumer of its own for each partition.
type reader struct {
	consumer   sarama.Consumer
	partitions []sarama.PartitionConsumer
	inbox      scenarios.Inbox[scenarios.Record]
	closed     chan struct{}
}

func (c *client) Reader(topic string, partitions int, isolation scenarios.Isolation) (scenarios.Reader, error) {
	config := config()
	config.Consumer.IsolationLevel = isolations[isolation]
	consumer, err := sarama.NewConsumer(c.addresses, config)
	if err != nil {
		return nil, err
	}
	r := &reader{consumer: consumer, inbox: make(chan scenarios.Record, inboxLength), closed: make(chan struct{})}
	for partition := range int32(partitions) {
		from, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
		if err != nil {
			return nil, err
		}
		r.partitions = append(r.partitions, from)
		go func() {
			for message := range from.Messages() {
				r.inbox.Put(found(message), r.closed)
			}
		}()
	}
	return r, nil
}

func (r *reader) Poll(wait time.Duration) ([]scenarios.Record, error) {
	return r.inbox.Take(wait, inboxLength), nil
}

func (r *reader) Close() error {
	close(r.closed)
	for _, from := range r.partitions {
		if err := from.Close(); err != nil {
			return err
		}
	}
	return r.consumer.Close()
}

func main() {
	sarama.Logger = log.New(os.Stderr, "", log.Ltime|log.Lmicroseconds) // what it retries is told nowhere else
	scenarios.Main(func(bootstrap string) (scenarios.Client, error) {
		addresses := []string{bootstrap}
		admin, err := sarama.NewClusterAdmin(addresses, config())
		return &client{addresses, admin}, err
	})
}
