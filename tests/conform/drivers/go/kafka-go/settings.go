package main

import (
	"time"

	"github.com/segmentio/kafka-go"
)

func milliseconds(value any) time.Duration { return time.Duration(value.(float64)) * time.Millisecond }

// settings are those of the Java client that kafka-go has.
var settings = map[string]func(*kafka.Writer, *kafka.ReaderConfig, any){
	"client.id": func(w *kafka.Writer, r *kafka.ReaderConfig, v any) {
		w.Transport, r.Dialer = &kafka.Transport{ClientID: v.(string)}, &kafka.Dialer{ClientID: v.(string), Timeout: 10 * time.Second}
	},
	"acks": func(w *kafka.Writer, _ *kafka.ReaderConfig, v any) {
		w.RequiredAcks = map[any]kafka.RequiredAcks{"0": kafka.RequireNone, "1": kafka.RequireOne, "all": kafka.RequireAll, "-1": kafka.RequireAll}[v]
	},
	"retries":              func(w *kafka.Writer, _ *kafka.ReaderConfig, v any) { w.MaxAttempts = int(v.(float64)) + 1 },
	"retry.backoff.ms":     func(w *kafka.Writer, _ *kafka.ReaderConfig, v any) { w.WriteBackoffMin = milliseconds(v) },
	"retry.backoff.max.ms": func(w *kafka.Writer, _ *kafka.ReaderConfig, v any) { w.WriteBackoffMax = milliseconds(v) },
	"linger.ms": func(w *kafka.Writer, _ *kafka.ReaderConfig, v any) {
		w.BatchTimeout = max(milliseconds(v), time.Millisecond)
	},
	"request.timeout.ms":    func(w *kafka.Writer, _ *kafka.ReaderConfig, v any) { w.WriteTimeout = milliseconds(v) },
	"group.id":              func(_ *kafka.Writer, r *kafka.ReaderConfig, v any) { r.GroupID = v.(string) },
	"session.timeout.ms":    func(_ *kafka.Writer, r *kafka.ReaderConfig, v any) { r.SessionTimeout = milliseconds(v) },
	"heartbeat.interval.ms": func(_ *kafka.Writer, r *kafka.ReaderConfig, v any) { r.HeartbeatInterval = milliseconds(v) },
	"fetch.max.wait.ms":     func(_ *kafka.Writer, r *kafka.ReaderConfig, v any) { r.MaxWait = milliseconds(v) },
	"isolation.level": func(_ *kafka.Writer, r *kafka.ReaderConfig, v any) {
		r.IsolationLevel = map[any]kafka.IsolationLevel{"read_committed": kafka.ReadCommitted}[v]
	},
	"auto.offset.reset": func(_ *kafka.Writer, r *kafka.ReaderConfig, v any) {
		r.StartOffset = map[any]int64{"earliest": kafka.FirstOffset, "latest": kafka.LastOffset}[v]
	},
}

// partition heeds the partition of a record that has one.
func partition(m kafka.Message, partitions ...int) int {
	if m.WriterData != nil {
		return m.WriterData.(int)
	}
	return (&kafka.Hash{}).Balance(m, partitions...)
}
