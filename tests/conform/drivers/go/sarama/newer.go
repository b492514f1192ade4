//go:build !older

package main

import "github.com/IBM/sarama"

func offsetsOfMember(producer sarama.AsyncProducer, topics map[string][]*sarama.PartitionOffsetMetadata, session sarama.ConsumerGroupSession, group string) error {
	return producer.AddOffsetsToTxnWithGroupMetadata(topics, sarama.NewConsumerGroupMetadataFromSession(session, group, nil))
}
