//go:build older

package main

import (
	"context"
	"io"

	"odradek/scenarios"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// What v1.10.4 lacks: members that speak the protocol of KIP-848, and a way to give up on what is in flight.
// It logs in by PLAIN: its SCRAM needs a package more.

func login(s *scenarios.Security) sasl.Mechanism {
	return plain.Auth{User: s.Username, Pass: s.Password}.AsMechanism()
}

func within(context.Context) kgo.Opt {
	return kgo.WithLogger(kgo.BasicLogger(io.Discard, kgo.LogLevelNone, nil))
}

func abandon(*kgo.Client) {}
