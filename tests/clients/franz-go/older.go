//go:build older

package main

import (
	"context"
	"io"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What v1.10.4 lacks: members that speak the protocol of KIP-848, and a way to give up on what is in flight.

func within(context.Context) kgo.Opt {
	return kgo.WithLogger(kgo.BasicLogger(io.Discard, kgo.LogLevelNone, nil))
}

func abandon(*kgo.Client) {}
