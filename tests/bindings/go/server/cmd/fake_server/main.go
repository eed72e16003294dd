// fake_server serves the scripted engine on loopback, for tests with real clients: fake_server HOST:PORT.
package main

import (
	"log"
	"net/http"
	"os"

	"quire.dev/quire-test/server/fake"
	"quire.dev/quire/server"
)

func main() {
	config := &server.Config{Models: map[string]server.ModelConfig{"m": {Path: "fake"}}}
	if err := config.Check(); err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(os.Args[1], server.New(&fake.Engine{}, config, server.NewLogger(nil))))
}
