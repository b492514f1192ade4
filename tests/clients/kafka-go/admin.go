package main

import (
	"cmp"
	"errors"

	"odradek/scenarios"

	"github.com/segmentio/kafka-go"
)

func (c *client) CreateTopic(topic string, partitions int, configs map[string]string) error {
	config := kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}
	for name, value := range configs {
		config.ConfigEntries = append(config.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	answer, err := c.api.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (c *client) DeleteTopic(topic string) error {
	answer, err := c.api.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (c *client) Topics() ([]string, error) {
	answer, err := c.api.Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, topic := range answer.Topics {
		names = append(names, topic.Name)
	}
	return names, nil
}

func (c *client) InSync(topic string) ([]int, error) {
	answer, err := c.api.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return nil, err
	}
	var inSync []int
	for _, partition := range answer.Topics[0].Partitions {
		if partition.Leader.Host != "" {
			inSync = append(inSync, len(partition.Isr))
		}
	}
	return inSync, answer.Topics[0].Error
}

func (c *client) Config(topic, name string) (string, error) {
	answer, err := c.api.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{name},
		}},
	})
	if err != nil {
		return "", err
	}
	for _, entry := range answer.Resources[0].ConfigEntries {
		if entry.ConfigName == name {
			return entry.ConfigValue, nil
		}
	}
	return "", cmp.Or(answer.Resources[0].Error, errors.New("no "+name))
}

func (c *client) AlterConfig(topic, name, value string) error {
	set := kafka.IncrementalAlterConfigsRequestConfig{Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet}
	answer, err := c.api.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{set},
		}},
	})
	if err != nil {
		return err
	}
	return answer.Resources[0].Error
}

func (c *client) CreatePartitions(topic string, total int) error {
	answer, err := c.api.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: int32(total)}},
	})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (c *client) Offset(topic string, partition int32, at scenarios.Position) (int64, error) {
	wanted, isolation := kafka.LastOffsetOf(int(partition)), kafka.ReadUncommitted
	switch at {
	case scenarios.Start:
		wanted = kafka.FirstOffsetOf(int(partition))
	case scenarios.Stable:
		isolation = kafka.ReadCommitted
	}
	answer, err := c.api.ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{topic: {wanted}}, IsolationLevel: isolation,
	})
	if err != nil {
		return 0, err
	}
	found := answer.Topics[topic][0]
	if at == scenarios.Start {
		return found.FirstOffset, found.Error
	}
	return found.LastOffset, found.Error
}

func (c *client) Groups() ([]string, error) {
	answer, err := c.api.ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, group := range answer.Groups {
		names = append(names, group.GroupID)
	}
	return names, answer.Error
}

func (c *client) describe(group string) (kafka.DescribeGroupsResponseGroup, error) {
	answer, err := c.api.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return kafka.DescribeGroupsResponseGroup{}, err
	}
	return answer.Groups[0], answer.Groups[0].Error
}

func (c *client) GroupState(group string) (string, error) {
	described, err := c.describe(group)
	return described.GroupState, err
}

func (c *client) GroupOffsets(group, topic string, partitions int) (map[int32]int64, error) {
	var wanted []int
	for partition := range partitions {
		wanted = append(wanted, partition)
	}
	request := kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: wanted}}
	answer, err := c.api.OffsetFetch(ctx, &request)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, partition := range answer.Topics[topic] {
		err = cmp.Or(err, partition.Error)
		if partition.CommittedOffset >= 0 {
			offsets[int32(partition.Partition)] = partition.CommittedOffset
		}
	}
	return offsets, cmp.Or(answer.Error, err)
}

func (c *client) CommitOutside(group, topic string, partition int32, offset int64) error {
	answer, err := c.api.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: int(partition), Offset: offset}}},
	})
	if err != nil {
		return err
	}
	return answer.Topics[topic][0].Error
}

func (c *client) DeleteGroup(group string) error {
	answer, err := c.api.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return err
	}
	return answer.Errors[group]
}

func (c *client) Brokers() (int, error) {
	answer, err := c.api.Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return 0, err
	}
	return len(answer.Brokers), nil
}
