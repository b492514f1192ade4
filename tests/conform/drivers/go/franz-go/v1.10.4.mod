module odradek/tests/conform/drivers/franz-go

go 1.25

require (
	github.com/twmb/franz-go v1.10.4
)

require (
	github.com/klauspost/compress v1.15.12 // indirect
	github.com/pierrec/lz4/v4 v4.1.17 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.2.0 // indirect
	golang.org/x/crypto v0.3.0 // indirect
)

