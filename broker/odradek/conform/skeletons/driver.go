// A driver for `odradek conform`: fill in the ten verbs and Failure; the loop at the end needs no change.
//
// A verb gives the error that the client gives; Failure gives that its name and class. Give ErrUnsupported, wrapped with
// fmt.Errorf("...: %w", ErrUnsupported), for something that the client cannot do.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"
)

var ErrUnsupported = errors.New("unsupported")

// Request has the fields of a request; those that it does not have are zero or nil.
type Request struct {
	ID        int64             `json:"id"`
	Verb      string            `json:"verb"`
	Client    string            `json:"client"`
	TimeoutMS *int64            `json:"timeout_ms"`
	Role      string            `json:"role"`
	Bootstrap string            `json:"bootstrap"`
	Config    map[string]any    `json:"config"` // by the names of the Java client; numbers are float64
	Needs     []string          `json:"needs"`
	Lazy      bool              `json:"lazy"`
	Topic     string            `json:"topic"`
	Value     string            `json:"value"`
	Key       *string           `json:"key"`
	Partition *int32            `json:"partition"`
	Wait      bool              `json:"wait"`
	Group     string            `json:"group"`
	Consumer  string            `json:"consumer"`
	Offsets   []PartitionOffset `json:"offsets"`
	Topics    []string          `json:"topics"`
	Mode      string            `json:"mode"` // classic or consumer (KIP-848)
	Max       *int              `json:"max"`
}

type PartitionOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

type Record struct {
	PartitionOffset
	Key   *string `json:"key,omitempty"`
	Value string  `json:"value"`
}

// Failure is an error as the judge reads it. Name: as in Kafka's table of errors (PRODUCER_FENCED). Class: what the client
// tells its user to do: retriable, abortable, fatal or unknown.
type Failure struct {
	Name    string `json:"name"`
	Class   string `json:"class"`
	Message string `json:"message"`
}

type Verbs interface {
	// About gives the name and the version of the library.
	About() (library, version string)
	// Failure gets the name of the client, and what its verb gave; a panic of your own code comes here as well, and standard
	// error has its stack.
	Failure(client string, err error) Failure
	// Init makes a client of the role producer or consumer. Needs: keys of the config without which the scenario has no
	// sense: unsupported if you lack one. A producer with a transactional.id initialises its transactions here, unless Lazy:
	// then at a second Init.
	Init(r Request) error
	Begin(r Request) error
	// Send waits, with Wait, for the acknowledgement, and gives where the record is.
	Send(r Request) (*PartitionOffset, error)
	// Flush waits for all that was sent, and gives the first error since the last Flush.
	Flush(r Request) error
	// SendOffsets: Consumer is the name of a client, or empty.
	SendOffsets(r Request) error
	// Commit ends the transaction; of a consumer, it commits its positions.
	Commit(r Request) error
	// Abort: records that it drops fail; the next Flush or Commit must not give their errors again.
	Abort(r Request) error
	Subscribe(r Request) error
	// Poll reads until there are `most` records or the time is over; no records are no error.
	Poll(r Request, most int, within time.Duration) ([]Record, error)
	// Close forgets the client; an open transaction is left as it is where the client can do that.
	Close(r Request) error
}

// ---- What you fill in -------------------------------------------------------------------------------------------------

type skeleton struct{}

func (skeleton) About() (string, string)                            { return "my-client", "0.0" }
func (skeleton) Init(Request) error                                 { return ErrUnsupported }
func (skeleton) Begin(Request) error                                { return ErrUnsupported }
func (skeleton) Send(Request) (*PartitionOffset, error)             { return nil, ErrUnsupported }
func (skeleton) Flush(Request) error                                { return ErrUnsupported }
func (skeleton) SendOffsets(Request) error                          { return ErrUnsupported }
func (skeleton) Commit(Request) error                               { return ErrUnsupported }
func (skeleton) Abort(Request) error                                { return ErrUnsupported }
func (skeleton) Subscribe(Request) error                            { return ErrUnsupported }
func (skeleton) Close(Request) error                                { return ErrUnsupported }
func (skeleton) Poll(Request, int, time.Duration) ([]Record, error) { return nil, ErrUnsupported }

func (skeleton) Failure(client string, err error) Failure {
	return Failure{"ERROR", "unknown", err.Error()}
}

var driver Verbs = skeleton{}

// ---- The loop: a request a line, an answer a line ---------------------------------------------------------------------

var verbs = []string{"init", "begin", "send", "flush", "send_offsets", "commit", "abort", "subscribe", "poll", "close"}

// The judge waits for 30 s, or 5 s beyond the timeout_ms of a request.
const patience, pollGrace = 25 * time.Second, 4 * time.Second

func main() {
	answers := json.NewEncoder(os.Stdout)
	os.Stdout = os.Stderr // what libraries print is no answer
	library, version := driver.About()
	about := map[string]any{"library": library, "version": version, "language": "go", "verbs": verbs}
	answers.Encode(map[string]any{"hello": about})
	requests := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var r Request
		if requests.Decode(&r) != nil {
			return
		}
		answers.Encode(answer(r))
	}
}

func answer(r Request) map[string]any {
	limit := patience
	if r.TimeoutMS != nil {
		limit = time.Duration(*r.TimeoutMS) * time.Millisecond
	}
	if r.Verb == "poll" {
		limit += pollGrace
	}
	answered := make(chan map[string]any, 1)
	go func() { answered <- call(r) }() // a call that never ends costs its request alone; it is not cancelled
	select {
	case answer := <-answered:
		return answer
	case <-time.After(limit):
		return map[string]any{"id": r.ID, "error": Failure{"TIMED_OUT", "unknown", "the client has not finished"}}
	}
}

func call(r Request) map[string]any {
	done, err := perform(r)
	switch {
	case errors.Is(err, ErrUnsupported):
		return map[string]any{"id": r.ID, "unsupported": err.Error()}
	case err != nil:
		return map[string]any{"id": r.ID, "error": driver.Failure(r.Client, err)}
	}
	return map[string]any{"id": r.ID, "done": done}
}

func perform(r Request) (done map[string]any, err error) {
	defer func() {
		if wrong := recover(); wrong != nil {
			if unsupported, ok := wrong.(error); ok && errors.Is(unsupported, ErrUnsupported) {
				err = unsupported
			} else {
				fmt.Fprintf(os.Stderr, "panic: %v\n%s", wrong, debug.Stack())
				err = fmt.Errorf("panic: %v", wrong)
			}
		}
	}()
	done = map[string]any{}
	switch r.Verb {
	case "send":
		at, err := driver.Send(r)
		if at != nil {
			done["partition"], done["offset"] = at.Partition, at.Offset
		}
		return done, err
	case "poll":
		most, within := 500, time.Duration(0)
		if r.Max != nil {
			most = *r.Max
		}
		if r.TimeoutMS != nil {
			within = time.Duration(*r.TimeoutMS) * time.Millisecond
		}
		records, err := driver.Poll(r, most, within)
		done["records"] = append([]Record{}, records...)
		return done, err
	}
	simple := map[string]func(Request) error{"init": driver.Init, "begin": driver.Begin, "flush": driver.Flush,
		"send_offsets": driver.SendOffsets, "commit": driver.Commit, "abort": driver.Abort, "subscribe": driver.Subscribe,
		"close": driver.Close}
	if simple[r.Verb] == nil {
		return nil, fmt.Errorf("no verb %s: %w", r.Verb, ErrUnsupported)
	}
	return done, simple[r.Verb](r)
}
