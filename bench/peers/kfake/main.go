// kfake, the broker stub of franz-go, as a process: kfake PORT; or kfake clusters, which makes one cluster after the other:
// for each line of input it ends the one before and prints the address of the next.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"
)

// The admin client of Java cannot read what kfake answers CreateTopics from version 5 on: it gives no configs there.
// All other requests are served in all their versions.
const createTopics, withoutConfigs, keys, newest = 19, 4, 128, 127

func start(more ...kfake.Opt) *kfake.Cluster {
	versions := new(kversion.Versions)
	for key := range int16(keys) {
		versions.SetMaxKeyVersion(key, newest)
	}
	versions.SetMaxKeyVersion(createTopics, withoutConfigs)
	options := []kfake.Opt{kfake.NumBrokers(1), kfake.DefaultNumPartitions(1), kfake.AllowAutoTopicCreation(), kfake.MaxVersions(versions)}
	cluster, err := kfake.NewCluster(append(options, more...)...)
	if err != nil {
		panic(err)
	}
	return cluster
}

func clusters() {
	var cluster *kfake.Cluster
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if cluster != nil {
			cluster.Close()
		}
		cluster = start()
		fmt.Println(cluster.ListenAddrs()[0])
	}
}

func main() {
	if os.Args[1] == "clusters" {
		clusters()
		return
	}
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	cluster := start(kfake.Ports(port))
	for {
		time.Sleep(time.Second)
		cluster.ApplyRetention() // which it does only when asked
	}
}
