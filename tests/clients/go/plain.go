package scenarios

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// severalBatches is small enough that the default number of records makes several batches for each partition.
const severalBatches = 8 << 10

func (r *run) produceConsume() { r.inOrder(Producing{}) }

func (r *run) idempotent() { r.inOrder(Producing{Idempotent: true, BatchBytes: severalBatches}) }

func (r *run) inOrder(how Producing) {
	ok(r.CreateTopic(r.topic, r.partitions, nil))
	r.produce(0, r.records, how)
	for partition, records := range r.read(r.topic, ReadUncommitted, r.records) {
		for n, found := range records {
			expected := r.record(n*r.partitions + int(partition))
			expected.Offset = int64(n)
			check(found == expected, "found %+v, expected %+v", found, expected)
		}
	}
	r.counts["records"] = r.records
}

// joined is a member that polls and commits in a goroutine of its own until it leaves.
type joined struct {
	member  Member
	leaving chan struct{}
	left    chan struct{}

	mutex    sync.Mutex
	own      []int // the numbers of the records it got
	assigned []int32
	failed   error
}

func (r *run) join() *joined {
	j := &joined{member: get(r.Member(r.topic, r.group)), leaving: make(chan struct{}), left: make(chan struct{})}
	go j.run()
	return j
}

func (j *joined) run() {
	defer close(j.left)
	for {
		select {
		case <-j.leaving:
			j.note(nil, nil, j.member.Close())
			return
		default:
		}
		records, err := j.member.Poll(pollTime)
		if err == nil && len(records) > 0 {
			err = j.member.Commit()
		}
		assigned, unknown := j.member.Assigned()
		if j.note(records, assigned, errors.Join(err, unknown)); err != nil || unknown != nil {
			return
		}
	}
}

func (j *joined) note(records []Record, assigned []int32, err error) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for _, record := range records {
		i, _ := strconv.Atoi(record.Key)
		j.own = append(j.own, i)
	}
	j.assigned, j.failed = assigned, err
}

// state gives the partitions and the records so far.
func (j *joined) state() ([]int32, []int) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	ok(j.failed)
	return slices.Clone(j.assigned), slices.Clone(j.own)
}

func (j *joined) leave() {
	close(j.leaving)
	<-j.left
	j.state()
}

func distinct[T int | int32](lists ...[]T) int {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return len(slices.Compact(all))
}

// ConsumerProtocol is a client whose members can speak the protocol of KIP-848.
type ConsumerProtocol interface {
	UseConsumerProtocol() error
}

// consumerProtocol is rebalances with a group that the broker assigns.
func (r *run) consumerProtocol() {
	client, can := r.Client.(ConsumerProtocol)
	if !can {
		ok(errors.ErrUnsupported)
	}
	ok(client.UseConsumerProtocol())
	r.rebalances()
}

func (r *run) rebalances() {
	n, again := r.records, 5
	ok(r.CreateTopic(r.topic, r.partitions, nil))
	r.produce(0, n, Producing{})
	first, second := r.join(), r.join()
	r.until("two members to split the partitions and read the first records", func() bool {
		a, read := first.state()
		b, readToo := second.state()
		split := len(a) > 0 && len(b) > 0 && len(a)+len(b) == r.partitions && distinct(a, b) == r.partitions
		return split && distinct(read, readToo) == n
	})
	second.leave()
	_, readBefore := second.state()
	r.until("one member to take over all partitions", func() bool {
		assigned, _ := first.state()
		return len(assigned) == r.partitions
	})
	r.produce(n, 2*n, Producing{})
	r.until("the second records", func() bool {
		_, read := first.state()
		return distinct(read, readBefore) == 2*n
	})
	first.leave()
	_, read := first.state()
	r.counts["repeated"] = len(read) + len(readBefore) - 2*n

	committed := r.committedToTheEnd()
	ok(r.CommitOutside(r.group, r.topic, 0, committed[0]-int64(again)))
	r.produce(2*n, 3*n, Producing{})
	third := r.join()
	r.until("a new member to resume", func() bool {
		_, read := third.state()
		return len(read) >= n+again
	})
	time.Sleep(300 * time.Millisecond) // for records that should not come
	third.leave()
	var expected []int
	for i := range again { // the last ones of partition 0 before the rewinding
		expected = append(expected, (2*n-1)/r.partitions*r.partitions-i*r.partitions)
	}
	for i := 2 * n; i < 3*n; i++ {
		expected = append(expected, i)
	}
	_, resumed := third.state()
	slices.Sort(expected)
	slices.Sort(resumed)
	check(slices.Equal(expected, resumed), "resumed with %d records, expected exactly the %d behind the committed offsets",
		len(resumed), len(expected))
	r.counts["records"] = 3*n + again
}

type step struct {
	name string
	do   func()
}

func (r *run) admin() {
	var done []string
	for _, step := range r.steps() {
		err := attempt(step.do)
		if errors.Is(err, errors.ErrUnsupported) {
			fmt.Fprintf(os.Stderr, "%s: this client cannot\n", step.name)
			continue
		}
		check(err == nil, "%s: %v", step.name, err)
		done = append(done, step.name)
	}
	r.counts["steps"] = done
}

func (r *run) steps() []step {
	const hour = "3600000"
	more := r.partitions + 2
	create := func() error { return r.CreateTopic(r.topic, r.partitions, map[string]string{"retention.ms": hour}) }
	start := func(expected int64) {
		at := get(r.Offset(r.topic, 0, Start))
		check(at == expected, "first offset %d, expected %d", at, expected)
	}
	inSync := func(partitions int) bool {
		return slices.Equal(get(r.InSync(r.topic)), slices.Repeat([]int{1}, partitions))
	}
	return []step{
		{"create", func() { ok(create()) }},
		{"create again", func() {
			err := create()
			exists := err != nil && strings.Contains(strings.ToLower(err.Error()), "exist")
			check(exists, "expected TOPIC_ALREADY_EXISTS, got %v", err)
		}},
		{"describe", func() { check(inSync(r.partitions), "in-sync replicas %v", get(r.InSync(r.topic))) }},
		{"configs", func() {
			for name, expected := range map[string]string{"retention.ms": hour, "cleanup.policy": "delete"} {
				value := get(r.Config(r.topic, name))
				check(value == expected, "%s is %q, expected %q", name, value, expected)
			}
		}},
		{"alter config", func() {
			ok(r.AlterConfig(r.topic, "max.message.bytes", "65536"))
			r.until("max.message.bytes", func() bool { return get(r.Config(r.topic, "max.message.bytes")) == "65536" })
			value := get(r.Config(r.topic, "retention.ms"))
			check(value == hour, "retention.ms became %q, expected %q as before", value, hour)
		}},
		{"create partitions", func() {
			ok(r.CreatePartitions(r.topic, more))
			r.until("new partitions", func() bool { return inSync(more) })
		}},
		{"list offsets", func() {
			r.produce(0, 10*r.partitions, Producing{})
			start(0)
			end := get(r.Offset(r.topic, 0, End))
			check(end == 10, "end offset %d, expected 10", end)
		}},
		{"delete records", func() {
			ok(r.DeleteRecords(r.topic, 0, 4))
			start(4)
		}},
		{"group offsets", func() {
			ok(r.CommitOutside(r.group, r.topic, 0, 7))
			check(slices.Contains(get(r.Groups()), r.group), "%s is not listed", r.group)
			state := get(r.GroupState(r.group))
			check(state == "Empty", "the group is %s, expected Empty", state)
			offsets := get(r.GroupOffsets(r.group, r.topic, r.partitions))
			check(len(offsets) == 1 && offsets[0] == 7, "group offsets %v, expected 7 in partition 0", offsets)
		}},
		{"delete group", func() {
			ok(r.DeleteGroup(r.group))
			offsets := get(r.GroupOffsets(r.group, r.topic, r.partitions))
			check(len(offsets) == 0, "offsets of a deleted group: %v", offsets)
		}},
		{"cluster", func() { check(get(r.Brokers()) > 0, "no brokers") }},
		{"delete", func() {
			check(slices.Contains(get(r.Topics()), r.topic), "%s is not listed", r.topic)
			ok(r.DeleteTopic(r.topic))
			r.until("the topic to be gone", func() bool { return !slices.Contains(get(r.Topics()), r.topic) })
		}},
	}
}
