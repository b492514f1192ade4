package scenarios

import (
	"crypto/tls"
	"crypto/x509"
	"os"
)

// Security is how a client gets in where the broker asks who it is (SASL_SSL).
type Security struct {
	TLS                *tls.Config
	Mechanism          string // PLAIN or SCRAM-SHA-512
	Username, Password string
}

// Secured is what the environment says of it; nil: nobody is asked.
func Secured() *Security {
	file, asked := os.LookupEnv("CLIENT_SSL_CA")
	if !asked {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(get(os.ReadFile(file))) {
		panic("no certificate in " + file)
	}
	return &Security{
		&tls.Config{RootCAs: pool},
		os.Getenv("CLIENT_SASL_MECHANISM"), os.Getenv("CLIENT_SASL_USERNAME"), os.Getenv("CLIENT_SASL_PASSWORD"),
	}
}
