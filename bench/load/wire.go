package main

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// conn is one blocking socket, or one with TLS, and what has been read from it.
type conn struct {
	fd         int
	secured    *tls.Conn
	buffer     []byte
	start, end int
	format     *kmsg.RequestFormatter
}

func dial(bootstrap string, secured bool) (*conn, error) {
	if secured {
		made, err := tls.Dial("tcp4", bootstrap, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return nil, err
		}
		return &conn{secured: made, buffer: make([]byte, 4<<20), format: formatter()}, nil
	}
	address, err := net.ResolveTCPAddr("tcp4", bootstrap)
	if err != nil {
		return nil, err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	to := &syscall.SockaddrInet4{Port: address.Port}
	copy(to.Addr[:], address.IP.To4())
	if err := syscall.Connect(fd, to); err != nil {
		return nil, err
	}
	patience := syscall.Timeval{Sec: 20}
	err = errors.Join(
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
		syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &patience),
		syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &patience))
	return &conn{fd: fd, buffer: make([]byte, 4<<20), format: formatter()}, err
}

func formatter() *kmsg.RequestFormatter {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("load"))
}

func (c *conn) read(into []byte) (int, error) {
	if c.secured != nil {
		return c.secured.Read(into)
	}
	return syscall.Read(c.fd, into)
}

func (c *conn) write(data []byte) error {
	if c.secured != nil {
		_, err := c.secured.Write(data)
		return err
	}
	for len(data) > 0 {
		n, err := syscall.Write(c.fd, data)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// answers reads once and passes on every answer that is complete by then, at least one, without its length.
func (c *conn) answers(each func([]byte) error) (int, error) {
	count := 0
	for {
		for c.end-c.start >= 4 {
			size := int(binary.BigEndian.Uint32(c.buffer[c.start:]))
			if c.end-c.start < 4+size {
				break
			}
			if err := each(c.buffer[c.start+4 : c.start+4+size]); err != nil {
				return count, err
			}
			c.start += 4 + size
			count++
		}
		if c.start == c.end {
			c.start, c.end = 0, 0
		}
		if count > 0 {
			return count, nil
		}
		if c.end == len(c.buffer) || c.start > len(c.buffer)/2 {
			copy(c.buffer, c.buffer[c.start:c.end])
			c.start, c.end = 0, c.end-c.start
		}
		n, err := c.read(c.buffer[c.end:])
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, errors.New("the broker closed the connection")
		}
		c.end += n
	}
}

// ask sends one request and reads its answer.
func (c *conn) ask(request kmsg.Request) (kmsg.Response, error) {
	if err := c.write(c.format.AppendRequest(nil, request, 1)); err != nil {
		return nil, err
	}
	response := request.ResponseKind()
	response.SetVersion(request.GetVersion())
	_, err := c.answers(func(answer []byte) error {
		body := answer[4:]
		if request.IsFlexible() {
			body = answer[5:] // an empty tag section ends the header
		}
		return response.ReadFrom(body)
	})
	return response, err
}

func create(c *conn, o options) error {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Version, request.TimeoutMillis = 4, 20000 // the newest that kfake serves here
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = o.topic, int32(o.partitions), 1
	for pair := range strings.SplitSeq(o.configs, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			config := kmsg.NewCreateTopicsRequestTopicConfig()
			config.Name, config.Value = key, &value
			topic.Configs = append(topic.Configs, config)
		}
	}
	request.Topics = append(request.Topics, topic)
	response, err := c.ask(request)
	if err != nil {
		return err
	}
	if created := response.(*kmsg.CreateTopicsResponse).Topics[0]; created.ErrorCode != 0 {
		return fmt.Errorf("create answered error %d", created.ErrorCode)
	}
	return nil
}

func remove(c *conn, name string) error {
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.Version, request.TimeoutMillis, request.TopicNames = 4, 20000, []string{name}
	response, err := c.ask(request)
	if err != nil {
		return err
	}
	if removed := response.(*kmsg.DeleteTopicsResponse).Topics[0]; removed.ErrorCode != 0 {
		return fmt.Errorf("delete answered error %d", removed.ErrorCode)
	}
	return nil
}

// batch is a record batch as it goes into a Produce request.
type batch struct {
	bytes   []byte
	records int
}

func newBatch(recordBytes, moreBytes, batchBytes int) batch {
	text := []byte(strings.Repeat("odradek ", (recordBytes+moreBytes)/8+1))
	sizes := rand.New(rand.NewSource(1)) // the same in each run
	var records []byte
	count := 0
	for {
		value := text[:recordBytes+sizes.Intn(moreBytes+1)]
		if count > 0 && len(records)+len(value)+20+61 > batchBytes {
			break
		}
		body := []byte{0, 0} // attributes, timestamp delta
		body = binary.AppendVarint(body, int64(count))
		body = binary.AppendVarint(body, -1) // no key
		body = binary.AppendVarint(body, int64(len(value)))
		body = append(body, value...)
		body = append(body, 0) // no headers
		records = append(binary.AppendVarint(records, int64(len(body))), body...)
		count++
	}
	timestamp := time.Now().UnixMilli()
	whole := kmsg.RecordBatch{
		Length: int32(49 + len(records)), PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(count - 1),
		FirstTimestamp: timestamp, MaxTimestamp: timestamp, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(count), Records: records,
	}
	bytes := whole.AppendTo(nil)
	binary.BigEndian.PutUint32(bytes[17:], crc32.Checksum(bytes[21:], crc32.MakeTable(crc32.Castagnoli)))
	return batch{bytes, count}
}

// produceFrame gives the request of one batch (version 9, acks=all) and where its answer has the error code.
// The first answer is read as a whole, so that the others need not be.
func produceFrame(c *conn, name string, b batch) (frame []byte, errorAt int, err error) {
	request := kmsg.NewPtrProduceRequest()
	request.Version, request.Acks, request.TimeoutMillis = 9, -1, 20000
	topic, partition := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	topic.Topic, partition.Records = name, b.bytes
	topic.Partitions = append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	response, err := c.ask(request)
	for n := 0; n < 200 && err == nil && notYet(response.(*kmsg.ProduceResponse)); n++ {
		time.Sleep(50 * time.Millisecond)
		response, err = c.ask(request)
	}
	if err != nil {
		return nil, 0, err
	}
	topics := response.(*kmsg.ProduceResponse).Topics
	if len(topics) != 1 || len(topics[0].Partitions) != 1 || topics[0].Partitions[0].ErrorCode != 0 {
		return nil, 0, fmt.Errorf("produce answered %+v", topics)
	}
	// correlation id, tags, topics, name, partitions, index
	return c.format.AppendRequest(nil, request, 1), 4 + 1 + 1 + 1 + len(name) + 1 + 4, nil
}

// notYet tells whether the broker has not heard of the new topic: a controller answers before all brokers know.
func notYet(response *kmsg.ProduceResponse) bool {
	const unknownTopicOrPartition, notLeaderOrFollower = 3, 6
	code := response.Topics[0].Partitions[0].ErrorCode
	return code == unknownTopicOrPartition || code == notLeaderOrFollower
}

// fetching is a consumer of partition 0 that reads full answers of up to 1 MiB (version 11, no session).
type fetching struct {
	c                                      *conn
	frame                                  []byte
	offsetAt, errorAt, lengthAt, batchSize int
	recordsPerBatch                        int64
}

const mark = 0x0123456789abcdef // an offset to find again in the frame

func newFetching(c *conn, name string, b batch) (*fetching, error) {
	request := kmsg.NewPtrFetchRequest()
	request.Version, request.ReplicaID, request.MaxWaitMillis, request.MinBytes = 11, -1, 500, 1
	request.MaxBytes, request.SessionEpoch = 1<<20, -1
	topic, partition := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	topic.Topic, partition.FetchOffset, partition.PartitionMaxBytes, partition.CurrentLeaderEpoch = name, 0, 1<<20, -1
	topic.Partitions = append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	response, err := c.ask(request)
	if err != nil {
		return nil, err
	}
	topics := response.(*kmsg.FetchResponse).Topics
	if len(topics) != 1 || topics[0].Partitions[0].ErrorCode != 0 {
		return nil, fmt.Errorf("fetch answered %+v", topics)
	}
	records := topics[0].Partitions[0].RecordBatches
	const values = 61 + 8 // behind the header, which has other timestamps, and the first record's beginning
	if len(records) < len(b.bytes) || string(records[values:len(b.bytes)]) != string(b.bytes[values:]) {
		return nil, errors.New("what was fetched is not what was produced")
	}
	request.Topics[0].Partitions[0].FetchOffset = mark
	frame := c.format.AppendRequest(nil, request, 1)
	offsetAt := strings.Index(string(frame), string(binary.BigEndian.AppendUint64(nil, mark)))
	// correlation id, throttle, error, session, topics, name, partitions, index; error, three offsets, aborted, replica
	errorAt := 4 + 4 + 2 + 4 + 4 + 2 + len(name) + 4 + 4
	f := &fetching{c, frame, offsetAt, errorAt, errorAt + 2 + 24 + 4 + 4, len(b.bytes), int64(b.records)}
	f.seek(0)
	return f, nil
}

func (f *fetching) seek(offset int64) {
	binary.BigEndian.PutUint64(f.frame[f.offsetAt:], uint64(offset))
}

// next asks for the following records; the answer is the number of whole batches. After the last it starts again.
func (f *fetching) next() (batches int, err error) {
	if err := f.c.write(f.frame); err != nil {
		return 0, err
	}
	var highWatermark int64
	_, err = f.c.answers(func(answer []byte) error {
		if code := binary.BigEndian.Uint16(answer[f.errorAt:]); code != 0 {
			return fmt.Errorf("fetch answered error %d", code)
		}
		batches = int(int32(binary.BigEndian.Uint32(answer[f.lengthAt:]))) / f.batchSize
		highWatermark = int64(binary.BigEndian.Uint64(answer[f.errorAt+2:]))
		return nil
	})
	following := int64(binary.BigEndian.Uint64(f.frame[f.offsetAt:])) + int64(batches)*f.recordsPerBatch
	if following >= highWatermark || batches == 0 {
		following = 0
	}
	f.seek(following)
	return batches, err
}
