package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func produceConsume(ctx context.Context, o options, found counts) error {
	if err := createTopics(ctx, o, o.topic); err != nil {
		return err
	}
	producer, err := client(o)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := produce(ctx, producer, o, 0, o.records); err != nil {
		return err
	}
	records, err := read(ctx, o, o.topic, kgo.ReadUncommitted(), o.records)
	if err != nil {
		return err
	}
	for partition, inOrder := range records {
		for n, r := range inOrder {
			i := n*o.partitions + int(partition)
			if r.Offset != int64(n) || string(r.Key) != strconv.Itoa(i) || string(r.Value) != value(i) {
				return fmt.Errorf("partition %d has %s at offset %d, expected %d at %d", partition, r.Key, r.Offset, i, n)
			}
		}
	}
	found["records"] = o.records
	return nil
}

// member polls and commits until it leaves.
type member struct {
	mutex    sync.Mutex
	assigned map[int32]bool
	own      []int
	failed   error
	client   *kgo.Client
	cancel   context.CancelFunc
	done     chan struct{}
}

func join(o options) (*member, error) {
	m := &member{assigned: map[int32]bool{}, done: make(chan struct{})}
	change := func(to bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			m.mutex.Lock()
			defer m.mutex.Unlock()
			for _, partition := range changed[o.topic] {
				if to {
					m.assigned[partition] = true
				} else {
					delete(m.assigned, partition)
				}
			}
		}
	}
	var err error
	m.client, err = client(o, kgo.ConsumerGroup(o.group), kgo.ConsumeTopics(o.topic), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.HeartbeatInterval(300*time.Millisecond), kgo.SessionTimeout(6*time.Second),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go m.run(ctx)
	return m, nil
}

func (m *member) run(ctx context.Context) {
	defer close(m.done)
	for ctx.Err() == nil {
		fetches := m.client.PollFetches(ctx)
		m.mutex.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			i, _ := strconv.Atoi(string(r.Key))
			m.own = append(m.own, i)
		})
		m.mutex.Unlock()
		if fetches.NumRecords() > 0 {
			if err := m.client.CommitRecords(context.Background(), fetches.Records()...); err != nil {
				m.mutex.Lock()
				m.failed = err
				m.mutex.Unlock()
			}
		}
		m.client.AllowRebalance()
	}
	m.client.CloseAllowingRebalance()
}

func (m *member) leave() {
	m.cancel()
	<-m.done
}

func (m *member) state() (assigned int, own []int, failed error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return len(m.assigned), slices.Clone(m.own), m.failed
}

func distinct(lists ...[]int) int {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return len(slices.Compact(all))
}

func group(ctx context.Context, o options, found counts) error {
	if err := createTopics(ctx, o, o.topic); err != nil {
		return err
	}
	producer, err := client(o)
	if err != nil {
		return err
	}
	defer producer.Close()
	n, again := o.records, 5
	if err := produce(ctx, producer, o, 0, n); err != nil {
		return err
	}
	first, err := join(o)
	if err != nil {
		return err
	}
	second, err := join(o)
	if err != nil {
		return err
	}
	if err := until(o, "two members to split the partitions and read the first records", func() (bool, error) {
		a, read, failed := first.state()
		b, readToo, failedToo := second.state()
		return a > 0 && b > 0 && a+b == o.partitions && distinct(read, readToo) == n, errors.Join(failed, failedToo)
	}); err != nil {
		return err
	}
	second.leave()
	if err := until(o, "one member to take over all partitions", func() (bool, error) {
		a, _, failed := first.state()
		return a == o.partitions, failed
	}); err != nil {
		return err
	}
	if err := produce(ctx, producer, o, n, 2*n); err != nil {
		return err
	}
	if err := until(o, "the second records", func() (bool, error) {
		_, read, failed := first.state()
		return distinct(read, second.own) == 2*n, failed
	}); err != nil {
		return err
	}
	first.leave()
	if err := rewind(ctx, kadm.NewClient(producer), o, again); err != nil {
		return err
	}
	if err := produce(ctx, producer, o, 2*n, 3*n); err != nil {
		return err
	}
	third, err := join(o)
	if err != nil {
		return err
	}
	if err := until(o, "a new member to resume", func() (bool, error) {
		_, read, failed := third.state()
		return len(read) >= n+again, failed
	}); err != nil {
		return err
	}
	time.Sleep(300 * time.Millisecond)
	third.leave()
	var expected []int
	for i := range again { // the last ones of partition 0 before the rewinding
		expected = append(expected, (2*n-1)/o.partitions*o.partitions-i*o.partitions)
	}
	for i := 2 * n; i < 3*n; i++ {
		expected = append(expected, i)
	}
	slices.Sort(expected)
	slices.Sort(third.own)
	if !slices.Equal(expected, third.own) {
		return fmt.Errorf("resumed with %d records, expected exactly the %d behind the committed offsets", len(third.own), n+again)
	}
	found["records"] = 3*n + again
	found["repeated"] = len(first.own) + len(second.own) - 2*n
	return nil
}

// rewind checks that the group has committed to the end, and moves partition 0 back, from outside the group.
func rewind(ctx context.Context, adm *kadm.Client, o options, by int) error {
	ends, err := adm.ListEndOffsets(ctx, o.topic)
	if err != nil {
		return err
	}
	committed, err := adm.FetchOffsets(ctx, o.group)
	if err != nil {
		return err
	}
	for _, end := range ends.Offsets().Sorted() {
		if at, _ := committed.Lookup(o.topic, end.Partition); at.At != end.At {
			return fmt.Errorf("partition %d committed %d, expected %d", end.Partition, at.At, end.At)
		}
	}
	end, _ := ends.Lookup(o.topic, 0)
	back := kadm.Offsets{}
	back.AddOffset(o.topic, 0, end.Offset-int64(by), -1)
	return adm.CommitAllOffsets(ctx, o.group, back)
}

func admin(ctx context.Context, o options, found counts) error {
	c, err := client(o)
	if err != nil {
		return err
	}
	defer c.Close()
	adm, retention, steps := kadm.NewClient(c), "3600000", []string{}
	refused := func(err, expected error) error {
		if errors.Is(err, expected) {
			return nil
		}
		return fmt.Errorf("expected %v, got %v", expected, err)
	}
	create := func() error {
		_, err := adm.CreateTopic(ctx, int32(o.partitions), 1, map[string]*string{"retention.ms": &retention}, o.topic)
		return err
	}
	config := func(name string) (string, error) {
		described, err := adm.DescribeTopicConfigs(ctx, o.topic)
		if err != nil {
			return "", err
		}
		resource, err := described.On(o.topic, nil)
		for _, c := range resource.Configs {
			if c.Key == name {
				return c.MaybeValue(), errors.Join(err, resource.Err)
			}
		}
		return "", errors.Join(err, resource.Err)
	}
	describe := func(expected int) error {
		topics, err := adm.ListTopics(ctx, o.topic)
		if err != nil {
			return err
		}
		topic := topics[o.topic]
		for _, p := range topic.Partitions {
			if p.Err != nil || len(p.Replicas) != 1 || len(p.ISR) != 1 {
				return fmt.Errorf("described %+v", p)
			}
		}
		if len(topic.Partitions) != expected {
			return errors.Join(fmt.Errorf("%d partitions, expected %d", len(topic.Partitions), expected), topic.Err)
		}
		return nil
	}
	offset := func(list func(context.Context, ...string) (kadm.ListedOffsets, error), expected int64) error {
		listed, err := list(ctx, o.topic)
		if at, _ := listed.Lookup(o.topic, 0); err != nil || at.Offset != expected {
			return errors.Join(fmt.Errorf("offset %+v, expected %d", at, expected), err)
		}
		return nil
	}
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"create", create},
		{"create again", func() error { return refused(create(), kerr.TopicAlreadyExists) }},
		{"describe", func() error { return describe(o.partitions) }},
		{"configs", func() error {
			value, err := config("retention.ms")
			if value != retention {
				return errors.Join(fmt.Errorf("retention.ms is %q", value), err)
			}
			return nil
		}},
		{"alter config", func() error {
			bytes := "65536"
			change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &bytes}}
			if answers, err := adm.AlterTopicConfigs(ctx, change, o.topic); err != nil || answers[0].Err != nil {
				return errors.Join(fmt.Errorf("%+v", answers), err)
			}
			return until(o, "max.message.bytes to be altered", func() (bool, error) {
				value, err := config("max.message.bytes")
				return value == bytes, err
			})
		}},
		{"create partitions", func() error {
			answers, err := adm.CreatePartitions(ctx, 2, o.topic)
			if err = errors.Join(err, answers.Error()); err != nil {
				return err
			}
			return until(o, "new partitions", func() (bool, error) { return describe(o.partitions+2) == nil, nil })
		}},
		{"list offsets", func() error {
			return errors.Join(produce(ctx, c, o, 0, 10*o.partitions), offset(adm.ListStartOffsets, 0), offset(adm.ListEndOffsets, 10))
		}},
		{"delete records", func() error {
			before := kadm.Offsets{}
			before.AddOffset(o.topic, 0, 4, -1)
			answers, err := adm.DeleteRecords(ctx, before)
			return errors.Join(err, answers.Error(), offset(adm.ListStartOffsets, 4))
		}},
		{"group offsets", func() error {
			at := kadm.Offsets{}
			at.Add(kadm.Offset{Topic: o.topic, Partition: 0, At: 7, LeaderEpoch: -1, Metadata: "seven"})
			if err := adm.CommitAllOffsets(ctx, o.group, at); err != nil {
				return err
			}
			listed, err := adm.ListGroups(ctx)
			if _, ok := listed[o.group]; err != nil || !ok {
				return errors.Join(fmt.Errorf("%s is not listed in %+v", o.group, listed), err)
			}
			offsets, err := adm.FetchOffsets(ctx, o.group)
			if seven, _ := offsets.Lookup(o.topic, 0); err != nil || seven.At != 7 || seven.Metadata != "seven" {
				return errors.Join(fmt.Errorf("group offsets %+v", offsets), err)
			}
			groups, err := adm.DescribeGroups(ctx, o.group)
			if described := groups[o.group]; err != nil || described.State != "Empty" || len(described.Members) != 0 {
				return errors.Join(fmt.Errorf("described %+v", described), err)
			}
			return nil
		}},
		{"delete group", func() error {
			_, err := adm.DeleteGroup(ctx, o.group)
			offsets, fetchErr := adm.FetchOffsets(ctx, o.group)
			if _, ok := offsets.Lookup(o.topic, 0); ok {
				return fmt.Errorf("offsets of a deleted group: %+v", offsets)
			}
			return errors.Join(err, fetchErr)
		}},
		{"cluster", func() error {
			brokers, err := adm.ListBrokers(ctx)
			if len(brokers) == 0 {
				return errors.Join(fmt.Errorf("no brokers"), err)
			}
			return err
		}},
		{"delete", func() error {
			if _, err := adm.DeleteTopic(ctx, o.topic); err != nil {
				return err
			}
			return until(o, "the topic to be gone", func() (bool, error) {
				topics, err := adm.ListTopics(ctx, o.topic)
				return errors.Is(topics[o.topic].Err, kerr.UnknownTopicOrPartition), err
			})
		}},
	} {
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		steps = append(steps, step.name)
	}
	found["steps"] = steps
	return nil
}
