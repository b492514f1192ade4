// Package odradek gives each Go test a fresh Kafka cluster whose races it can arrange.
//
//	func TestLostAnswer(t *testing.T) {
//		cluster := odradek.New(t, odradek.Options{Topics: []string{"orders"}})
//		cluster.Arm(odradek.Rule{Match: odradek.Match{"api": "END_TXN"}, Act: odradek.Act{"disconnect": "after"}, Expect: odradek.Hits(1)})
//		// a client of cluster.Bootstrap commits; the test fails at its end if the rule was not hit
//	}
//
// A test that fails logs what its cluster knew: what is stuck and why, its newest events, and a file with all of them.
// The hub is the one that ODRADEK_HUB names; without it `odradek hub` is started, and ends with the tests.
package odradek

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Options of a new cluster, as POST /clusters takes them; what is left out has its default.
type Options struct {
	Brokers            int            `json:"brokers,omitempty"`
	Topics             []string       `json:"topics,omitempty"`
	Story              string         `json:"story,omitempty"` // one of docs/stories, with its rules and its cluster
	From               string         `json:"from,omitempty"`  // a snapshot of the hub: the cluster is a fork, and goes on from there
	Config             map[string]any `json:"config,omitempty"`
	AsKafka            string         `json:"as_kafka,omitempty"`
	Dialect            string         `json:"dialect,omitempty"`
	TransactionVersion *int           `json:"transaction_version,omitempty"`
	Seed               *int           `json:"seed,omitempty"`

	Security string            `json:"security,omitempty"` // ssl, sasl-plaintext or sasl-ssl
	Users    map[string]string `json:"users,omitempty"`    // passwords, where clients log in; else one user is made up
}

// Match, When, Act, Step and Expect are the parts of a rule, with the fields of docs/rules.md.
type (
	Match  map[string]any
	When   map[string]any
	Act    map[string]any
	Step   map[string]any
	Expect map[string]any
)

// Rule says what happens to which requests, and how often that is expected.
type Rule struct {
	Name   string `json:"name,omitempty"`
	Match  Match  `json:"match,omitempty"`
	When   When   `json:"when,omitempty"`
	Act    Act    `json:"act,omitempty"`
	Then   []Step `json:"then,omitempty"`
	Expect Expect `json:"expect,omitempty"`
}

// Report is what a rule has seen.
type Report struct {
	Name    string  `json:"name"`
	Matched int     `json:"matched"`
	Hits    int     `json:"hits"`
	Held    int     `json:"held"`
	Unmet   *string `json:"unmet"`
}

// Hits expects exactly so many hits, AtLeast so many or more.
func Hits(n int) Expect    { return Expect{"hits": n} }
func AtLeast(n int) Expect { return Expect{"at_least": n} }

// Cluster is one of the hub; it is removed when its test ends.
type Cluster struct {
	ID        string `json:"id"`
	Bootstrap string `json:"bootstrap"`
	Access    Access `json:"access"`
	hub       *hub
	t         testing.TB
}

// Access is what a client needs to get into a cluster with security; certificates are PEM.
type Access struct {
	CA          string            `json:"ca"`          // what clients trust
	Certificate string            `json:"certificate"` // key and certificate of a client, where nobody logs in
	Mechanism   string            `json:"mechanism"`
	Users       map[string]string `json:"users"`
}

// New makes a cluster for this test, which fails at its end if a rule has not seen what it expects.
func New(t testing.TB, options Options) *Cluster {
	t.Helper()
	hub, err := theHub()
	if err != nil {
		t.Fatal(err)
	}
	cluster := &Cluster{hub: hub, t: t}
	if err := hub.call("POST", "/clusters", options, cluster); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		t.Helper()
		if !t.Failed() {
			cluster.Verify()
		}
		if t.Failed() {
			t.Log(cluster.Why())
		}
		if err := hub.call("DELETE", cluster.path(), nil, nil); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

// Seeds are the addresses of the brokers, one by one.
func (c *Cluster) Seeds() []string { return strings.Split(c.Bootstrap, ",") }

// Snapshot keeps the state of the cluster at this moment under a name, for Options.From; it outlives the cluster.
func (c *Cluster) Snapshot(name string) {
	c.t.Helper()
	c.do("POST", c.path("snapshots"), map[string]string{"name": name}, nil)
}

// Arm applies a rule to the requests that are read from now on; its name is that of the report.
func (c *Cluster) Arm(rule Rule) Report {
	c.t.Helper()
	var reports []Report
	c.do("POST", c.path("rules"), rule, &reports)
	return reports[0]
}

// Rule is what a rule has seen so far.
func (c *Cluster) Rule(name string) (report Report) {
	c.t.Helper()
	c.do("GET", c.path("rules", name), nil, &report)
	return report
}

// Release serves the requests that a rule holds.
func (c *Cluster) Release(name string) {
	c.t.Helper()
	c.do("POST", c.path("rules", name, "release"), nil, nil)
}

// Disarm applies a rule no longer, and serves what it holds.
func (c *Cluster) Disarm(name string) {
	c.t.Helper()
	c.do("DELETE", c.path("rules", name), nil, nil)
}

// Verify fails the test with a sentence for each rule that has not seen what it expects.
func (c *Cluster) Verify() {
	c.t.Helper()
	var verdict struct{ Unmet []string }
	c.do("POST", c.path("verify"), nil, &verdict)
	for _, unmet := range verdict.Unmet {
		c.t.Error(unmet)
	}
}

// Why says what is stuck in the cluster and what holds it, its newest events, and the path of a file with all of them,
// in the folder that ODRADEK_EVENTS_DIR names or in a temporary one. A test that fails logs it at its end.
func (c *Cluster) Why() string {
	var why struct{ Sentences, Events []string }
	if err := c.hub.call("GET", c.path("why"), nil, &why); err != nil {
		return "odradek: what is stuck cannot be told: " + err.Error()
	}
	lines := append([]string{"odradek"}, why.Sentences...)
	lines = append(lines, "The newest events (the brokers' clock, UTC):")
	for _, event := range why.Events {
		lines = append(lines, "  "+event)
	}
	file, err := c.writeEvents()
	if err != nil {
		file = "they cannot be written: " + err.Error()
	}
	return strings.Join(append(lines, "All events: "+file), "\n")
}

func (c *Cluster) writeEvents() (string, error) {
	var lines []string
	if err := c.hub.call("GET", c.path("events", "lines"), nil, &lines); err != nil {
		return "", err
	}
	folder := os.Getenv("ODRADEK_EVENTS_DIR")
	if folder != "" {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return "", err
		}
	}
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune("/\\*", r) {
			return '_'
		}
		return r
	}, c.t.Name())
	file, err := os.CreateTemp(folder, name+"-*.jsonl")
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(strings.Join(lines, "\n") + "\n")
	return file.Name(), errors.Join(err, file.Close())
}

// Wait returns when what it names is so, as in docs/hub.md; else the test fails with what came nearest.
//
//	cluster.Wait("transaction", map[string]any{"id": "till-1", "state": "CompleteCommit"})
func (c *Cluster) Wait(what string, condition map[string]any) {
	c.t.Helper()
	c.do("POST", c.path("wait"), map[string]any{what: condition}, nil)
}

// Advance lets so much time pass at once for the brokers.
func (c *Cluster) Advance(by time.Duration) {
	c.t.Helper()
	c.do("POST", c.path("time"), map[string]any{"advance_ms": by.Milliseconds()}, nil)
}

// Post does anything else that the hub can: Post(nil, nil, "brokers", "1", "stop").
func (c *Cluster) Post(body, answer any, parts ...string) {
	c.t.Helper()
	c.do("POST", c.path(parts...), body, answer)
}

// Get reads anything of the cluster's state: Get(&view, "transactions", "till-1").
func (c *Cluster) Get(answer any, parts ...string) {
	c.t.Helper()
	c.do("GET", c.path(parts...), nil, answer)
}

func (c *Cluster) do(method, path string, body, answer any) {
	c.t.Helper()
	if err := c.hub.call(method, path, body, answer); err != nil {
		c.t.Fatal(err)
	}
}

func (c *Cluster) path(parts ...string) string {
	path := "/clusters/" + c.ID
	for _, part := range parts {
		path += "/" + url.PathEscape(part)
	}
	return path
}

// ---------------------------------------------------------------------- the hub

type hub struct {
	url, token string
	// Its other end is the standard input of a hub that was started here, which ends when this process does.
	life io.WriteCloser
}

var theHub = sync.OnceValues(func() (*hub, error) {
	token := os.Getenv("ODRADEK_HUB_TOKEN")
	if named := os.Getenv("ODRADEK_HUB"); named != "" {
		return &hub{url: strings.TrimRight(named, "/"), token: token}, nil
	}
	folder, err := os.MkdirTemp("", "odradek-hub-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "url")
	words := []string{"hub", "--listen", "127.0.0.1:0", "--url-file", file, "--until-stdin-ends"}
	if recordings := os.Getenv("ODRADEK_RECORD_DIR"); recordings != "" {
		words = append(words, "--record", recordings)
	}
	command := exec.Command("odradek", words...)
	command.Stderr = os.Stderr
	life, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("no hub: ODRADEK_HUB names none, and `odradek hub` cannot be started: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for ends := time.Now().Add(30 * time.Second); time.Now().Before(ends); {
		if text, err := os.ReadFile(file); err == nil {
			return &hub{url: strings.TrimSpace(string(text)), token: token, life: life}, nil
		}
		select {
		case err := <-ended:
			return nil, fmt.Errorf("no hub: `odradek hub` has ended before it was ready: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil, fmt.Errorf("no hub: `odradek hub` was started, and was not ready within 30 s")
})

func (h *hub) call(method, path string, body, answer any) error {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequest(method, h.url+path, content)
	if err != nil {
		return err
	}
	if h.token != "" {
		request.Header.Set("Authorization", "Bearer "+h.token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 400 {
		var problem struct{ Detail, Field string }
		if err := json.NewDecoder(response.Body).Decode(&problem); err != nil {
			return fmt.Errorf("%s %s: %s", method, path, response.Status)
		}
		return fmt.Errorf("%s %s: %s %s", method, path, problem.Field, problem.Detail)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}
