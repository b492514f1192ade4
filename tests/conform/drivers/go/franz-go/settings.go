package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type setting func(any) kgo.Opt

func duration[O kgo.Opt](set func(time.Duration) O) setting {
	return func(v any) kgo.Opt { return set(time.Duration(v.(float64)) * time.Millisecond) }
}

func text[O kgo.Opt](set func(string) O) setting {
	return func(v any) kgo.Opt { return set(v.(string)) }
}

func number[N int | int32 | int64, O kgo.Opt](set func(N) O) setting {
	return func(v any) kgo.Opt { return set(N(v.(float64))) }
}

func oneOf(options map[any]kgo.Opt) setting { return func(v any) kgo.Opt { return options[v] } }

func fixed(pause time.Duration) kgo.Opt {
	return kgo.RetryBackoffFn(func(int) time.Duration { return pause })
}

// settings are those of the Java client that franz-go has.
var settings = map[string]setting{
	"transactional.id": text(kgo.TransactionalID), "transaction.timeout.ms": duration(kgo.TransactionTimeout),
	"linger.ms": duration(kgo.ProducerLinger), "retries": number(kgo.RecordRetries), "retry.backoff.ms": duration(fixed),
	"delivery.timeout.ms": duration(kgo.RecordDeliveryTimeout), "batch.size": number(kgo.ProducerBatchMaxBytes),
	"request.timeout.ms": duration(kgo.RequestTimeoutOverhead), "metadata.max.age.ms": duration(kgo.MetadataMaxAge),
	"max.in.flight.requests.per.connection": number(kgo.MaxProduceRequestsInflightPerBroker),
	"client.id":                             text(kgo.ClientID), "client.rack": text(kgo.Rack), "group.id": text(kgo.ConsumerGroup),
	"group.instance.id": text(kgo.InstanceID), "session.timeout.ms": duration(kgo.SessionTimeout),
	"heartbeat.interval.ms": duration(kgo.HeartbeatInterval), "group.protocol": text(protocol),
	"acks":               oneOf(map[any]kgo.Opt{"0": kgo.RequiredAcks(kgo.NoAck()), "1": kgo.RequiredAcks(kgo.LeaderAck())}),
	"enable.idempotence": oneOf(map[any]kgo.Opt{false: kgo.DisableIdempotentWrite()}),
	"isolation.level":    oneOf(map[any]kgo.Opt{"read_committed": kgo.FetchIsolationLevel(kgo.ReadCommitted())}),
	"auto.offset.reset":  oneOf(map[any]kgo.Opt{"latest": kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd())}),
}

func options(config map[string]any) (chosen []kgo.Opt) {
	chosen = append(chosen, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for key, value := range config {
		if set := settings[key]; set != nil && set(value) != nil {
			chosen = append(chosen, set(value))
		}
	}
	return chosen
}

// partitioner heeds the partition of a record that has one.
var partitioner = kgo.BasicConsistentPartitioner(func(topic string) func(*kgo.Record, int) int {
	keyed := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
	return func(r *kgo.Record, n int) int {
		if r.Partition >= 0 {
			return int(r.Partition)
		}
		return keyed.Partition(r, n)
	}
})
