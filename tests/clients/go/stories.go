package scenarios

import (
	"errors"
	"slices"
	"time"
)

// The situations of docs/stories that the other scenarios do not get into. What becomes of the producer is counted as
// "outcome": it survives (the application saw nothing), aborts (and goes on), or ends (and another one goes on).

const (
	storyTimeout = time.Second
	quiet        = 1500 * time.Millisecond
	limit        = 2 // of deliveries, in the stories of dead letters
)

// Impatient is a transactional producer that can give up on what it has sent.
type Impatient interface {
	// SendAndGiveUp returns why, when it has given up.
	SendAndGiveUp(topic string, record Record, patience time.Duration) error
}

func (r *run) output() string { return r.topic + "-out" }

func (r *run) topics() {
	ok(r.CreateTopic(r.topic, r.partitions, nil))
	ok(r.CreateTopic(r.output(), r.partitions, nil))
}

// write sends one record to partition 0, and waits for its answer.
func write(producer Transactional, topic, value string) error {
	return producer.Send(topic, []Record{{Partition: 0, Key: value, Value: value}})
}

// transact runs a transaction up to its commit, or to the first error.
func transact(producer Transactional, steps ...func() error) error {
	for _, step := range append([]func() error{producer.Begin}, append(steps, producer.Commit)...) {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// play transacts, and finds out what becomes of the producer if that is refused.
func (r *run) play(producer Transactional, steps ...func() error) {
	err := transact(producer, steps...)
	if err == nil {
		r.counts["outcome"] = "survives"
		return
	}
	r.counts["refused"] = err.Error()
	r.counts["outcome"] = "aborts"
	next := func(producer Transactional) error {
		return transact(producer, func() error { return write(producer, r.topic, "next") })
	}
	err = producer.Abort()
	if err == nil {
		err = next(producer)
	}
	if err != nil {
		r.counts["then"], r.counts["outcome"] = err.Error(), "ends"
		another := get(r.Transactional(r.transactionalID, usualTimeout))
		ok(next(another))
		ok(another.Close())
	}
	committed := r.values(r.topic, ReadCommitted)
	check(slices.Equal(committed, []string{"next"}) || slices.Equal(committed, []string{"before", "next"}),
		"committed %v", committed)
}

// values are what a reader gets of partition 0 within a moment.
func (r *run) values(topic string, isolation Isolation) []string {
	return r.valuesOf(topic, r.partitions, isolation)
}

func (r *run) valuesOf(topic string, partitions int, isolation Isolation) []string {
	reader := get(r.Reader(topic, partitions, isolation))
	values := []string{}
	for end := time.Now().Add(quiet); time.Now().Before(end); {
		for _, record := range get(reader.Poll(pollTime)) {
			values = append(values, record.Value)
		}
	}
	ok(reader.Close())
	return values
}

// storyCommit: two transactions are committed.
func (r *run) storyCommit() {
	r.topics()
	producer := get(r.Transactional(r.transactionalID, usualTimeout))
	r.play(producer, func() error { return write(producer, r.topic, "before") })
	if r.counts["outcome"] == "survives" {
		ok(transact(producer, func() error { return write(producer, r.topic, "next") }))
		values := r.values(r.topic, ReadCommitted)
		check(slices.Equal(values, []string{"before", "next"}), "committed %v", values)
	}
	ok(producer.Close())
}

// storyRestart: the same, by a producer that is not the first of its transactional id.
func (r *run) storyRestart() {
	ok(get(r.Transactional(r.transactionalID, usualTimeout)).Close())
	r.storyCommit()
}

// storySecondInstance: while a commit is on its way, another instance takes the transactional id over.
func (r *run) storySecondInstance() {
	r.topics()
	first := get(r.Transactional(r.transactionalID, usualTimeout))
	ok(first.Begin())
	ok(write(first, r.topic, "first"))
	commit := make(chan error, 1)
	go func() { commit <- first.Commit() }()
	time.Sleep(500 * time.Millisecond)
	second := get(r.Transactional(r.transactionalID, usualTimeout))
	ok(transact(second, func() error { return write(second, r.topic, "next") }))
	err := <-commit
	check(err != nil, "the commit was not refused")
	r.counts["refused"], r.counts["outcome"] = err.Error(), "aborts"
	err = first.Abort()
	if err == nil {
		err = transact(first, func() error { return write(first, r.topic, "again") })
	}
	if err != nil {
		r.counts["then"], r.counts["outcome"] = err.Error(), "ends"
	}
	ok(second.Close())
	values := r.values(r.topic, ReadCommitted)
	check(slices.Equal(values, []string{"next"}), "committed %v", values)
}

// storySecondTopic: a transaction writes to one topic, and then to another one.
func (r *run) storySecondTopic() {
	r.topics()
	producer := get(r.Transactional(r.transactionalID, usualTimeout))
	r.play(producer,
		func() error { return write(producer, r.topic, "first") },
		func() error { return write(producer, r.output(), "second") })
	ok(producer.Close())
}

// storyTimeout: a transaction takes longer than it may, because its second batch does.
func (r *run) storyTimeout() {
	r.topics()
	producer := get(r.Transactional(r.transactionalID, storyTimeout))
	r.play(producer,
		func() error { return write(producer, r.topic, "first") },
		func() error { return write(producer, r.topic, "second") })
	ok(producer.Close())
}

// storyIdle: a transaction is committed, nothing is done for a moment, and then another one is to be.
func (r *run) storyIdle() {
	r.topics()
	producer := get(r.Transactional(r.transactionalID, usualTimeout))
	ok(transact(producer, func() error { return write(producer, r.topic, "before") }))
	time.Sleep(2 * time.Second)
	r.play(producer, func() error { return write(producer, r.topic, "after") })
	ok(producer.Close())
}

// consume waits for the first records that a copier gets.
func (r *run) consume(copier Copier) []Record {
	var records []Record
	r.until("a record", func() bool {
		records = get(copier.Poll(pollTime, 1))
		return len(records) > 0
	})
	return records
}

// storyOffsets: a record is consumed, copied, and its offset committed in a transaction; again, if that is refused.
func (r *run) storyOffsets() {
	r.topics()
	copier := get(r.Copier(r.topic, r.group, r.transactionalID))
	get(r.Produce(r.topic, []Record{{Key: "next", Value: "next"}}, Producing{}))
	r.counts["outcome"] = "survives"
	committed, err := copier.Copy(r.consume(copier), r.output(), true)
	if !committed {
		r.counts["outcome"] = "aborts"
		if err != nil {
			r.counts["refused"] = err.Error()
		}
		committed, err = copier.Copy(r.consume(copier), r.output(), true)
	}
	if err != nil {
		r.counts["outcome"], r.counts["then"] = "ends", err.Error()
		ok(copier.Close())
		copier = get(r.Copier(r.topic, r.group, r.transactionalID))
		committed = get(copier.Copy(r.consume(copier), r.output(), true))
	}
	check(committed, "nothing is committed at last")
	offset := get(r.GroupOffsets(r.group, r.topic, r.partitions))[0]
	check(offset == 1, "the committed offset is %d", offset)
	ok(copier.Close())
	values := r.values(r.output(), ReadCommitted)
	check(slices.Equal(values, []string{"next"}), "committed %v", values)
}

// storyLateOffsets: while the offsets of a transaction are on their way, another member joins the group.
func (r *run) storyLateOffsets() {
	r.lateOffsets(func(string) {})
}

// storyLateEpoch: the same with members of a group of KIP-848, who have names.
func (r *run) storyLateEpoch() {
	client := r.modern()
	r.lateOffsets(client.NameMembers)
}

func (r *run) lateOffsets(name func(string)) {
	r.topics()
	name("late")
	copier := get(r.Copier(r.topic, r.group, r.transactionalID))
	get(r.Produce(r.topic, []Record{{Key: "copy", Value: "copy"}}, Producing{}))
	records := r.consume(copier)
	var committed bool
	var err error
	late := make(chan struct{})
	go func() {
		committed, err = copier.Copy(records, r.output(), true)
		close(late)
	}()
	time.Sleep(500 * time.Millisecond)
	name("other")
	other := get(r.Member(r.topic, r.group))
	for end, over := r.deadline(), false; !over; {
		check(time.Now().Before(end), "timed out waiting for the offsets to be refused")
		get(other.Poll(pollTime))
		ok(other.Commit())
		select {
		case <-late:
			over = true
		default:
		}
	}
	r.counts["outcome"] = "aborts"
	if committed {
		r.counts["outcome"] = "survives"
	}
	if err != nil {
		r.counts["refused"] = err.Error()
	}
	ok(other.Close())
	ok(copier.Close())
	values := r.values(r.output(), ReadCommitted)
	expected := []string{}
	if committed {
		expected = []string{"copy"}
	}
	check(slices.Equal(values, expected), "committed %v", values)
}

// Modern is a client whose members can speak the protocol of KIP-848, and have a name.
type Modern interface {
	ConsumerProtocol
	// NameMembers gives those that are made from now on this client id.
	NameMembers(name string)
}

func (r *run) modern() Modern {
	client, can := r.Client.(Modern)
	if !can {
		ok(errors.ErrUnsupported)
	}
	ok(client.UseConsumerProtocol())
	return client
}

// takes waits for the one record that a member gets, and commits it.
func (r *run) takes(member Member, value string) {
	var records []Record
	r.until("the record "+value, func() bool {
		records = get(member.Poll(pollTime))
		return len(records) > 0
	})
	ok(member.Commit())
	check(len(records) == 1 && records[0].Value == value, "there came %v", records)
}

// storyExpiredMember: a member of a group of KIP-848 loses what it has, and reads on where it has committed.
func (r *run) storyExpiredMember() {
	r.topics()
	r.modern().NameMembers("late")
	member := get(r.Member(r.topic, r.group))
	get(r.Produce(r.topic, []Record{{Key: "before", Value: "before"}}, Producing{}))
	r.takes(member, "before")
	// It is without partitions between two polls only.
	for end := time.Now().Add(5 * quiet); time.Now().Before(end); {
		check(len(get(member.Poll(pollTime))) == 0, "a record came twice")
	}
	get(r.Produce(r.topic, []Record{{Key: "next", Value: "next"}}, Producing{}))
	r.takes(member, "next")
	r.counts["outcome"] = "survives"
	ok(member.Close())
}

// storyMigration: a classic member goes on while one of KIP-848 joins its group, and leaves it everything in the end.
func (r *run) storyMigration() {
	r.topics()
	classic := get(r.Member(r.topic, r.group))
	get(r.Produce(r.topic, []Record{{Key: "before", Value: "before"}}, Producing{}))
	r.takes(classic, "before")
	r.modern().NameMembers("modern")
	modern := get(r.Member(r.topic, r.group))
	r.until("both to have partitions", func() bool {
		for _, member := range []Member{classic, modern} {
			check(len(get(member.Poll(pollTime))) == 0, "a record came twice")
		}
		a, b := get(classic.Assigned()), get(modern.Assigned())
		return len(a) > 0 && len(b) > 0 && len(a)+len(b) == r.partitions && distinct(a, b) == r.partitions
	})
	ok(classic.Close())
	r.until("the one that is left to have everything", func() bool {
		check(len(get(modern.Poll(pollTime))) == 0, "a record came twice")
		return len(get(modern.Assigned())) == r.partitions
	})
	get(r.Produce(r.topic, []Record{{Key: "next", Value: "next"}}, Producing{}))
	r.takes(modern, "next")
	r.counts["outcome"] = "survives"
	ok(modern.Close())
}

// Sharer is a member of a share group (KIP-932).
type Sharer interface {
	// Poll waits for the first records, at most so long; beside each how often it was delivered.
	Poll(wait time.Duration) (values []string, deliveries []int32, err error)
	// Accept acknowledges what was polled, and gives why the broker refused it.
	Accept() error
	// Release gives it back, to be delivered again, and gives why the broker refused that.
	Release() error
	Close() error
}

// Sharing is a client that has share consumers.
type Sharing interface {
	// Sharer begins at the first record; its group has these configs.
	Sharer(topic, group string, configs map[string]string) (Sharer, error)
}

func (r *run) sharer(configs map[string]string) Sharer {
	client, can := r.Client.(Sharing)
	if !can {
		ok(errors.ErrUnsupported)
	}
	return get(client.Sharer(r.topic, r.group, configs))
}

// shared waits for the one record that a member gets; how often it was delivered.
func (r *run) shared(member Sharer, value string) int32 {
	var values []string
	var deliveries []int32
	r.until("the record "+value, func() bool {
		var err error
		values, deliveries, err = member.Poll(pollTime)
		ok(err)
		return len(values) > 0
	})
	check(slices.Equal(values, []string{value}), "there came %v", values)
	return deliveries[0]
}

// storyShareLock: a record is accepted when its lock is over; that is refused, and it comes for the second time.
func (r *run) storyShareLock() {
	ok(r.CreateTopic(r.topic, 1, nil))
	get(r.Produce(r.topic, []Record{{Key: "next", Value: "next"}}, Producing{}))
	member := r.sharer(nil)
	first := r.shared(member, "next")
	check(first == 1, "it came for the time %d", first)
	refused := member.Accept()
	check(refused != nil, "too late, and taken")
	r.counts["refused"], r.counts["outcome"] = refused.Error(), "hangs"
	for end := time.Now().Add(10 * quiet); time.Now().Before(end); {
		values, deliveries, err := member.Poll(pollTime)
		ok(err)
		if len(values) > 0 {
			check(deliveries[0] == 2, "it came again for the time %d", deliveries[0])
			ok(member.Accept())
			r.counts["outcome"] = "again"
			break
		}
	}
	ok(member.Close())
}

// storyShareAborted: markers come late, and a group that reads committed records gets none that is aborted.
func (r *run) storyShareAborted() {
	ok(r.CreateTopic(r.topic, 1, nil))
	member := r.sharer(map[string]string{"share.isolation.level": "read_committed"})
	producer := get(r.Transactional(r.transactionalID, usualTimeout))
	ok(producer.Begin())
	ok(write(producer, r.topic, "aborted"))
	ok(producer.Abort())
	ok(transact(producer, func() error { return write(producer, r.topic, "next") }))
	r.shared(member, "next")
	ok(member.Accept())
	r.counts["outcome"] = "survives"
	ok(member.Close())
	ok(producer.Close())
}

// storyShareDeadLetter: a record is given back until it is a dead letter, and the one behind it is accepted.
func (r *run) storyShareDeadLetter() {
	letters := "dlq." + r.topic
	ok(r.CreateTopic(r.topic, 1, nil))
	member := r.sharer(map[string]string{
		"errors.deadletterqueue.topic.name":         letters,
		"errors.deadletterqueue.copy.record.enable": "true",
	})
	get(r.Produce(r.topic, []Record{{Key: "bad", Value: "bad"}}, Producing{}))
	for delivery := int32(1); delivery <= limit; delivery++ {
		came := r.shared(member, "bad")
		check(came == delivery, "it came for the time %d, not %d", came, delivery)
		ok(member.Release())
	}
	get(r.Produce(r.topic, []Record{{Key: "next", Value: "next"}}, Producing{}))
	r.shared(member, "next")
	ok(member.Accept())
	var written []string
	end := time.Now().Add(10 * quiet)
	r.until("a dead letter", func() bool {
		// A new leader looks at the state of the records when a member fetches there.
		values, _, err := member.Poll(pollTime)
		ok(err)
		check(!slices.Contains(values, "bad"), "it came again")
		if len(values) > 0 {
			ok(member.Accept())
		}
		written = r.valuesOf(letters, 1, ReadUncommitted)
		return len(written) > 1 || len(written) == 1 && time.Now().After(end)
	})
	ok(member.Close())
	r.counts["letters"] = written
	r.counts["outcome"] = map[int]string{1: "survives", 2: "twice"}[len(written)]
}

// storyStableOffsets: a member copies records and leaves; the next one asks for the offsets while markers are written.
func (r *run) storyStableOffsets() {
	r.topics()
	first := get(r.Copier(r.topic, r.group, r.transactionalID))
	get(r.Produce(r.topic, []Record{{Key: "copy", Value: "copy"}}, Producing{}))
	check(get(first.Copy(r.consume(first), r.output(), true)), "the transaction is not committed")
	ok(first.Close())
	second := get(r.Copier(r.topic, r.group, r.transactionalID+"-2"))
	for end := time.Now().Add(2 * quiet); time.Now().Before(end); {
		again := get(second.Poll(pollTime, 1))
		check(len(again) == 0, "a record came twice: %v", again)
	}
	get(r.Produce(r.topic, []Record{{Key: "next", Value: "next"}}, Producing{}))
	next := r.consume(second)
	check(next[0].Value == "next", "after the copied record came %v", next)
	r.counts["outcome"] = "survives"
	ok(second.Close())
}

// storyLate: the application gives up on a record that is on its way, and aborts; somebody else writes the next one.
func (r *run) storyLate() {
	r.topics()
	producer := get(r.Transactional(r.transactionalID, usualTimeout))
	impatient, can := producer.(Impatient)
	if !can {
		ok(errors.ErrUnsupported)
	}
	ok(producer.Begin())
	err := impatient.SendAndGiveUp(r.topic, Record{Key: "late", Value: "late"}, storyTimeout)
	check(err != nil, "the record was written")
	r.counts["refused"], r.counts["outcome"] = err.Error(), "aborts"
	if err := producer.Abort(); err != nil {
		r.counts["then"], r.counts["outcome"] = err.Error(), "ends"
	}
	time.Sleep(time.Second)
	get(r.Produce(r.topic, []Record{{Key: "next", Value: "next"}}, Producing{}))
	r.counts["written"] = r.values(r.topic, ReadUncommitted)
	r.counts["committed"] = r.values(r.topic, ReadCommitted)
}
