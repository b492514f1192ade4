// The plays of the suite for franz-go: plays each line of its input, `play=commit bootstrap=127.0.0.1:9092 topic=t …`,
// and answers it with one line of JSON. What each play checks is said in bench/suite/cases.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 60 * time.Second

// play is one test: its topic, and how much of what it is about.
type play struct {
	ctx                                        context.Context
	bootstrap, topic, group, id                string
	partitions, records, transactions, byteMin int
	compression                                string
	adm                                        *kadm.Client
}

var plays = map[string]func(*play){
	"roundtrip": (*play).roundtrip, "missing": (*play).missing, "resume": (*play).resume, "waiting": (*play).waiting,
	"commit": (*play).commit, "abort": (*play).abort, "copy": (*play).copy, "rebalance": (*play).rebalance,
	"fence": (*play).fence, "topics": (*play).topics, "records": (*play).offsets, "groups": (*play).groups,
}

var heartbeat = flag.Duration("heartbeat", 0, "heartbeat interval of members; 0 is the client's default")
var sooner = flag.Duration("metadata", 0, "least age of metadata; 0 is the client's default")

func main() {
	flag.Parse()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		line, _ := json.Marshal(answer(arguments(lines.Text())))
		fmt.Println(string(line))
	}
}

func arguments(line string) map[string]string {
	given := map[string]string{}
	for _, word := range strings.Fields(line) {
		name, value, _ := strings.Cut(word, "=")
		given[name] = value
	}
	return given
}

func answer(given map[string]string) (told map[string]any) {
	began := time.Now()
	told = map[string]any{"error": nil, "unsupported": false}
	defer func() {
		if failed := recover(); failed != nil {
			told["error"] = fmt.Sprint(failed)
		}
		told["seconds"] = time.Since(began).Seconds()
	}()
	number := func(name string) int {
		value, err := strconv.Atoi(given[name])
		if err != nil {
			return 1
		}
		return value
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := &play{
		ctx: ctx, bootstrap: given["bootstrap"], topic: given["topic"], group: given["topic"] + "-group",
		id: given["topic"] + "-id", partitions: number("partitions"), records: number("records"),
		transactions: number("transactions"), byteMin: number("bytes"), compression: given["compression"],
	}
	admin := p.client()
	defer admin.Close()
	p.adm = kadm.NewClient(admin)
	plays[given["play"]](p)
	return told
}

func ok(err error) {
	if err != nil {
		panic(err)
	}
}

func get[T any](value T, err error) T {
	ok(err)
	return value
}

func check(holds bool, message string, arguments ...any) {
	if !holds {
		panic(fmt.Sprintf(message, arguments...))
	}
}

// client has the client's own settings and these; records are sent to the partition that they name.
func (p *play) client(more ...kgo.Opt) *kgo.Client {
	options := []kgo.Opt{kgo.SeedBrokers(p.bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner())}
	codec := kgo.NoCompression()
	if p.compression == "gzip" {
		codec = kgo.GzipCompression()
	}
	options = append(options, kgo.ProducerBatchCompression(codec), kgo.AllowAutoTopicCreation())
	if *sooner > 0 {
		options = append(options, kgo.MetadataMinAge(*sooner))
	}
	return get(kgo.NewClient(append(options, more...)...))
}

// made gives the records of these numbers: number i goes to partition i % partitions.
func (p *play) made(topic string, from, to int) []*kgo.Record {
	var records []*kgo.Record
	for i := from; i < to; i++ {
		text := fmt.Sprintf("%d:", i)
		text += strings.Repeat("x", max(0, p.byteMin-len(text)))
		key := []byte(strconv.Itoa(i))
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(i % p.partitions), Key: key, Value: []byte(text)})
	}
	return records
}

func (p *play) create() {
	ok(get(p.adm.CreateTopics(p.ctx, int32(p.partitions), 1, nil, p.topic))[p.topic].Err)
}

func (p *play) produce(from, to int) {
	producer := p.client()
	defer producer.Close()
	ok(producer.ProduceSync(p.ctx, p.made(p.topic, from, to)...).FirstErr())
}

func byPartition(records []*kgo.Record) map[int32][]string {
	found := map[int32][]string{}
	for _, r := range records {
		found[r.Partition] = append(found[r.Partition], string(r.Key)+" "+string(r.Value))
	}
	return found
}

// expect: these records, in order within each partition, each unchanged.
func expect(found, wanted []*kgo.Record) {
	one, other := fmt.Sprint(byPartition(found)), fmt.Sprint(byPartition(wanted))
	check(one == other, "read %.250s, expected %.250s", one, other)
}

// take polls until so many records are there.
func (p *play) take(reader *kgo.Client, count int) []*kgo.Record {
	var found []*kgo.Record
	for len(found) < count {
		fetches := reader.PollFetches(p.ctx)
		for _, failed := range fetches.Errors() {
			ok(failed.Err)
		}
		found = append(found, fetches.Records()...)
	}
	return found
}

func (p *play) reader(topic string, isolation kgo.IsolationLevel) *kgo.Client {
	return p.client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(isolation), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
}

func (p *play) read(topic string, isolation kgo.IsolationLevel, wanted []*kgo.Record) {
	reader := p.reader(topic, isolation)
	defer reader.Close()
	expect(p.take(reader, len(wanted)), wanted)
}

// memberOptions are those of a member that commits when it is told to.
func (p *play) memberOptions(more ...kgo.Opt) []kgo.Opt {
	options := []kgo.Opt{
		kgo.ConsumerGroup(p.group), kgo.ConsumeTopics(p.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	}
	if *heartbeat > 0 {
		options = append(options, kgo.HeartbeatInterval(*heartbeat))
	}
	return append(options, more...)
}

// committed: the offsets of the group are behind the last of so many records.
func (p *play) committed(ends int) {
	found := get(p.adm.FetchOffsets(p.ctx, p.group))
	for at := range p.partitions {
		expected := int64((ends - at + p.partitions - 1) / p.partitions)
		offset, _ := found.Lookup(p.topic, int32(at))
		check(offset.At == expected || expected == 0, "committed %d of partition %d, expected %d", offset.At, at, expected)
	}
}

func (p *play) until(what string, holds func() bool) {
	for !holds() {
		check(p.ctx.Err() == nil, "timed out waiting until %s", what)
		time.Sleep(2 * time.Millisecond)
	}
}
