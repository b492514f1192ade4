package main

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
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

// First is the first error since the last flush.
type First struct {
	mutex sync.Mutex
	err   error
}

func (f *First) Note(err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *First) Take() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	defer func() { f.err = nil }()
	return f.err
}

// Lacking is the error of a client that lacks a setting which a scenario needs.
func Lacking[S any](r Request, settings map[string]S) error {
	for _, key := range r.Needs {
		if _, known := settings[key]; !known {
			return fmt.Errorf("the library has no %s: %w", key, ErrUnsupported)
		}
	}
	return nil
}

// Text of a key, which may be null.
func Text(key []byte) *string {
	if key == nil {
		return nil
	}
	text := string(key)
	return &text
}

// Addresses of the brokers to begin with.
func Addresses(r Request) []string { return strings.Split(r.Bootstrap, ",") }
