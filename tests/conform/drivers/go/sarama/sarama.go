package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// client is a producer with a transaction or without, or a member of a group, which hands over record by record.
type client struct {
	config   *sarama.Config
	producer sarama.AsyncProducer
	sent     Sent
	member
}

// classed is an error with what the producer says of its state after it.
type classed struct {
	error
	class string
}

func (c classed) Unwrap() error { return c.error }

func (c *client) said(err error) error {
	if err == nil || c.producer == nil {
		return err
	}
	switch state := c.producer.TxnStatus(); {
	case state&sarama.ProducerTxnFlagFatalError != 0:
		return classed{err, "fatal"}
	case state&sarama.ProducerTxnFlagAbortableError != 0:
		return classed{err, "abortable"}
	}
	return classed{err, "unknown"}
}

type family struct{ clients Named[client] }

func init() { driver = &family{} }

func (f *family) About() (string, string) { return "sarama", Release("github.com/IBM/sarama") }

func (f *family) Failure(_ string, err error) Failure {
	failure := Failure{fmt.Sprintf("%T", err), "unknown", err.Error()}
	if with, ok := err.(classed); ok {
		failure.Class, failure.Name = with.class, fmt.Sprintf("%T", with.error)
	}
	var code sarama.KError
	if errors.As(err, &code) {
		failure.Name = Name(int(code), code.Error())
	}
	return failure
}

func (f *family) Init(r Request) (err error) {
	if err := Lacking(r, settings); err != nil {
		return err
	}
	c, _ := f.clients.Make(r.Client)
	c.config = configured(r)
	if r.Role == "consumer" {
		c.brokers = Addresses(r)
		c.group, _ = r.Config["group.id"].(string)
		return nil
	}
	if c.config.Producer.Transaction.ID != "" && r.Lazy {
		return Unsupported("a producer initialises its transactions when it is made")
	}
	if c.producer, err = sarama.NewAsyncProducer(Addresses(r), c.config); err != nil {
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

func (f *family) Send(r Request) (*PartitionOffset, error) {
	c, outcome := f.at(r), make(chan error, 1)
	if !r.Wait {
		outcome = c.sent.Expect()
	}
	message := &sarama.ProducerMessage{Topic: r.Topic, Partition: r.At(), Value: sarama.StringEncoder(r.Value), Metadata: outcome}
	if r.Key != nil {
		message.Key = sarama.StringEncoder(*r.Key)
	}
	c.producer.Input() <- message
	if !r.Wait {
		return nil, nil
	}
	err := <-outcome
	return &PartitionOffset{r.Topic, message.Partition, message.Offset}, c.said(err)
}

func (f *family) at(r Request) *client  { return f.clients.Get(r.Client) }
func (f *family) Flush(r Request) error { return f.at(r).said(f.at(r).sent.Wait()) }
func (f *family) Begin(r Request) error { return f.at(r).said(f.at(r).producer.BeginTxn()) }
func (f *family) Abort(r Request) error { return f.at(r).said(f.at(r).producer.AbortTxn()) }

func (f *family) Commit(r Request) error {
	c := f.at(r)
	if c.producer != nil {
		return c.said(c.producer.CommitTxn())
	}
	c.session.Commit()
	return nil
}

func (f *family) SendOffsets(r Request) error {
	c, topics := f.at(r), map[string][]*sarama.PartitionOffsetMetadata{}
	for _, at := range r.Offsets {
		topics[at.Topic] = append(topics[at.Topic], &sarama.PartitionOffsetMetadata{Partition: at.Partition, Offset: at.Offset, LeaderEpoch: -1})
	}
	if r.Consumer == "" {
		return c.said(c.producer.AddOffsetsToTxn(topics, r.Group))
	}
	return c.said(offsetsOfMember(c.producer, topics, f.clients.Get(r.Consumer)))
}

func (f *family) Subscribe(r Request) error {
	if r.Mode == "consumer" {
		return Unsupported("sarama knows classic groups only")
	}
	return f.at(r).join(f.at(r).config, r.Topics)
}

func (f *family) Poll(r Request, most int, within time.Duration) ([]Record, error) {
	return Collect(most, within, f.at(r).next)
}

func (f *family) Close(r Request) error {
	c := f.at(r)
	f.clients.Forget(r.Client)
	if c.producer != nil {
		c.producer.AsyncClose()
	}
	return c.quit()
}
