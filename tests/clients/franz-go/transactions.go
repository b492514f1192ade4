package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const recordsPerTransaction = 10

func transactional(o options, more ...kgo.Opt) (*kgo.Client, error) {
	return client(o, append(more, kgo.TransactionalID(o.transactionalID))...)
}

// send begins a transaction and writes its records, named after it, to all partitions in turn.
func send(ctx context.Context, c *kgo.Client, o options, name string) ([]string, error) {
	if err := c.BeginTransaction(); err != nil {
		return nil, err
	}
	var records []*kgo.Record
	var values []string
	for i := range recordsPerTransaction {
		values = append(values, name+"-"+strconv.Itoa(i))
		records = append(records, &kgo.Record{Topic: o.topic, Partition: int32(i % o.partitions), Key: []byte(name), Value: []byte(values[i])})
	}
	return values, c.ProduceSync(ctx, records...).FirstErr()
}

// expect: the topic must hold exactly these values for a reader of this isolation level, in this order per partition.
func expect(ctx context.Context, o options, isolation kgo.IsolationLevel, values []string) error {
	expected, found := map[int32][]string{}, map[int32][]string{}
	for _, value := range values {
		i, _ := strconv.Atoi(value[strings.LastIndex(value, "-")+1:])
		partition := int32(i % o.partitions)
		expected[partition] = append(expected[partition], value)
	}
	records, err := read(ctx, o, o.topic, isolation, len(values))
	if err != nil {
		return err
	}
	for partition, inOrder := range records {
		for _, r := range inOrder {
			found[partition] = append(found[partition], string(r.Value))
		}
	}
	if !maps.EqualFunc(expected, found, slices.Equal) {
		return fmt.Errorf("read %v, expected %v", found, expected)
	}
	return nil
}

// holdsBack tells whether the last stable offset of partition 0 is behind the end of the log.
func holdsBack(ctx context.Context, o options) (bool, error) {
	c, err := client(o)
	if err != nil {
		return false, err
	}
	defer c.Close()
	adm := kadm.NewClient(c)
	stable, err := adm.ListCommittedOffsets(ctx, o.topic)
	if err != nil {
		return false, err
	}
	ends, err := adm.ListEndOffsets(ctx, o.topic)
	at, _ := stable.Lookup(o.topic, 0)
	end, _ := ends.Lookup(o.topic, 0)
	return at.Offset < end.Offset, err
}

func transactions(ctx context.Context, o options, found counts) error {
	if err := createTopics(ctx, o, o.topic); err != nil {
		return err
	}
	c, err := transactional(o)
	if err != nil {
		return err
	}
	defer c.Close()
	var all, committed []string
	for n := range o.transactions {
		values, err := send(ctx, c, o, fmt.Sprint("t", n))
		if err != nil {
			return err
		}
		all = append(all, values...)
		if n%2 == 0 {
			committed = append(committed, values...)
		}
		if err := c.EndTransaction(ctx, kgo.TransactionEndTry(n%2 == 0)); err != nil {
			return err
		}
	}
	open, err := send(ctx, c, o, "open")
	if err != nil {
		return err
	}
	all = append(all, open...)
	if err := expect(ctx, o, kgo.ReadUncommitted(), all); err != nil {
		return fmt.Errorf("read_uncommitted: %w", err)
	}
	if err := expect(ctx, o, kgo.ReadCommitted(), committed); err != nil {
		return fmt.Errorf("read_committed with an open transaction: %w", err)
	}
	if behind, err := holdsBack(ctx, o); err != nil || !behind {
		return errors.Join(errors.New("an open transaction does not hold back the last stable offset"), err)
	}
	if err := c.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	committed = append(committed, open...)
	found["transactions"], found["committed_records"] = o.transactions+1, len(committed)
	return expect(ctx, o, kgo.ReadCommitted(), committed)
}

func txnOffsets(ctx context.Context, o options, found counts) error {
	output := o.topic + "-out"
	if err := createTopics(ctx, o, o.topic, output); err != nil {
		return err
	}
	plain, err := client(o)
	if err != nil {
		return err
	}
	defer plain.Close()
	if err := produce(ctx, plain, o, 0, o.records); err != nil {
		return err
	}
	copied, made, aborted, err := copyRecords(ctx, o, output)
	if err != nil {
		return err
	}
	adm := kadm.NewClient(plain)
	ends, err := adm.ListEndOffsets(ctx, o.topic)
	if err != nil {
		return err
	}
	offsets, err := adm.FetchOffsets(ctx, o.group)
	if err != nil {
		return err
	}
	for _, end := range ends.Offsets().Sorted() {
		if at, _ := offsets.Lookup(o.topic, end.Partition); at.At != end.At {
			return fmt.Errorf("partition %d committed %d, expected %d", end.Partition, at.At, end.At)
		}
	}
	records, err := read(ctx, o, output, kgo.ReadCommitted(), o.records)
	if err != nil {
		return err
	}
	keys := map[string]bool{}
	for _, inOrder := range records {
		for _, r := range inOrder {
			keys[string(r.Key)] = true
		}
	}
	if len(keys) != o.records {
		return fmt.Errorf("copied %d different records of %d", len(keys), o.records)
	}
	found["transactions"], found["aborted"], found["records"] = made, aborted, copied
	return nil
}

// copyRecords moves all records to the output, offsets in the same transactions, aborting every third.
func copyRecords(ctx context.Context, o options, output string) (copied, made, aborted int, err error) {
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(o.bootstrap), kgo.TransactionalID(o.transactionalID),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConsumerGroup(o.group), kgo.ConsumeTopics(o.topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.SessionTimeout(6*time.Second), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return 0, 0, 0, err
	}
	defer session.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(o.timeout)*time.Second)
	defer cancel()
	for copied < o.records {
		fetches := session.PollRecords(ctx, max(1, o.records/20))
		if ctx.Err() != nil {
			return copied, made, aborted, fmt.Errorf("timed out with %d records copied", copied)
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return copied, made, aborted, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: output, Partition: r.Partition, Key: r.Key, Value: r.Value}, func(_ *kgo.Record, failed error) {
				err = errors.Join(err, failed)
			})
		})
		if flushed := session.Client().Flush(ctx); flushed != nil || err != nil {
			return copied, made, aborted, errors.Join(flushed, err)
		}
		made++
		committed, err := session.End(ctx, kgo.TransactionEndTry(made%3 != 0))
		if err != nil {
			return copied, made, aborted, err
		}
		if committed {
			copied += fetches.NumRecords()
		} else {
			aborted++
		}
	}
	return copied, made, aborted, nil
}

func zombie(ctx context.Context, o options, found counts) error {
	if err := createTopics(ctx, o, o.topic); err != nil {
		return err
	}
	old, err := transactional(o)
	if err != nil {
		return err
	}
	defer old.Close()
	committed, err := send(ctx, old, o, "before")
	if err != nil {
		return err
	}
	if err := old.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	if _, err := send(ctx, old, o, "zombie"); err != nil {
		return err
	}
	owner, err := transactional(o)
	if err != nil {
		return err
	}
	defer owner.Close()
	if _, _, err := owner.ProducerID(ctx); err != nil { // InitProducerId, which otherwise waits for the first record
		return err
	}
	refusal := old.EndTransaction(ctx, kgo.TryCommit)
	if refusal == nil {
		return errors.New("the commit of the zombie was not refused")
	}
	found["fenced"] = refusal.Error()
	after, err := send(ctx, owner, o, "after")
	if err != nil {
		return err
	}
	if err := owner.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	return expect(ctx, o, kgo.ReadCommitted(), append(committed, after...))
}

func txnTimeout(ctx context.Context, o options, found counts) error {
	if err := createTopics(ctx, o, o.topic); err != nil {
		return err
	}
	slow, err := transactional(o, kgo.TransactionTimeout(1500*time.Millisecond))
	if err != nil {
		return err
	}
	defer slow.Close()
	if _, err := send(ctx, slow, o, "slow"); err != nil {
		return err
	}
	if err := until(o, "the coordinator to abort the transaction", func() (bool, error) {
		time.Sleep(100 * time.Millisecond)
		behind, err := holdsBack(ctx, o)
		return !behind, err
	}); err != nil {
		return err
	}
	refusal := slow.EndTransaction(ctx, kgo.TryCommit)
	if refusal == nil {
		return errors.New("the commit of a timed-out transaction was not refused")
	}
	found["refused"] = refusal.Error()
	next, err := transactional(o)
	if err != nil {
		return err
	}
	defer next.Close()
	values, err := send(ctx, next, o, "next")
	if err != nil {
		return err
	}
	if err := next.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	return expect(ctx, o, kgo.ReadCommitted(), values)
}
