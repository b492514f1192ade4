package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"odradek/scenarios"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	heartbeat = 300 * time.Millisecond
	session   = 6 * time.Second
)

// member holds rebalances back from Poll to Commit.
type member struct {
	c      *kgo.Client
	polled []*kgo.Record

	mutex    sync.Mutex
	assigned map[int32]bool
}

// UseConsumerProtocol has members speak the protocol of KIP-848; releases of franz-go that lack it do not heed it.
func (f *franz) UseConsumerProtocol() error {
	f.members = context.WithValue(ctx, "opt_in_kafka_next_gen_balancer_beta", true) //nolint:staticcheck // its name for it
	return nil
}

// NameMembers gives members that are made from now on this client id.
func (f *franz) NameMembers(name string) { f.name = name }

func (f *franz) named() kgo.Opt {
	if f.name == "" {
		return kgo.ClientID("kgo")
	}
	return kgo.ClientID(f.name)
}

func (f *franz) Member(topic, group string) (scenarios.Member, error) {
	m := &member{assigned: map[int32]bool{}}
	var err error
	m.c, err = f.client(within(f.members), f.named(), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.HeartbeatInterval(heartbeat), kgo.SessionTimeout(session),
		kgo.OnPartitionsAssigned(m.change(topic, true)), kgo.OnPartitionsRevoked(m.change(topic, false)),
		kgo.OnPartitionsLost(m.change(topic, false)))
	return m, err
}

func (m *member) change(topic string, to bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
		m.mutex.Lock()
		defer m.mutex.Unlock()
		for _, partition := range changed[topic] {
			m.assigned[partition] = to
			if !to {
				delete(m.assigned, partition)
			}
		}
	}
}

func (m *member) Poll(wait time.Duration) ([]scenarios.Record, error) {
	var err error
	m.polled, err = poll(wait, m.c.PollFetches)
	if len(m.polled) == 0 {
		m.c.AllowRebalance()
	}
	return found(m.polled), err
}

func (m *member) Commit() error {
	defer m.c.AllowRebalance()
	return m.c.CommitRecords(ctx, m.polled...)
}

func (m *member) Assigned() ([]int32, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return slices.Collect(maps.Keys(m.assigned)), nil
}

func (m *member) Close() error {
	m.c.CloseAllowingRebalance()
	return nil
}

type producer struct{ c *kgo.Client }

func (f *franz) Transactional(id string, timeout time.Duration) (scenarios.Transactional, error) {
	c, err := f.client(kgo.TransactionalID(id), kgo.TransactionTimeout(timeout))
	if err != nil {
		return nil, err
	}
	return producer{c}, initialise(c)
}

// initialise sends InitProducerId, which otherwise waits for the first record. v1.10.4 gives up on
// CONCURRENT_TRANSACTIONS, with an error of its own that it does not export, but may be asked again.
func initialise(c *kgo.Client) error {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		_, _, err := c.ProducerID(ctx)
		var answered *kerr.Error
		if err == nil || errors.As(err, &answered) && !answered.Retriable || time.Now().After(end) {
			return err
		}
	}
}

func (p producer) Begin() error { return p.c.BeginTransaction() }

func (p producer) Send(topic string, records []scenarios.Record) error {
	var all []*kgo.Record
	for _, record := range records {
		all = append(all, toSend(topic, record))
	}
	return p.c.ProduceSync(ctx, all...).FirstErr()
}

// SendAndGiveUp: a transactional client does not fail what is in flight, unless it is told not to care.
func (p producer) SendAndGiveUp(topic string, record scenarios.Record, patience time.Duration) error {
	failed := make(chan error, 1)
	p.c.Produce(ctx, toSend(topic, record), func(_ *kgo.Record, err error) { failed <- err })
	time.Sleep(patience)
	abandon(p.c)
	return <-failed
}

func (p producer) Commit() error { return p.c.EndTransaction(ctx, kgo.TryCommit) }

func (p producer) Abort() error { return p.c.EndTransaction(ctx, kgo.TryAbort) }

func (p producer) Close() error {
	p.c.Close()
	return nil
}

// copier: the session sends the offsets of what was polled with the transaction's end, and goes back to the committed
// ones if it aborts.
type copier struct{ *kgo.GroupTransactSession }

func (f *franz) Copier(topic, group, transactionalID string) (scenarios.Copier, error) {
	session, err := kgo.NewGroupTransactSession(f.options(within(f.members), f.named(), kgo.TransactionalID(transactionalID),
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.SessionTimeout(session),
		kgo.RequireStableFetchOffsets(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	return copier{session}, err
}

func (c copier) Poll(wait time.Duration, most int) ([]scenarios.Record, error) {
	records, err := poll(wait, func(waiting context.Context) kgo.Fetches { return c.PollRecords(waiting, most) })
	return found(records), err
}

func (c copier) Copy(records []scenarios.Record, topic string, commit bool) (bool, error) {
	if err := c.Begin(); err != nil {
		return false, err
	}
	if err := (producer{c.Client()}).Send(topic, records); err != nil {
		return false, err
	}
	return c.End(ctx, kgo.TransactionEndTry(commit))
}

func (c copier) Close() error {
	c.GroupTransactSession.Close()
	return nil
}
