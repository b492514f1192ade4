package main

import (
	"errors"
	"maps"
	"slices"

	"odradek/scenarios"

	"github.com/IBM/sarama"
)

// failed makes an error of a code that may say that there was none.
func failed(code sarama.KError) error {
	if code == sarama.ErrNoError {
		return nil
	}
	return code
}

func (c *client) CreateTopic(topic string, partitions int, configs map[string]string) error {
	given := map[string]*string{}
	for name, value := range configs {
		given[name] = &value
	}
	detail := sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1, ConfigEntries: given}
	return c.admin.CreateTopic(topic, &detail, false)
}

func (c *client) DeleteTopic(topic string) error { return c.admin.DeleteTopic(topic) }

func (c *client) Topics() ([]string, error) {
	topics, err := c.admin.ListTopics()
	return slices.Collect(maps.Keys(topics)), err
}

func (c *client) InSync(topic string) ([]int, error) {
	described, err := c.admin.DescribeTopics([]string{topic})
	if err != nil {
		return nil, err
	}
	var inSync []int
	for _, partition := range described[0].Partitions {
		if partition.Leader >= 0 {
			inSync = append(inSync, len(partition.Isr))
		}
	}
	return inSync, failed(described[0].Err)
}

func (c *client) Config(topic, name string) (string, error) {
	resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{name}}
	entries, err := c.admin.DescribeConfig(resource)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		if entry.Name == name {
			return entry.Value, nil
		}
	}
	return "", errors.New("no " + name)
}

func (c *client) AlterConfig(topic, name, value string) error {
	change := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}
	changes := map[string]sarama.IncrementalAlterConfigsEntry{name: change}
	return c.admin.IncrementalAlterConfig(sarama.TopicResource, topic, changes, false)
}

func (c *client) CreatePartitions(topic string, total int) error {
	return c.admin.CreatePartitions(topic, int32(total), nil, false)
}

func (c *client) Offset(topic string, partition int32, at scenarios.Position) (int64, error) {
	time, options := sarama.OffsetNewest, sarama.ListOffsetsOptions{}
	switch at {
	case scenarios.Start:
		time = sarama.OffsetOldest
	case scenarios.Stable:
		options.IsolationLevel = sarama.ReadCommitted
	}
	listed, err := c.admin.ListOffsets(map[string]map[int32]int64{topic: {partition: time}}, &options)
	if err != nil {
		return 0, err
	}
	found := listed[topic][partition]
	if errors.Is(found.Err, sarama.ErrNoError) {
		return found.Offset, nil
	}
	return found.Offset, found.Err
}

func (c *client) DeleteRecords(topic string, partition int32, before int64) error {
	return c.admin.DeleteRecords(topic, map[int32]int64{partition: before})
}

func (c *client) Groups() ([]string, error) {
	groups, err := c.admin.ListConsumerGroups()
	return slices.Collect(maps.Keys(groups)), err
}

func (c *client) GroupState(group string) (string, error) {
	described, err := c.admin.DescribeConsumerGroups([]string{group})
	if err != nil {
		return "", err
	}
	return described[0].State, failed(described[0].Err)
}

func (c *client) GroupOffsets(group, topic string, partitions int) (map[int32]int64, error) {
	var wanted []int32
	for partition := range int32(partitions) {
		wanted = append(wanted, partition)
	}
	answer, err := c.admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: wanted})
	if errors.Is(err, sarama.ErrGroupIDNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, partition := range wanted {
		if block := answer.GetBlock(topic, partition); block != nil && block.Offset >= 0 {
			offsets[partition] = block.Offset
		}
	}
	return offsets, failed(answer.Err)
}

func (c *client) CommitOutside(group, topic string, partition int32, offset int64) error {
	at := map[string]map[int32]sarama.OffsetAndMetadata{topic: {partition: {Offset: offset, LeaderEpoch: -1}}}
	answer, err := c.admin.AlterConsumerGroupOffsets(group, at, nil)
	if err != nil {
		return err
	}
	return failed(answer.Errors[topic][partition])
}

func (c *client) DeleteGroup(group string) error { return c.admin.DeleteConsumerGroup(group) }

func (c *client) Brokers() (int, error) {
	brokers, _, err := c.admin.DescribeCluster()
	return len(brokers), err
}
