//go:build !older

package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

func within(members context.Context) kgo.Opt { return kgo.WithContext(members) }

func abandon(c *kgo.Client) { c.UnsafeAbortBufferedRecords() }
