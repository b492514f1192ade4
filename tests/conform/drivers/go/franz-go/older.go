//go:build older

package main

import "github.com/twmb/franz-go/pkg/kgo"

func init() { delete(settings, "group.protocol") }

func protocol(string) kgo.Opt { return kgo.DisableAutoCommit() }

// within: v1.10.4 knows classic groups alone.
func within(mode string) kgo.Opt {
	if mode == "consumer" {
		panic(Unsupported("franz-go v1.10.4 knows classic groups only"))
	}
	return kgo.DisableAutoCommit()
}
