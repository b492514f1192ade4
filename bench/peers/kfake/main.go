// kfake, the broker stub of franz-go, as a process: kfake PORT.
package main

import (
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	_ "github.com/twmb/franz-go/pkg/kversion" // holds its module at the release that kfake needs
)

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DefaultNumPartitions(1))
	if err != nil {
		panic(err)
	}
	for {
		time.Sleep(time.Second)
		cluster.ApplyRetention() // which it does only when asked
	}
}
