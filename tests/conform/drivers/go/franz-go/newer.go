//go:build !older

package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// protocol is chosen by the context of the client.
func protocol(string) kgo.Opt { return kgo.WithContext(ctx) }

func within(mode string) kgo.Opt {
	return kgo.WithContext(context.WithValue(ctx, "opt_in_kafka_next_gen_balancer_beta", mode == "consumer")) //nolint:staticcheck // its name for it
}
