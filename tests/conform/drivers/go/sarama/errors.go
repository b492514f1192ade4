package main

import (
	"errors"
	"fmt"

	"github.com/IBM/sarama"
)

// classed is an error with what the producer says of its state after it.
type classed struct {
	error
	class string
}

func (c *client) said(err error) error {
	class := "unknown"
	if err == nil || c.producer == nil {
		return err
	} else if c.producer.TxnStatus()&sarama.ProducerTxnFlagFatalError != 0 {
		class = "fatal"
	} else if c.producer.TxnStatus()&sarama.ProducerTxnFlagAbortableError != 0 {
		class = "abortable"
	}
	return classed{err, class}
}

func (f *family) Failure(err error) Failure {
	failure := Failure{fmt.Sprintf("%T", err), "unknown", err.Error()}
	if with, ok := err.(classed); ok {
		failure.Class, failure.Name = with.class, fmt.Sprintf("%T", with.error)
	}
	var code sarama.KError
	if errors.As(err, &code) {
		failure.Name = Name(int(code), code.Error())
	}
	return failure
}

func (c classed) Unwrap() error { return c.error }
