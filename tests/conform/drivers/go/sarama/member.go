package main

import (
	"context"

	"github.com/IBM/sarama"
)

// member of a consumer group, whose records the library gives to a handler: here they are taken one by one.
type member struct {
	brokers []string
	group   string
	members sarama.ConsumerGroup
	handed  chan *sarama.ConsumerMessage
	failed  chan error
	session sarama.ConsumerGroupSession
	leave   context.CancelFunc
}

func (m *member) join(config *sarama.Config, topics []string) (err error) {
	if m.members, err = sarama.NewConsumerGroup(m.brokers, m.group, config); err != nil {
		return err
	}
	m.handed, m.failed = make(chan *sarama.ConsumerMessage), make(chan error, 1)
	var ctx context.Context
	ctx, m.leave = context.WithCancel(context.Background())
	go func() {
		for ctx.Err() == nil {
			// a session ends with each rebalance, and the manual has it called again
			if err := m.members.Consume(ctx, topics, m); err != nil && ctx.Err() == nil {
				m.failed <- err
				return
			}
		}
	}()
	return nil
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.session = session
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		select {
		case m.handed <- message:
		case <-session.Context().Done():
			return nil
		}
	}
	return nil
}

func (m *member) next(waiting context.Context) (Record, error) {
	select {
	case from := <-m.handed:
		m.session.MarkMessage(from, "")
		return Read(from.Topic, from.Partition, from.Offset, from.Key, from.Value), nil
	case err := <-m.failed:
		return Record{}, err
	case <-waiting.Done():
		return Record{}, waiting.Err()
	}
}

func (m *member) quit() error {
	if m.members == nil {
		return nil
	}
	m.leave()
	return m.members.Close()
}
