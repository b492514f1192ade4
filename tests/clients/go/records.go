package scenarios

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	pollTime  = 100 * time.Millisecond
	quietTime = 500 * time.Millisecond
)

var padding = strings.Repeat("x", 86)

// record i goes to partition i % partitions.
func (r *run) record(i int) Record {
	value := fmt.Sprintf("record-%06d-%s", i, padding)
	return Record{Partition: int32(i % r.partitions), Key: strconv.Itoa(i), Value: value}
}

// produce writes the records from..to; the offsets given back must follow one another.
func (r *run) produce(from, to int, how Producing) {
	var records []Record
	for i := from; i < to; i++ {
		records = append(records, r.record(i))
	}
	how.Compression = r.compression
	offsets := get(r.Produce(r.topic, records, how))
	check(len(offsets) == len(records), "produced %d of %d records", len(offsets), len(records))
	next := map[int32]int64{}
	for i, record := range records {
		expected, known := next[record.Partition]
		check(!known || offsets[i] == expected, "offset %d given in partition %d, expected %d",
			offsets[i], record.Partition, expected)
		next[record.Partition] = offsets[i] + 1
	}
}

// read gives the records by partition: the expected number, then waits half a second for those that should not come.
func (r *run) read(topic string, isolation Isolation, expected int) map[int32][]Record {
	reader := get(r.Reader(topic, r.partitions, isolation))
	found, count, quiet := map[int32][]Record{}, 0, false
	for end := r.deadline(); time.Now().Before(end); {
		if count >= expected && !quiet {
			quiet, end = true, time.Now().Add(quietTime)
		}
		for _, record := range get(reader.Poll(pollTime)) {
			found[record.Partition] = append(found[record.Partition], record)
			count++
		}
	}
	ok(reader.Close())
	check(count == expected, "read %d records %v, expected %d", count, isolation, expected)
	return found
}

// committedToTheEnd checks the group's offsets and gives them.
func (r *run) committedToTheEnd() map[int32]int64 {
	committed := get(r.GroupOffsets(r.group, r.topic, r.partitions))
	for partition := range int32(r.partitions) {
		end := get(r.Offset(r.topic, partition, End))
		at, known := committed[partition]
		check(known && at == end, "partition %d: committed %d (%v), expected %d", partition, at, known, end)
	}
	return committed
}
