// Package scenarios plays the scenarios of the Go clients over the small interface that each family's program supplies.
package scenarios

import (
	"errors"
	"time"
)

// Record of a topic. What is still to be sent has no offset.
type Record struct {
	Partition  int32
	Offset     int64
	Key, Value string
}

// Isolation level of a consumer.
type Isolation int

const (
	ReadUncommitted Isolation = iota
	ReadCommitted
)

func (i Isolation) String() string { return [...]string{"read_uncommitted", "read_committed"}[i] }

// Position is a place in a partition that the broker can be asked for.
type Position int

const (
	Start  Position = iota
	Stable          // behind the last record that read_committed may see
	End
)

// Producing says how records are sent; acks is always all.
type Producing struct {
	Compression string // none, gzip, snappy, lz4 or zstd
	Idempotent  bool
	BatchBytes  int // at most so many in a batch; 0 means the client's default
}

// Reader reads all partitions of a topic from the beginning, outside any group.
type Reader interface {
	// Poll waits for the first records, at most so long.
	Poll(wait time.Duration) ([]Record, error)
	Close() error
}

// Member of a consumer group, which commits only when told to.
type Member interface {
	Reader
	Assigned() ([]int32, error)
	// Commit commits what was polled. A commit that comes too late for a rebalance is silently dropped.
	Commit() error
}

// Transactional producer whose transactional id has been initialised.
type Transactional interface {
	Begin() error
	// Send returns when all records are acknowledged.
	Send(topic string, records []Record) error
	Commit() error
	Abort() error
	Close() error
}

// Copier is a member of a group, reading committed records, and a transactional producer.
type Copier interface {
	Poll(wait time.Duration, most int) ([]Record, error)
	// Copy sends the records and the offsets behind them in one transaction. It tells whether that was committed;
	// if not, the same records are polled again.
	Copy(records []Record, topic string, commit bool) (committed bool, err error)
	Close() error
}

// Client is what a family supplies. A method that it has no means for returns errors.ErrUnsupported.
type Client interface {
	Version() string

	// Produce gives the offsets in the order of the records.
	Produce(topic string, records []Record, how Producing) ([]int64, error)
	Reader(topic string, partitions int, isolation Isolation) (Reader, error)
	Member(topic, group string) (Member, error)
	Transactional(id string, timeout time.Duration) (Transactional, error)
	Copier(topic, group, transactionalID string) (Copier, error)

	CreateTopic(topic string, partitions int, configs map[string]string) error
	DeleteTopic(topic string) error
	Topics() ([]string, error)
	// InSync gives the number of in-sync replicas of each partition that has a leader.
	InSync(topic string) ([]int, error)
	Config(topic, name string) (string, error)
	AlterConfig(topic, name, value string) error
	CreatePartitions(topic string, total int) error
	Offset(topic string, partition int32, at Position) (int64, error)
	DeleteRecords(topic string, partition int32, before int64) error
	Groups() ([]string, error)
	// GroupState gives the state as the broker names it.
	GroupState(group string) (string, error)
	// GroupOffsets gives the committed offsets; a partition without one is left out.
	GroupOffsets(group, topic string, partitions int) (map[int32]int64, error)
	CommitOutside(group, topic string, partition int32, offset int64) error
	DeleteGroup(group string) error
	Brokers() (int, error)
}

// Lacking is embedded by families that lack some of what a Client may have.
type Lacking struct{}

func (Lacking) Transactional(string, time.Duration) (Transactional, error) {
	return nil, errors.ErrUnsupported
}
func (Lacking) Copier(string, string, string) (Copier, error) { return nil, errors.ErrUnsupported }
func (Lacking) DeleteRecords(string, int32, int64) error      { return errors.ErrUnsupported }

// Inbox gathers what a client hands over in goroutines of its own.
type Inbox[T any] chan T

// Put waits until there is room, and is false if it was stopped first.
func (in Inbox[T]) Put(item T, stopped <-chan struct{}) bool {
	select {
	case in <- item:
		return true
	case <-stopped:
		return false
	}
}

// Take waits for the first item, at most so long, and takes what else is there.
func (in Inbox[T]) Take(wait time.Duration, most int) []T {
	var taken []T
	select {
	case first := <-in:
		taken = append(taken, first)
	case <-time.After(wait):
		return nil
	}
	for len(taken) < most {
		select {
		case next := <-in:
			taken = append(taken, next)
		default:
			return taken
		}
	}
	return taken
}
