package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"odradek/scenarios"

	"github.com/IBM/sarama"
)

// handed is a record with the session that it was consumed in: from one that is over it counts no more.
type handed struct {
	session sarama.ConsumerGroupSession
	record  scenarios.Record
}

// member is its own sarama.ConsumerGroupHandler.
type member struct {
	topic   string
	group   sarama.ConsumerGroup
	inbox   scenarios.Inbox[handed]
	closing context.CancelFunc
	left    chan struct{}

	mutex   sync.Mutex
	current sarama.ConsumerGroupSession // nil between two sessions
	end     context.CancelFunc          // of the current session
	behind  map[int32]int64             // the offsets behind what was polled in the current session
	failed  error
}

func (c *client) Member(topic, group string) (scenarios.Member, error) {
	return c.join(topic, group, sarama.ReadUncommitted)
}

func (c *client) join(topic, group string, isolation sarama.IsolationLevel) (*member, error) {
	config := config()
	config.Consumer.IsolationLevel = isolation
	joined, err := sarama.NewConsumerGroup(c.addresses, group, config)
	if err != nil {
		return nil, err
	}
	ctx, closing := context.WithCancel(context.Background())
	m := &member{
		topic: topic, group: joined, inbox: make(chan handed, inboxLength), closing: closing, left: make(chan struct{}),
	}
	go m.run(ctx)
	return m, nil
}

func (m *member) run(ctx context.Context) {
	defer close(m.left)
	for ctx.Err() == nil {
		inside, end := context.WithCancel(ctx)
		m.mutex.Lock()
		m.end = end
		m.mutex.Unlock()
		err := m.group.Consume(inside, []string{m.topic}, m)
		end()
		if err != nil && !errors.Is(err, context.Canceled) && !isLost(err) {
			m.mutex.Lock()
			m.failed = err
			m.mutex.Unlock()
			return
		}
	}
}

// isLost says whether a connection was lost while the group was joined, which the client leaves to its user.
func isLost(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.As(err, &network)
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.current, m.behind = session, map[int32]int64{}
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.current = nil
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		if !m.inbox.Put(handed{session, found(message)}, session.Context().Done()) {
			break
		}
	}
	return nil
}

func (m *member) Poll(wait time.Duration) ([]scenarios.Record, error) {
	return m.poll(wait, inboxLength)
}

func (m *member) poll(wait time.Duration, most int) ([]scenarios.Record, error) {
	taken := m.inbox.Take(wait, most)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	var records []scenarios.Record
	for _, each := range taken {
		if each.session == m.current {
			records = append(records, each.record)
			m.behind[each.record.Partition] = each.record.Offset + 1
		}
	}
	return records, m.failed
}

func (m *member) Assigned() ([]int32, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.current == nil {
		return nil, m.failed
	}
	return m.current.Claims()[m.topic], m.failed
}

// Commit goes without the lock: the end of the session, which takes it, waits for the commit.
func (m *member) Commit() error {
	session, behind := m.polled()
	if session == nil {
		return nil
	}
	for partition, offset := range behind {
		session.MarkOffset(m.topic, partition, offset, "")
	}
	session.Commit()
	return nil
}

func (m *member) polled() (sarama.ConsumerGroupSession, map[int32]int64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.current, m.behind
}

// rewind ends the session and joins again: within a session there is no way back to the committed offsets.
func (m *member) rewind() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.current = nil
	m.end()
}

func (m *member) Close() error {
	m.closing()
	err := m.group.Close()
	<-m.left
	return err
}

type producer struct{ sarama.SyncProducer }

func (c *client) Transactional(id string, timeout time.Duration) (scenarios.Transactional, error) {
	return c.producer(id, timeout)
}

func (c *client) producer(id string, timeout time.Duration) (producer, error) {
	config := config()
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = id
	config.Producer.Transaction.Timeout = timeout
	made, err := sarama.NewSyncProducer(c.addresses, config)
	return producer{made}, err
}

func (p producer) Begin() error { return p.BeginTxn() }

func (p producer) Send(topic string, records []scenarios.Record) error {
	return send(p, toSend(topic, records))
}

func (p producer) Commit() error { return p.CommitTxn() }

func (p producer) Abort() error { return p.AbortTxn() }

type copier struct {
	*member
	producer producer
	groupID  string
}

func (c *client) Copier(topic, group, transactionalID string) (scenarios.Copier, error) {
	producer, err := c.producer(transactionalID, time.Minute)
	if err != nil {
		return nil, err
	}
	member, err := c.join(topic, group, sarama.ReadCommitted)
	return &copier{member, producer, group}, err
}

func (c *copier) Poll(wait time.Duration, most int) ([]scenarios.Record, error) {
	return c.poll(wait, most)
}

func (c *copier) Copy(records []scenarios.Record, topic string, commit bool) (bool, error) {
	if err := c.producer.Begin(); err != nil {
		return false, err
	}
	if err := c.producer.Send(topic, records); err != nil {
		return false, err
	}
	session, behind := c.polled()
	if session == nil {
		return false, errors.New("the group rebalanced")
	}
	var offsets []*sarama.PartitionOffsetMetadata
	for partition, offset := range behind {
		offsets = append(offsets, &sarama.PartitionOffsetMetadata{Partition: partition, Offset: offset, LeaderEpoch: -1})
	}
	metadata := sarama.NewConsumerGroupMetadataFromSession(session, c.groupID, nil)
	topics := map[string][]*sarama.PartitionOffsetMetadata{c.topic: offsets}
	if err := c.producer.AddOffsetsToTxnWithGroupMetadata(topics, metadata); err != nil {
		return false, err
	}
	if commit {
		return true, c.producer.Commit()
	}
	err := c.producer.Abort()
	c.rewind()
	return false, err
}

func (c *copier) Close() error {
	return errors.Join(c.member.Close(), c.producer.Close())
}
