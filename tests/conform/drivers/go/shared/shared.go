package main

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Release is the version of a module that the program is linked with.
func Release(module string) string {
	build, _ := debug.ReadBuildInfo()
	for _, each := range build.Deps {
		if each.Path == module {
			return strings.TrimPrefix(each.Version, "v")
		}
	}
	return "unknown"
}

// Unsupported is something that a library cannot do.
func Unsupported(what string, about ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(what, about...), ErrUnsupported)
}

// Named keeps the clients of a driver.
type Named[T any] struct{ all sync.Map }

// Make says whether the client is new.
func (n *Named[T]) Make(name string) (*T, bool) {
	found, known := n.all.LoadOrStore(name, new(T))
	return found.(*T), !known
}

func (n *Named[T]) Get(name string) *T {
	found, known := n.all.Load(name)
	if !known {
		panic("no client " + name)
	}
	return found.(*T)
}

func (n *Named[T]) Forget(name string) { n.all.Delete(name) }

// Sent has a channel for each record that is on its way since the last flush.
type Sent []chan error

func (s *Sent) Expect() chan error {
	outcome := make(chan error, 1)
	*s = append(*s, outcome)
	return outcome
}

// Wait gives the first error.
func (s *Sent) Wait() (first error) {
	for _, outcome := range *s {
		if err := <-outcome; first == nil {
			first = err
		}
	}
	*s = nil
	return first
}

// Collect takes one record after another until there are enough or the time is over.
func Collect(most int, within time.Duration, next func(context.Context) (Record, error)) (records []Record, err error) {
	waiting, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for len(records) < most {
		record, err := next(waiting)
		if err != nil && waiting.Err() != nil {
			return records, nil
		} else if err != nil {
			return records, err
		}
		records = append(records, record)
	}
	return records, nil
}

// Read is a record as the judge gets it.
func Read(topic string, partition int32, offset int64, key, value []byte) Record {
	record := Record{PartitionOffset{topic, partition, offset}, nil, string(value)}
	if key != nil {
		text := string(key)
		record.Key = &text
	}
	return record
}

// At is the partition of a record, or -1.
func (r Request) At() int32 {
	if r.Partition == nil {
		return -1
	}
	return *r.Partition
}

// KeyBytes are nil without a key.
func (r Request) KeyBytes() []byte {
	if r.Key == nil {
		return nil
	}
	return []byte(*r.Key)
}

// Addresses of the brokers to begin with.
func Addresses(r Request) []string { return strings.Split(r.Bootstrap, ",") }

// Lacking is the error of a client that lacks a setting which a scenario needs.
func Lacking[S any](r Request, settings map[string]S) error {
	for _, key := range r.Needs {
		if _, known := settings[key]; !known {
			return Unsupported("the library has no %s", key)
		}
	}
	return nil
}

// Fill puts settings into the fields of a library's configuration. `fields` has, for each setting of the Java client, the
// paths of these fields; `words` has the library's values for texts: {"acks all": WaitForAll}.
func Fill(config map[string]any, into any, fields map[string]string, words map[string]any) {
	for key, value := range config {
		for _, path := range strings.Fields(fields[key]) {
			field := reflect.ValueOf(into)
			for _, name := range strings.Split(path, ".") {
				field = reflect.Indirect(field).FieldByName(name)
			}
			word, known := words[fmt.Sprintf("%s %v", key, value)]
			number, numeric := value.(float64)
			switch {
			case known:
				field.Set(reflect.ValueOf(word).Convert(field.Type()))
			case numeric && field.Type() == reflect.TypeFor[time.Duration]():
				field.Set(reflect.ValueOf(time.Duration(number) * time.Millisecond))
			default:
				field.Set(reflect.ValueOf(value).Convert(field.Type()))
			}
		}
	}
}
