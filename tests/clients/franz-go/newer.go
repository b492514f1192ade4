//go:build !older

package main

import (
	"context"
	"errors"
	"time"

	"odradek/scenarios"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func login(s *scenarios.Security) sasl.Mechanism {
	if s.Mechanism == "SCRAM-SHA-512" {
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha512Mechanism()
	}
	return plain.Auth{User: s.Username, Pass: s.Password}.AsMechanism()
}

func within(members context.Context) kgo.Opt { return kgo.WithContext(members) }

func abandon(c *kgo.Client) { c.UnsafeAbortBufferedRecords() }

type sharer struct {
	c       *kgo.Client
	refused chan error
}

// Sharer is a member of a share group, which begins at the first record.
func (f *franz) Sharer(topic, group string, configs map[string]string) (scenarios.Sharer, error) {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	wanted := map[string]string{"share.auto.offset.reset": "earliest"}
	for name, value := range configs {
		wanted[name] = value
	}
	for name, value := range wanted {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value = name, kmsg.StringPtr(value)
		resource.Configs = append(resource.Configs, config)
	}
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	plain, err := f.client()
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	answer, err := request.RequestWith(ctx, plain)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(answer.Resources[0].ErrorCode); err != nil {
		return nil, err
	}
	s := &sharer{refused: make(chan error, 100)}
	s.c, err = f.client(kgo.ShareGroup(group), kgo.ConsumeTopics(topic), kgo.ShareMaxRecordsStrict(),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) { s.refused <- results.Error() }))
	return s, err
}

func (s *sharer) Poll(wait time.Duration) (values []string, deliveries []int32, err error) {
	records, err := poll(wait, s.c.PollFetches)
	for _, record := range records {
		values, deliveries = append(values, string(record.Value)), append(deliveries, record.DeliveryCount())
	}
	return values, deliveries, err
}

func (s *sharer) Accept() error  { return s.acknowledge(kgo.AckAccept) }
func (s *sharer) Release() error { return s.acknowledge(kgo.AckRelease) }

func (s *sharer) acknowledge(status kgo.AckStatus) error {
	s.c.MarkAcks(status)
	if err := s.c.FlushAcks(ctx); err != nil {
		return err
	}
	var refused []error
	for {
		select {
		case err := <-s.refused:
			refused = append(refused, err)
		default:
			return errors.Join(refused...)
		}
	}
}

func (s *sharer) Close() error {
	s.c.Close()
	return nil
}
