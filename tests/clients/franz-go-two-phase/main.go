// Two-phase commit with franz-go: its own transactional producer prepares and is gone, another client of it asks with
// InitProducerId 6 to keep the transaction, ends it, and reads what is committed.
//
// kmsg has InitProducerId up to version 5, so version 6 is spelled out here; connections, ApiVersions, headers and all
// other requests are franz-go's.
//
//	program BOOTSTRAP TOPIC ID commit|abort
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const keepsSince = 6

var ctx, _ = context.WithTimeout(context.Background(), time.Minute)

// initKeeping is InitProducerId 6 with Enable2Pc and KeepPreparedTxn.
type initKeeping struct {
	version int16
	id      string
}

func (*initKeeping) Key() int16                  { return 22 }
func (*initKeeping) MaxVersion() int16           { return keepsSince }
func (r *initKeeping) SetVersion(version int16)  { r.version = version }
func (r *initKeeping) GetVersion() int16         { return r.version }
func (*initKeeping) IsFlexible() bool            { return true }
func (*initKeeping) ReadFrom([]byte) error       { return errors.New("only sent") }
func (*initKeeping) ResponseKind() kmsg.Response { return new(kept) }
func (r *initKeeping) AppendTo(to []byte) []byte {
	if r.version < keepsSince {
		panic(fmt.Sprintf("the broker has InitProducerId up to %d only", r.version))
	}
	to = append(binary.AppendUvarint(to, uint64(len(r.id)+1)), r.id...)
	to = binary.BigEndian.AppendUint32(to, 1<<31-1)
	to = binary.BigEndian.AppendUint64(to, 1<<64-1)
	to = binary.BigEndian.AppendUint16(to, 1<<16-1)
	return append(to, 1, 1, 0)
}

// kept is the answer to that.
type kept struct {
	version             int16
	Error               int16
	Producer, Ongoing   int64
	Epoch, OngoingEpoch int16
}

func (*kept) Key() int16                 { return 22 }
func (*kept) MaxVersion() int16          { return keepsSince }
func (r *kept) SetVersion(version int16) { r.version = version }
func (r *kept) GetVersion() int16        { return r.version }
func (*kept) IsFlexible() bool           { return true }
func (*kept) AppendTo(to []byte) []byte  { return to }
func (*kept) RequestKind() kmsg.Request  { return new(initKeeping) }
func (r *kept) ReadFrom(from []byte) error {
	if len(from) < 27 {
		return errors.New("short")
	}
	big := binary.BigEndian
	r.Error = int16(big.Uint16(from[4:]))
	r.Producer, r.Epoch = int64(big.Uint64(from[6:])), int16(big.Uint16(from[14:]))
	r.Ongoing, r.OngoingEpoch = int64(big.Uint64(from[16:])), int16(big.Uint16(from[24:]))
	return nil
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func client(bootstrap string, more ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.ProducerBatchCompression(kgo.NoCompression())}, more...)...)
	must(err)
	return cl
}

// prepare leaves a transaction open: what a store would remember of it.
func prepare(bootstrap, topic, id string) (int64, int16) {
	cl := client(bootstrap, kgo.TransactionalID(id), kgo.DefaultProduceTopic(topic))
	must(cl.BeginTransaction())
	for n := range 5 {
		must(cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint("prepared ", n))).FirstErr())
	}
	producer, epoch, err := cl.ProducerID(ctx)
	must(err)
	cl.Close()
	return producer, epoch
}

// recover keeps the transaction and ends it.
func recoverAs(bootstrap, id string, commit bool) *kept {
	// Beyond what franz-go takes for stable, for that ends at version 5.
	cl := client(bootstrap, kgo.MaxVersions(nil))
	defer cl.Close()
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorType, find.CoordinatorKey, find.CoordinatorKeys = 1, id, []string{id}
	found, err := find.RequestWith(ctx, cl)
	must(err)
	node := found.NodeID
	if len(found.Coordinators) > 0 {
		node = found.Coordinators[0].NodeID
	}
	coordinator := cl.Broker(int(node))
	answer, err := coordinator.Request(ctx, &initKeeping{id: id})
	must(err)
	now := answer.(*kept)
	must(kerr.ErrorForCode(now.Error))
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = id, now.Producer, now.Epoch, commit
	ended, err := coordinator.Request(ctx, end)
	must(err)
	must(kerr.ErrorForCode(ended.(*kmsg.EndTxnResponse).ErrorCode))
	return now
}

// read is what a read_committed consumer sees up to a record that is written last.
func read(bootstrap, topic string) int {
	cl := client(bootstrap, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DefaultProduceTopic(topic))
	defer cl.Close()
	must(cl.ProduceSync(ctx, kgo.StringRecord("last")).FirstErr())
	for seen := 0; ; {
		fetches := cl.PollFetches(ctx)
		must(fetches.Err())
		for _, record := range fetches.Records() {
			if string(record.Value) == "last" {
				return seen
			}
			seen++
		}
	}
}

func main() {
	bootstrap, topic, id, commit := os.Args[1], os.Args[2], os.Args[3], os.Args[4] == "commit"
	producer, epoch := prepare(bootstrap, topic, id)
	now := recoverAs(bootstrap, id, commit)
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"prepared": []int64{producer, int64(epoch)},
		"ongoing":  []int64{now.Ongoing, int64(now.OngoingEpoch)},
		"owner":    []int64{now.Producer, int64(now.Epoch)},
		"seen":     read(bootstrap, topic),
	})
}
