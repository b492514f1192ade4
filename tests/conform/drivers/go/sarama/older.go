//go:build older

package main

import "github.com/IBM/sarama"

// offsetsOfMember: this release sends no generation and no member with offsets.
func offsetsOfMember(producer sarama.AsyncProducer, topics map[string][]*sarama.PartitionOffsetMetadata, of *client) error {
	return producer.AddOffsetsToTxn(topics, of.group)
}
