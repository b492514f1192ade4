package main

import (
	"context"
	"fmt"

	"github.com/IBM/sarama"
)

// client is a producer with a transaction or without, or a member of a group, which hands over record by record.
type client struct {
	config   *sarama.Config
	brokers  []string
	group    string
	producer sarama.AsyncProducer
	sent     []chan error // since the last flush
	members  sarama.ConsumerGroup
	handed   chan *sarama.ConsumerMessage
	failed   chan error
	session  sarama.ConsumerGroupSession
	leave    context.CancelFunc
}

type family struct{ clients Named[client] }

func init() { driver = &family{} }

func (f *family) About() (string, string) { return "sarama", Release("github.com/IBM/sarama") }

func (f *family) Init(r Request) (err error) {
	if err := Lacking(r, settings); err != nil {
		return err
	}
	c, made := f.clients.Make(r.Client)
	if made {
		c.config, c.brokers = defaults(r.Client), Addresses(r)
		for key, value := range r.Config {
			if set := settings[key]; set != nil {
				set(c.config, value)
			}
		}
		c.group, _ = r.Config["group.id"].(string)
	}
	if r.Role == "consumer" {
		return nil
	}
	if c.config.Producer.Transaction.ID != "" && r.Lazy {
		return fmt.Errorf("a producer initialises its transactions when it is made: %w", ErrUnsupported)
	}
	if c.producer, err = sarama.NewAsyncProducer(c.brokers, c.config); err != nil {
		return err
	}
	go func() {
		for each := range c.producer.Successes() {
			each.Metadata.(chan error) <- nil
		}
	}()
	go func() {
		for each := range c.producer.Errors() {
			each.Msg.Metadata.(chan error) <- each.Err
		}
	}()
	return nil
}

func (f *family) Begin(r Request) error {
	c := f.clients.Get(r.Client)
	return c.said(c.producer.BeginTxn())
}

func (f *family) Send(r Request) (*PartitionOffset, error) {
	c, answered := f.clients.Get(r.Client), make(chan error, 1)
	message := &sarama.ProducerMessage{Topic: r.Topic, Value: sarama.StringEncoder(r.Value), Metadata: answered, Partition: -1}
	if r.Key != nil {
		message.Key = sarama.StringEncoder(*r.Key)
	}
	if r.Partition != nil {
		message.Partition = *r.Partition
	}
	c.producer.Input() <- message
	if !r.Wait {
		c.sent = append(c.sent, answered)
		return nil, nil
	}
	err := <-answered
	return &PartitionOffset{r.Topic, message.Partition, message.Offset}, c.said(err)
}

func (f *family) Flush(r Request) (first error) {
	c := f.clients.Get(r.Client)
	for _, answered := range c.sent {
		if err := <-answered; first == nil {
			first = err
		}
	}
	c.sent = nil
	return c.said(first)
}

func (f *family) SendOffsets(r Request) error {
	c, topics := f.clients.Get(r.Client), map[string][]*sarama.PartitionOffsetMetadata{}
	for _, at := range r.Offsets {
		topics[at.Topic] = append(topics[at.Topic], &sarama.PartitionOffsetMetadata{Partition: at.Partition, Offset: at.Offset, LeaderEpoch: -1})
	}
	return c.said(c.sendOffsets(f, r, topics))
}

func (f *family) Commit(r Request) error {
	c := f.clients.Get(r.Client)
	if c.producer != nil {
		return c.said(c.producer.CommitTxn())
	}
	c.session.Commit()
	return nil
}

func (f *family) Abort(r Request) error {
	c := f.clients.Get(r.Client)
	return c.said(c.producer.AbortTxn())
}

func (f *family) Close(r Request) error {
	c := f.clients.Get(r.Client)
	f.clients.Forget(r.Client)
	if c.producer != nil {
		c.producer.AsyncClose()
	}
	if c.members != nil {
		c.leave()
		return c.members.Close()
	}
	return nil
}
