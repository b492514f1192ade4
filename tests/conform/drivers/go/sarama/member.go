package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// Consumer groups, whose records the library gives to a handler: here a poll takes them.

func (f *family) Subscribe(r Request) (err error) {
	if r.Mode == "consumer" {
		return fmt.Errorf("sarama knows classic groups only: %w", ErrUnsupported)
	}
	c := f.clients.Get(r.Client)
	if c.members, err = sarama.NewConsumerGroup(c.brokers, c.group, c.config); err != nil {
		return err
	}
	c.handed, c.failed = make(chan *sarama.ConsumerMessage), make(chan error, 1)
	var ctx context.Context
	ctx, c.leave = context.WithCancel(context.Background())
	go func() {
		for ctx.Err() == nil {
			// a session ends with each rebalance, and the manual has it called again
			if err := c.members.Consume(ctx, r.Topics, c); err != nil && ctx.Err() == nil {
				c.failed <- err
				return
			}
		}
	}()
	return nil
}

func (c *client) Setup(session sarama.ConsumerGroupSession) error {
	c.session = session
	return nil
}

func (c *client) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c *client) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		select {
		case c.handed <- message:
		case <-session.Context().Done():
			return nil
		}
	}
	return nil
}

func (f *family) Poll(r Request, most int, within time.Duration) (records []Record, err error) {
	c, end := f.clients.Get(r.Client), time.After(within)
	for len(records) < most {
		select {
		case from := <-c.handed:
			c.session.MarkMessage(from, "")
			at := PartitionOffset{from.Topic, from.Partition, from.Offset}
			records = append(records, Record{at, Text(from.Key), string(from.Value)})
		case err := <-c.failed:
			return records, err
		case <-end:
			return records, nil
		}
	}
	return records, nil
}

func (c *client) sendOffsets(f *family, r Request, topics map[string][]*sarama.PartitionOffsetMetadata) error {
	if r.Consumer == "" {
		return c.producer.AddOffsetsToTxn(topics, r.Group)
	}
	member := f.clients.Get(r.Consumer)
	if member.session == nil {
		return errors.New("the consumer is no member yet")
	}
	return offsetsOfMember(c.producer, topics, member.session, r.Group)
}
