package main

import (
	"cmp"
	"context"
	"errors"

	"odradek/scenarios"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func (f *franz) CreateTopic(topic string, partitions int, configs map[string]string) error {
	given := map[string]*string{}
	for name, value := range configs {
		given[name] = &value
	}
	answers, err := f.adm.CreateTopics(ctx, int32(partitions), 1, given, topic)
	return cmp.Or(err, answers[topic].Err)
}

func (f *franz) DeleteTopic(topic string) error {
	answers, err := f.adm.DeleteTopics(ctx, topic)
	return cmp.Or(err, answers[topic].Err)
}

func (f *franz) Topics() ([]string, error) {
	topics, err := f.adm.ListTopics(ctx)
	return topics.Names(), err
}

func (f *franz) InSync(topic string) ([]int, error) {
	topics, err := f.adm.ListTopics(ctx, topic)
	var inSync []int
	for _, partition := range topics[topic].Partitions {
		if partition.Leader >= 0 {
			inSync = append(inSync, len(partition.ISR))
		}
	}
	return inSync, cmp.Or(err, topics[topic].Err)
}

func (f *franz) Config(topic, name string) (string, error) {
	described, err := f.adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return "", err
	}
	resource, err := described.On(topic, nil)
	for _, config := range resource.Configs {
		if config.Key == name {
			return config.MaybeValue(), cmp.Or(err, resource.Err)
		}
	}
	return "", cmp.Or(err, resource.Err, errors.New("no "+name))
}

func (f *franz) AlterConfig(topic, name, value string) error {
	change := kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value}
	answers, err := f.adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, topic)
	if err != nil {
		return err
	}
	return answers[0].Err
}

func (f *franz) CreatePartitions(topic string, total int) error {
	answers, err := f.adm.UpdatePartitions(ctx, total, topic)
	return cmp.Or(err, answers[topic].Err)
}

func (f *franz) Offset(topic string, partition int32, at scenarios.Position) (int64, error) {
	list := map[scenarios.Position]func(context.Context, ...string) (kadm.ListedOffsets, error){
		scenarios.Start:  f.adm.ListStartOffsets,
		scenarios.Stable: f.adm.ListCommittedOffsets,
		scenarios.End:    f.adm.ListEndOffsets,
	}[at]
	listed, err := list(ctx, topic)
	found, _ := listed.Lookup(topic, partition)
	return found.Offset, cmp.Or(err, found.Err)
}

func (f *franz) DeleteRecords(topic string, partition int32, before int64) error {
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, partition, before, -1)
	answers, err := f.adm.DeleteRecords(ctx, offsets)
	return cmp.Or(err, answers[topic][partition].Err)
}

func (f *franz) Groups() ([]string, error) {
	listed, err := f.adm.ListGroups(ctx)
	return listed.Groups(), err
}

func (f *franz) GroupState(group string) (string, error) {
	described, err := f.adm.DescribeGroups(ctx, group)
	return described[group].State, cmp.Or(err, described[group].Err)
}

func (f *franz) GroupOffsets(group, topic string, partitions int) (map[int32]int64, error) {
	committed, err := f.adm.FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	offsets := map[int32]int64{}
	for partition := range int32(partitions) {
		if at, known := committed.Lookup(topic, partition); known && at.At >= 0 {
			offsets[partition] = at.At
		}
	}
	return offsets, err
}

func (f *franz) CommitOutside(group, topic string, partition int32, offset int64) error {
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, partition, offset, -1)
	return f.adm.CommitAllOffsets(ctx, group, offsets)
}

func (f *franz) DeleteGroup(group string) error {
	answers, err := f.adm.DeleteGroups(ctx, group)
	return cmp.Or(err, answers[group].Err)
}

func (f *franz) Brokers() (int, error) {
	brokers, err := f.adm.ListBrokers(ctx)
	return len(brokers), err
}
