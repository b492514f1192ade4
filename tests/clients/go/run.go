package scenarios

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path"
	"runtime/debug"
	"time"
)

const (
	failed      = 1
	wrongUsage  = 2
	unsupported = 3
)

// options is the one argument style of all client programs: --name value.
type options struct {
	bootstrap, scenario, topic, group, transactionalID, compression string
	records, partitions, transactions, timeout                      int
}

// run is one playing of a scenario, with what it counts.
type run struct {
	Client
	options
	counts map[string]any
}

var scenarios = map[string]func(*run){
	"produce-consume":   (*run).produceConsume,
	"idempotent":        (*run).idempotent,
	"group":             (*run).rebalances,
	"consumer-protocol": (*run).consumerProtocol,
	"admin":             (*run).admin,
	"transactions":      (*run).transacts,
	"txn-offsets":       (*run).txnOffsets,
	"zombie":            (*run).zombie,
	"lost":              (*run).lost,
	"txn-timeout":       (*run).txnTimeout,

	"story-commit":          (*run).storyCommit,
	"story-restart":         (*run).storyRestart,
	"story-second-instance": (*run).storySecondInstance,
	"story-second-topic":    (*run).storySecondTopic,
	"story-timeout":         (*run).storyTimeout,
	"story-idle":            (*run).storyIdle,
	"story-offsets":         (*run).storyOffsets,
	"story-late-offsets":    (*run).storyLateOffsets,
	"story-stable-offsets":  (*run).storyStableOffsets,
	"story-late":            (*run).storyLate,
	"story-expired-member":  (*run).storyExpiredMember,
	"story-late-epoch":      (*run).storyLateEpoch,
	"story-migration":       (*run).storyMigration,
	"story-share-lock":      (*run).storyShareLock,
	"story-share-aborted":   (*run).storyShareAborted,

	"story-share-dead-letter": (*run).storyShareDeadLetter,
}

// Main plays the scenario that the command line names and ends the process. Flags of the family's own are parsed too,
// before it connects.
func Main(connect func(bootstrap string) (Client, error)) {
	o := parse()
	play := scenarios[o.scenario]
	if play == nil || o.bootstrap == "" {
		flag.Usage()
		os.Exit(wrongUsage)
	}
	r := run{options: o, counts: map[string]any{}}
	version := ""
	start := time.Now()
	err := attempt(func() {
		r.Client = get(connect(o.bootstrap))
		version = r.Version()
		play(&r)
	})
	result := map[string]any{
		"ok": err == nil, "client": version, "scenario": o.scenario, "counts": r.counts, "error": nil,
		"seconds":     math.Round(time.Since(start).Seconds()*1000) / 1000,
		"unsupported": errors.Is(err, errors.ErrUnsupported),
	}
	if err != nil {
		result["error"] = err.Error()
	}
	line, _ := json.Marshal(result)
	fmt.Println(string(line))
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		os.Exit(unsupported)
	case err != nil:
		os.Exit(failed)
	}
}

func parse() options {
	var o options
	flag.StringVar(&o.bootstrap, "bootstrap", "", "host:port")
	flag.StringVar(&o.scenario, "scenario", "", "what to play")
	flag.StringVar(&o.topic, "topic", "checked", "topic to create and use")
	flag.StringVar(&o.group, "group", "", "consumer group")
	flag.StringVar(&o.transactionalID, "transactional-id", "", "transactional id")
	flag.StringVar(&o.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	flag.IntVar(&o.records, "records", 1000, "records to write")
	flag.IntVar(&o.partitions, "partitions", 3, "partitions of the topic")
	flag.IntVar(&o.transactions, "transactions", 20, "transactions to make")
	flag.IntVar(&o.timeout, "timeout", 60, "seconds for each wait")
	flag.Parse()
	if o.group == "" {
		o.group = o.topic + "-group"
	}
	if o.transactionalID == "" {
		o.transactionalID = o.topic + "-id"
	}
	return o
}

// Release names a library and the version of it that this program was built with.
func Release(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return path.Base(module) + " " + dependency.Version
			}
		}
	}
	return path.Base(module)
}

// failure unwinds a scenario up to attempt.
type failure struct{ error }

// attempt gives the error that ok, get or check met.
func attempt(play func()) (err error) {
	defer func() {
		switch met := recover().(type) {
		case nil:
		case failure:
			err = met.error
		default:
			panic(met)
		}
	}()
	play()
	return nil
}

func ok(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func get[T any](value T, err error) T {
	ok(err)
	return value
}

func check(holds bool, message string, arguments ...any) {
	if !holds {
		panic(failure{fmt.Errorf(message, arguments...)})
	}
}

// until waits for a condition, as long as the options allow.
func (r *run) until(what string, holds func() bool) {
	for end := r.deadline(); !holds(); time.Sleep(20 * time.Millisecond) {
		check(time.Now().Before(end), "timed out waiting for %s", what)
	}
}

func (r *run) deadline() time.Time { return time.Now().Add(time.Duration(r.timeout) * time.Second) }
