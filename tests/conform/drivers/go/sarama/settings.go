package main

import "github.com/IBM/sarama"

// Settings of the Java client that sarama has, and the fields that they are.
var settings = map[string]string{
	"client.id": "ClientID", "client.rack": "RackID", "transactional.id": "Producer.Transaction.ID",
	"transaction.timeout.ms": "Producer.Transaction.Timeout", "enable.idempotence": "Producer.Idempotent",
	"acks": "Producer.RequiredAcks", "retries": "Producer.Retry.Max", "linger.ms": "Producer.Flush.Frequency",
	"retry.backoff.ms":   "Producer.Retry.Backoff Producer.Transaction.Retry.Backoff Metadata.Retry.Backoff Consumer.Retry.Backoff",
	"request.timeout.ms": "Net.ReadTimeout", "metadata.max.age.ms": "Metadata.RefreshFrequency", "group.id": "",
	"group.instance.id": "Consumer.Group.InstanceId", "session.timeout.ms": "Consumer.Group.Session.Timeout",
	"heartbeat.interval.ms": "Consumer.Group.Heartbeat.Interval", "fetch.max.wait.ms": "Consumer.MaxWaitTime",
	"isolation.level": "Consumer.IsolationLevel", "auto.offset.reset": "Consumer.Offsets.Initial",
	"enable.auto.commit": "Consumer.Offsets.AutoCommit.Enable",
}

var words = map[string]any{
	"acks 0": sarama.NoResponse, "acks 1": sarama.WaitForLocal, "acks all": sarama.WaitForAll, "acks -1": sarama.WaitForAll,
	"isolation.level read_committed": sarama.ReadCommitted, "isolation.level read_uncommitted": sarama.ReadUncommitted,
	"auto.offset.reset earliest": sarama.OffsetOldest, "auto.offset.reset latest": sarama.OffsetNewest,
}

// configured with the newest versions of the protocol that the library knows, which it does not take by itself.
func configured(r Request) *sarama.Config {
	c := sarama.NewConfig()
	c.Version, c.ClientID = sarama.MaxVersion, r.Client
	c.Net.MaxOpenRequests = 1 // the only value allowed with idempotence
	c.Producer.RequiredAcks, c.Producer.Return.Successes = sarama.WaitForAll, true
	c.Producer.Partitioner = func(topic string) sarama.Partitioner { return partitioner{sarama.NewHashPartitioner(topic)} }
	c.Consumer.Offsets.Initial, c.Consumer.Offsets.AutoCommit.Enable = sarama.OffsetOldest, false
	Fill(r.Config, c, settings, words)
	c.Producer.Idempotent = c.Producer.Idempotent || c.Producer.Transaction.ID != ""
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
