package main

import (
	"time"

	"github.com/IBM/sarama"
)

func milliseconds(value any) time.Duration { return time.Duration(value.(float64)) * time.Millisecond }

// settings are those of the Java client that sarama has.
var settings = map[string]func(*sarama.Config, any){
	"client.id":              func(c *sarama.Config, v any) { c.ClientID = v.(string) },
	"client.rack":            func(c *sarama.Config, v any) { c.RackID = v.(string) },
	"transactional.id":       func(c *sarama.Config, v any) { c.Producer.Transaction.ID, c.Producer.Idempotent = v.(string), true },
	"transaction.timeout.ms": func(c *sarama.Config, v any) { c.Producer.Transaction.Timeout = milliseconds(v) },
	"enable.idempotence":     func(c *sarama.Config, v any) { c.Producer.Idempotent = v.(bool) },
	"retries":                func(c *sarama.Config, v any) { c.Producer.Retry.Max = int(v.(float64)) },
	"retry.backoff.ms": func(c *sarama.Config, v any) {
		c.Producer.Retry.Backoff, c.Producer.Transaction.Retry.Backoff = milliseconds(v), milliseconds(v)
		c.Metadata.Retry.Backoff, c.Consumer.Retry.Backoff = milliseconds(v), milliseconds(v)
	},
	"linger.ms":           func(c *sarama.Config, v any) { c.Producer.Flush.Frequency = milliseconds(v) },
	"request.timeout.ms":  func(c *sarama.Config, v any) { c.Net.ReadTimeout = milliseconds(v) },
	"metadata.max.age.ms": func(c *sarama.Config, v any) { c.Metadata.RefreshFrequency = milliseconds(v) },
	"acks": func(c *sarama.Config, v any) {
		c.Producer.RequiredAcks = map[any]sarama.RequiredAcks{"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll, "-1": sarama.WaitForAll}[v]
	},
	"group.id":              func(*sarama.Config, any) {},
	"group.instance.id":     func(c *sarama.Config, v any) { c.Consumer.Group.InstanceId = v.(string) },
	"session.timeout.ms":    func(c *sarama.Config, v any) { c.Consumer.Group.Session.Timeout = milliseconds(v) },
	"heartbeat.interval.ms": func(c *sarama.Config, v any) { c.Consumer.Group.Heartbeat.Interval = milliseconds(v) },
	"fetch.max.wait.ms":     func(c *sarama.Config, v any) { c.Consumer.MaxWaitTime = milliseconds(v) },
	"isolation.level": func(c *sarama.Config, v any) {
		c.Consumer.IsolationLevel = map[any]sarama.IsolationLevel{"read_committed": sarama.ReadCommitted}[v]
	},
	"auto.offset.reset": func(c *sarama.Config, v any) {
		c.Consumer.Offsets.Initial = map[any]int64{"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest}[v]
	},
	"enable.auto.commit": func(c *sarama.Config, v any) { c.Consumer.Offsets.AutoCommit.Enable = v.(bool) },
}

// defaults: the newest versions of the protocol that the library knows, which it does not take by itself.
func defaults(clientID string) *sarama.Config {
	c := sarama.NewConfig()
	c.Version, c.ClientID = sarama.MaxVersion, clientID
	c.Net.MaxOpenRequests = 1 // the only value allowed with idempotence
	c.Producer.RequiredAcks, c.Producer.Return.Successes = sarama.WaitForAll, true
	c.Producer.Partitioner = func(topic string) sarama.Partitioner { return partitioner{sarama.NewHashPartitioner(topic)} }
	c.Consumer.Offsets.Initial, c.Consumer.Offsets.AutoCommit.Enable = sarama.OffsetOldest, false
	return c
}

// partitioner heeds the partition of a record that has one.
type partitioner struct{ sarama.Partitioner }

func (p partitioner) Partition(message *sarama.ProducerMessage, n int32) (int32, error) {
	if message.Partition >= 0 {
		return message.Partition, nil
	}
	return p.Partitioner.Partition(message, n)
}
