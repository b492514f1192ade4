// A load generator that costs less than any broker: prebuilt frames over one blocking socket, no allocation in the loop.
//
//	load --bootstrap HOST:PORT --mode create|delete|produce|fetch --topic T ...
//
// It prints one line of JSON.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

type options struct {
	bootstrap, mode, topic, configs                                  string
	recordBytes, moreBytes, batchBytes, inflight, atMost, partitions int
	seconds, warmUp                                                  float64
	tls                                                              bool
}

func parse() options {
	var o options
	flag.StringVar(&o.bootstrap, "bootstrap", "127.0.0.1:9092", "address of the broker")
	flag.StringVar(&o.mode, "mode", "produce", "create, delete, produce or fetch")
	flag.StringVar(&o.topic, "topic", "load", "topic")
	flag.IntVar(&o.partitions, "partitions", 1, "partitions for create; all else uses the first")
	flag.StringVar(&o.configs, "configs", "", "configs for create: key=value,key=value")
	flag.IntVar(&o.recordBytes, "record-bytes", 100, "size of a record's value")
	flag.IntVar(&o.moreBytes, "more-bytes", 0, "values differ in size: each has up to so many bytes more")
	flag.IntVar(&o.batchBytes, "batch-bytes", 0, "records are put into a batch up to this size; 0: one record a batch")
	flag.IntVar(&o.inflight, "inflight", 1, "produce requests on the way at once")
	flag.Float64Var(&o.seconds, "seconds", 2, "time to measure")
	flag.Float64Var(&o.warmUp, "warm-up", 0, "seconds before the measurement")
	flag.IntVar(&o.atMost, "at-most-mib", 0, "ends earlier after so many MiB; 0: no limit")
	flag.BoolVar(&o.tls, "tls", false, "speak TLS, whoever the certificate is of")
	flag.Parse()
	return o
}

// result is what a measurement prints; times in milliseconds, one MB is 10^6 bytes of record batches.
type result struct {
	Requests          int     `json:"requests"`
	Seconds           float64 `json:"seconds"`
	RequestsPerSecond float64 `json:"requests_per_second"`
	RecordsPerSecond  float64 `json:"records_per_second"`
	MBPerSecond       float64 `json:"mb_per_second"`
	P50               float64 `json:"p50_ms"`
	P95               float64 `json:"p95_ms"`
	P99               float64 `json:"p99_ms"`
	Max               float64 `json:"max_ms"`
	OwnCPU            float64 `json:"own_cpu_share"` // of one core, by the generator itself
}

func main() {
	o := parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	c, err := dial(o.bootstrap, o.tls)
	if err != nil {
		return err
	}
	switch o.mode {
	case "create":
		return create(c, o)
	case "delete":
		return remove(c, o.topic)
	case "produce", "fetch":
	default:
		return errors.New("no mode " + o.mode)
	}
	// One thread that blocks in read and write: no scheduler, no collector between request and answer.
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	b := newBatch(o.recordBytes, o.moreBytes, o.batchBytes)
	play := produce
	if o.mode == "fetch" {
		play = fetch
	}
	if o.warmUp > 0 {
		if _, err := play(c, o, b, o.warmUp); err != nil {
			return err
		}
	}
	found, err := play(c, o, b, o.seconds)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

// meter collects the figures of one measurement.
type meter struct {
	start    time.Time
	cpu      time.Duration
	took     []time.Duration
	bytes    int
	records  int
	end      time.Time
	byteEnd  int
	finished bool
}

func newMeter(seconds float64, atMostMiB int) *meter {
	m := &meter{took: make([]time.Duration, 0, 4<<20), cpu: cpuTime(), start: time.Now()}
	m.end = m.start.Add(time.Duration(seconds * float64(time.Second)))
	m.byteEnd = atMostMiB << 20
	return m
}

func (m *meter) add(took time.Duration, bytes, records int, now time.Time) {
	m.took = append(m.took, took)
	m.bytes += bytes
	m.records += records
	m.finished = now.After(m.end) || m.byteEnd > 0 && m.bytes >= m.byteEnd
}

func (m *meter) result() result {
	elapsed := time.Since(m.start)
	own := cpuTime() - m.cpu
	slices.Sort(m.took)
	at := func(share float64) float64 {
		return float64(m.took[min(len(m.took)-1, int(share*float64(len(m.took))))].Microseconds()) / 1000
	}
	seconds := elapsed.Seconds()
	return result{
		Requests: len(m.took), Seconds: seconds, RequestsPerSecond: float64(len(m.took)) / seconds,
		RecordsPerSecond: float64(m.records) / seconds, MBPerSecond: float64(m.bytes) / 1e6 / seconds,
		P50: at(0.5), P95: at(0.95), P99: at(0.99), Max: at(1), OwnCPU: own.Seconds() / seconds,
	}
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// produce keeps the wanted number of identical requests on the way and checks the error code of each answer.
func produce(c *conn, o options, b batch, seconds float64) (result, error) {
	frame, errorAt, err := produceFrame(c, o.topic, b)
	if err != nil {
		return result{}, err
	}
	frames := []byte(strings.Repeat(string(frame), o.inflight))
	sent := make([]time.Time, o.inflight) // a ring: answers come in order
	m := newMeter(seconds, o.atMost)
	oldest, waiting, due := 0, 0, o.inflight
	for waiting+due > 0 {
		if due > 0 {
			now := time.Now()
			for n := range due {
				sent[(oldest+waiting+n)%o.inflight] = now
			}
			if err := c.write(frames[:due*len(frame)]); err != nil {
				return result{}, err
			}
			waiting, due = waiting+due, 0
		}
		answered, err := c.answers(func(answer []byte) error {
			if code := int16(answer[errorAt])<<8 | int16(answer[errorAt+1]); code != 0 {
				return fmt.Errorf("produce answered error %d", code)
			}
			return nil
		})
		if err != nil {
			return result{}, err
		}
		now := time.Now()
		for range answered {
			m.add(now.Sub(sent[oldest]), len(b.bytes), b.records, now)
			oldest = (oldest + 1) % o.inflight
			waiting--
		}
		if !m.finished {
			due = answered
		}
	}
	return m.result(), nil
}

// fetch reads 1 MiB at a time from the beginning to the end of the partition, and again.
func fetch(c *conn, o options, b batch, seconds float64) (result, error) {
	f, err := newFetching(c, o.topic, b)
	if err != nil {
		return result{}, err
	}
	m := newMeter(seconds, o.atMost)
	for !m.finished {
		before := time.Now()
		batches, err := f.next()
		if err != nil {
			return result{}, err
		}
		if batches > 0 {
			now := time.Now()
			m.add(now.Sub(before), batches*len(b.bytes), batches*b.records, now)
		}
	}
	return m.result(), nil
}
