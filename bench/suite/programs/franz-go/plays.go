package main

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func (p *play) roundtrip() {
	p.create()
	p.missing()
}

func (p *play) missing() {
	p.produce(0, p.records)
	p.read(p.topic, kgo.ReadUncommitted(), p.made(p.topic, 0, p.records))
}

func (p *play) resume() {
	p.create()
	for _, from := range []int{0, p.records} {
		p.produce(from, from+p.records)
		member := p.client(p.memberOptions(kgo.DisableAutoCommit())...)
		found := p.take(member, p.records)
		ok(member.CommitRecords(p.ctx, found...))
		member.Close()
		expect(found, p.made(p.topic, from, from+p.records))
	}
	p.committed(2 * p.records)
}

func (p *play) waiting() {
	p.create()
	reader := p.reader(p.topic, kgo.ReadUncommitted())
	defer reader.Close()
	for i := range p.records {
		found := make(chan []*kgo.Record)
		go func() { found <- reader.PollFetches(p.ctx).Records() }()
		p.produce(i, i+1)
		expect(<-found, p.made(p.topic, i, i+1))
	}
}

func (p *play) commit() { p.transact(false) }

func (p *play) abort() { p.transact(true) }

func (p *play) transact(aborts bool) {
	p.create()
	producer := p.client(kgo.TransactionalID(p.id))
	var all, committed []*kgo.Record
	for n := range p.transactions {
		records := p.made(p.topic, n*p.records, (n+1)*p.records)
		all = append(all, records...)
		ok(producer.BeginTransaction())
		ok(producer.ProduceSync(p.ctx, records...).FirstErr())
		if aborts && (p.transactions-n)%2 == 0 {
			ok(producer.EndTransaction(p.ctx, kgo.TryAbort))
		} else {
			ok(producer.EndTransaction(p.ctx, kgo.TryCommit))
			committed = append(committed, records...)
		}
	}
	producer.Close()
	p.read(p.topic, kgo.ReadCommitted(), committed)
	if aborts {
		p.read(p.topic, kgo.ReadUncommitted(), all)
	}
}

func (p *play) copy() {
	output, total := p.topic+"-out", p.transactions*p.records
	p.create()
	ok(get(p.adm.CreateTopics(p.ctx, int32(p.partitions), 1, nil, output))[output].Err)
	p.produce(0, total)
	options := p.memberOptions(kgo.TransactionalID(p.id), kgo.RequireStableFetchOffsets(), kgo.SeedBrokers(p.bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	session := get(kgo.NewGroupTransactSession(options...))
	for copied := 0; copied < total; {
		fetches := session.PollRecords(p.ctx, p.records)
		for _, failed := range fetches.Errors() {
			ok(failed.Err)
		}
		ok(session.Begin())
		var records []*kgo.Record
		for _, r := range fetches.Records() {
			records = append(records, &kgo.Record{Topic: output, Partition: r.Partition, Key: r.Key, Value: r.Value})
		}
		ok(session.ProduceSync(p.ctx, records...).FirstErr())
		if get(session.End(p.ctx, kgo.TryCommit)) {
			copied += len(records)
		}
	}
	session.Close()
	p.read(output, kgo.ReadCommitted(), p.made(output, 0, total))
	p.committed(total)
}

// joined is a member that polls in a goroutine of its own until it leaves.
type joined struct {
	client *kgo.Client
	left   chan struct{}

	mutex    sync.Mutex
	found    []*kgo.Record
	assigned map[int32]bool
	failed   error
}

func (p *play) join() *joined {
	j := &joined{left: make(chan struct{}), assigned: map[int32]bool{}}
	change := func(to bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			j.mutex.Lock()
			defer j.mutex.Unlock()
			for _, partition := range changed[p.topic] {
				if delete(j.assigned, partition); to {
					j.assigned[partition] = true
				}
			}
		}
	}
	j.client = p.client(p.memberOptions(kgo.DisableAutoCommit(), kgo.OnPartitionsAssigned(change(true)),
		kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)))...)
	go func() {
		defer close(j.left)
		for {
			fetches := j.client.PollFetches(p.ctx)
			if fetches.IsClientClosed() || p.ctx.Err() != nil {
				return
			}
			records := fetches.Records()
			var err error
			if len(records) > 0 {
				err = j.client.CommitRecords(p.ctx, records...)
			}
			j.mutex.Lock()
			j.found, j.failed = append(j.found, records...), errors.Join(j.failed, fetches.Err0(), err)
			j.mutex.Unlock()
		}
	}()
	return j
}

func (j *joined) leave() {
	j.client.Close()
	<-j.left
}

func (j *joined) has() (int, []*kgo.Record) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	ok(j.failed)
	return len(j.assigned), slices.Clone(j.found)
}

func (p *play) rebalance() {
	p.create()
	members := []*joined{p.join(), p.join(), p.join()}
	defer func() {
		for _, member := range members {
			member.leave()
		}
	}()
	before := p.shared(members, nil, 0, p.records)
	members[2].leave()
	members = members[:2]
	p.shared(members, before, p.records, 2*p.records)
	p.committed(2 * p.records)
}

// shared: the members share the partitions, then each record is read once. It gives what they have read in all.
func (p *play) shared(members []*joined, before []*kgo.Record, from, to int) []*kgo.Record {
	p.until("the partitions are shared", func() bool {
		return !slices.ContainsFunc(members, func(member *joined) bool {
			assigned, _ := member.has()
			return assigned != p.partitions/len(members)
		})
	})
	known := map[*kgo.Record]bool{}
	for _, record := range before {
		known[record] = true
	}
	read := func() (news []*kgo.Record) {
		for _, member := range members {
			_, found := member.has()
			for _, record := range found {
				if !known[record] {
					news = append(news, record)
				}
			}
		}
		return news
	}
	p.produce(from, to)
	p.until("all is read", func() bool { return len(read()) >= to-from })
	news := read()
	expect(news, p.made(p.topic, from, to))
	return append(before, news...)
}

func (p *play) fence() {
	p.create()
	old := p.client(kgo.TransactionalID(p.id))
	defer old.Close()
	ok(old.BeginTransaction())
	ok(old.ProduceSync(p.ctx, p.made(p.topic, 0, p.records)...).FirstErr())
	owner := p.client(kgo.TransactionalID(p.id))
	defer owner.Close()
	_, _, err := owner.ProducerID(p.ctx)
	ok(err)
	refused := old.EndTransaction(p.ctx, kgo.TryCommit)
	fenced := errors.Is(refused, kerr.ProducerFenced) || errors.Is(refused, kerr.InvalidProducerEpoch)
	check(fenced, "the commit of the first producer was answered %v", refused)
	records := p.made(p.topic, p.records, 2*p.records)
	ok(owner.BeginTransaction())
	ok(owner.ProduceSync(p.ctx, records...).FirstErr())
	ok(owner.EndTransaction(p.ctx, kgo.TryCommit))
	p.read(p.topic, kgo.ReadCommitted(), records)
}

func (p *play) config(name string) string {
	described := get(get(p.adm.DescribeTopicConfigs(p.ctx, p.topic)).On(p.topic, nil))
	ok(described.Err)
	for _, config := range described.Configs {
		if config.Key == name {
			return config.MaybeValue()
		}
	}
	return ""
}

func (p *play) topics() {
	hour, size := "3600000", "65536"
	given := map[string]*string{"retention.ms": &hour}
	ok(get(p.adm.CreateTopics(p.ctx, int32(p.partitions), 1, given, p.topic))[p.topic].Err)
	count := func() int { return len(get(p.adm.ListTopics(p.ctx, p.topic))[p.topic].Partitions) }
	check(count() == p.partitions, "%d partitions", count())
	check(p.config("retention.ms") == hour, "retention.ms is another")
	change := kadm.AlterConfig{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &size}
	ok(get(p.adm.AlterTopicConfigs(p.ctx, []kadm.AlterConfig{change}, p.topic))[0].Err)
	p.until("max.message.bytes is set", func() bool { return p.config("max.message.bytes") == size })
	ok(get(p.adm.UpdatePartitions(p.ctx, p.partitions+2, p.topic))[p.topic].Err)
	p.until("there are more partitions", func() bool { return count() == p.partitions+2 })
	listed := func() bool { return get(p.adm.ListTopics(p.ctx)).Has(p.topic) }
	check(listed(), "the topic is not listed")
	ok(get(p.adm.DeleteTopics(p.ctx, p.topic))[p.topic].Err)
	p.until("the topic is gone", func() bool { return !listed() })
}

func (p *play) offsets() {
	p.create()
	p.produce(0, p.records*p.partitions)
	for at := range int32(p.partitions) {
		first := func() int64 {
			listed, _ := get(p.adm.ListStartOffsets(p.ctx, p.topic)).Lookup(p.topic, at)
			return listed.Offset
		}
		end, _ := get(p.adm.ListEndOffsets(p.ctx, p.topic)).Lookup(p.topic, at)
		check(first() == 0 && end.Offset == int64(p.records), "offsets %d and %d", first(), end.Offset)
		before := kadm.Offsets{}
		before.AddOffset(p.topic, at, 4, -1)
		ok(get(p.adm.DeleteRecords(p.ctx, before))[p.topic][at].Err)
		check(first() == 4, "the first offset is %d", first())
	}
}

func (p *play) groups() {
	p.create()
	for at := range int32(p.partitions) {
		offsets := kadm.Offsets{}
		offsets.AddOffset(p.topic, at, int64(7+at), -1)
		ok(p.adm.CommitAllOffsets(p.ctx, p.group, offsets))
	}
	check(slices.Contains(get(p.adm.ListGroups(p.ctx)).Groups(), p.group), "the group is not listed")
	found := get(p.adm.FetchOffsets(p.ctx, p.group))
	for at := range int32(p.partitions) {
		offset, _ := found.Lookup(p.topic, at)
		check(offset.At == int64(7+at), "committed %d", offset.At)
	}
}
