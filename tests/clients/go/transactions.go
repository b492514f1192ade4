package scenarios

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	recordsPerTransaction = 10
	usualTimeout          = time.Minute
	shortTimeout          = 1500 * time.Millisecond
)

// send begins a transaction and writes its records, named after it, to all partitions in turn.
func (r *run) send(producer Transactional, name string) []string {
	ok(producer.Begin())
	var records []Record
	var values []string
	for i := range recordsPerTransaction {
		values = append(values, name+"-"+strconv.Itoa(i))
		records = append(records, Record{Partition: int32(i % r.partitions), Key: name, Value: values[i]})
	}
	ok(producer.Send(r.topic, records))
	return values
}

// expect: the topic must hold exactly these values for a reader of this isolation level, in this order per partition.
func (r *run) expect(isolation Isolation, values []string) {
	expected, found := map[int32][]string{}, map[int32][]string{}
	for _, value := range values {
		i, _ := strconv.Atoi(value[strings.LastIndex(value, "-")+1:])
		partition := int32(i % r.partitions)
		expected[partition] = append(expected[partition], value)
	}
	for partition, records := range r.read(r.topic, isolation, len(values)) {
		for _, record := range records {
			found[partition] = append(found[partition], record.Value)
		}
	}
	check(maps.EqualFunc(expected, found, slices.Equal), "%v read %v, expected %v", isolation, found, expected)
}

// holdsBack is true while the last stable offset of partition 0 is behind the end of the log.
func (r *run) holdsBack() bool {
	stable := r.offset(Stable)
	return stable < r.offset(End)
}

// offset asks again where the connection was lost before anything was read from it, which clients leave to their users.
func (r *run) offset(at Position) int64 {
	for end := r.deadline(); ; {
		offset, err := r.Offset(r.topic, 0, at)
		if !errors.Is(err, io.EOF) || time.Now().After(end) {
			return get(offset, err)
		}
	}
}

// refused commits what must not be, and gives what the client says to it.
func refused(producer Transactional) string {
	err := producer.Commit()
	check(err != nil, "the commit was not refused")
	return err.Error()
}

func (r *run) transacts() {
	ok(r.CreateTopic(r.topic, r.partitions, nil))
	producer := get(r.Transactional(r.transactionalID, usualTimeout))
	var all, committed []string
	for n := range r.transactions {
		values := r.send(producer, fmt.Sprint("t", n))
		all = append(all, values...)
		if n%2 == 0 {
			ok(producer.Commit())
			committed = append(committed, values...)
		} else {
			ok(producer.Abort())
		}
	}
	open := r.send(producer, "open")
	r.expect(ReadUncommitted, append(all, open...))
	r.expect(ReadCommitted, committed)
	check(r.holdsBack(), "an open transaction does not hold back the last stable offset")
	ok(producer.Commit())
	committed = append(committed, open...)
	r.expect(ReadCommitted, committed)
	ok(producer.Close())
	r.counts["transactions"], r.counts["committed_records"] = r.transactions+1, len(committed)
}

func (r *run) txnOffsets() {
	output := r.topic + "-out"
	copier := get(r.Copier(r.topic, r.group, r.transactionalID))
	for _, topic := range []string{r.topic, output} {
		ok(r.CreateTopic(topic, r.partitions, nil))
	}
	r.produce(0, r.records, Producing{})
	copied, made, aborted := 0, 0, 0
	for end := r.deadline(); copied < r.records; {
		check(time.Now().Before(end), "timed out with %d records copied in %d transactions", copied, made)
		records := get(copier.Poll(pollTime, max(1, r.records/20)))
		if len(records) == 0 {
			continue
		}
		made++
		if get(copier.Copy(records, output, made%3 != 0)) {
			copied += len(records)
		} else {
			aborted++
		}
	}
	r.committedToTheEnd()
	ok(copier.Close())
	keys := map[string]bool{}
	for _, records := range r.read(output, ReadCommitted, r.records) {
		for _, record := range records {
			keys[record.Key] = true
		}
	}
	check(len(keys) == r.records, "copied %d different records of %d", len(keys), r.records)
	r.counts["transactions"], r.counts["aborted"], r.counts["records"] = made, aborted, copied
}

func (r *run) zombie() {
	ok(r.CreateTopic(r.topic, r.partitions, nil))
	old := get(r.Transactional(r.transactionalID, usualTimeout))
	committed := r.send(old, "before")
	ok(old.Commit())
	r.send(old, "zombie")
	owner := get(r.Transactional(r.transactionalID, usualTimeout))
	r.counts["fenced"] = refused(old)
	committed = append(committed, r.send(owner, "after")...)
	ok(owner.Commit())
	r.expect(ReadCommitted, committed)
	ok(owner.Close())
}

func (r *run) txnTimeout() {
	ok(r.CreateTopic(r.topic, r.partitions, nil))
	slow := get(r.Transactional(r.transactionalID, shortTimeout))
	r.send(slow, "slow")
	r.until("the coordinator to abort the transaction", func() bool { return !r.holdsBack() })
	r.counts["refused"] = refused(slow)
	next := get(r.Transactional(r.transactionalID, usualTimeout))
	values := r.send(next, "next")
	ok(next.Commit())
	r.expect(ReadCommitted, values)
	ok(next.Close())
}

// lost: a transaction is refused in the middle; it is aborted, and the same producer commits the next one.
func (r *run) lost() {
	ok(r.CreateTopic(r.topic, r.partitions, nil))
	producer := get(r.Transactional(r.transactionalID, usualTimeout))
	ok(producer.Begin())
	err := producer.Send(r.topic, []Record{{Partition: 0, Key: "lost", Value: "lost-0"}})
	if err == nil {
		err = producer.Commit()
	}
	check(err != nil, "nothing was refused")
	r.counts["refused"] = err.Error()
	ok(producer.Abort())
	values := r.send(producer, "next")
	ok(producer.Commit())
	r.expect(ReadCommitted, values)
	ok(producer.Close())
}
