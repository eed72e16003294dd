// fake_server serves the scripted engine on loopback, for tests with real clients. It prints its address.
//
//	fake_server [-delay TIME] [-key KEY] [HOST:PORT]
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"

	"quire.dev/quire-test/server/fake"
	"quire.dev/quire/server"
)

func main() {
	delay := flag.Duration("delay", 0, "time before each piece of an answer")
	key := flag.String("key", "", "key that clients need; none by default")
	flag.Parse()
	address := flag.Arg(0)
	if address == "" {
		address = "127.0.0.1:0"
	}
	config := &server.Config{Models: map[string]server.ModelConfig{"m": {Path: "fake"}, "other": {Path: "fake"}}}
	if *key != "" {
		sum := sha256.Sum256([]byte(*key))
		config.Keys = []server.Key{{SHA256: hex.EncodeToString(sum[:]), Owner: "reader"}}
	}
	if err := config.Check(); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	log.Fatal(http.Serve(listener, server.New(&fake.Engine{Delay: *delay}, config, server.NewLogger(nil))))
}
