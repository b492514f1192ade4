//go:build !older

package main

import "github.com/IBM/sarama"

func offsetsOfMember(producer sarama.AsyncProducer, topics map[string][]*sarama.PartitionOffsetMetadata, of *client) error {
	var instance *string
	if id := of.config.Consumer.Group.InstanceId; id != "" {
		instance = &id
	}
	return producer.AddOffsetsToTxnWithGroupMetadata(topics, sarama.NewConsumerGroupMetadataFromSession(of.session, of.group, instance))
}
