package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"quire.dev/quire/server"
)

// Time that the command has to end after it was interrupted.
const pullEndTime = 10 * time.Second

// puller brings models with the command quire pull, one at a time, and adds them to the models of the service.
type puller struct {
	service *service
	turn    chan struct{} // holds one element while a model is brought
}

func newPuller(service *service) *puller { return &puller{service, make(chan struct{}, 1)} }

// Pull implements server.Puller.
func (p *puller) Pull(ctx context.Context, command, name string, progress func(server.PullProgress)) error {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := runPull(ctx, command, name, progress); err != nil {
		return err
	}
	p.service.addPulled(name)
	return nil
}

// runPull runs the command, which prints one JSON object a line: progress, and at last the result.
func runPull(ctx context.Context, path, name string, progress func(server.PullProgress)) error {
	command := exec.Command(path, "pull", "--json-lines", "--", name)
	var problems bytes.Buffer
	command.Stderr = &limitedWriter{&problems, 1 << 16}
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return pullFailure("pull_command cannot be run: " + err.Error())
	}
	ended := make(chan struct{})
	go interruptAtEnd(ctx, command.Process, ended)
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		var at server.PullProgress
		if json.Unmarshal(lines.Bytes(), &at) == nil && at.Total > 0 {
			progress(at)
		}
	}
	err = command.Wait()
	close(ended)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return pullFailure(lastLine(problems.String(), err.Error()))
	}
	return nil
}

// interruptAtEnd interrupts the command when ctx ends, and kills it if it does not end by itself.
func interruptAtEnd(ctx context.Context, process *os.Process, ended chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	_ = process.Signal(os.Interrupt)
	select {
	case <-ended:
	case <-time.After(pullEndTime):
		_ = process.Kill()
	}
}

func pullFailure(message string) error {
	return &server.Failure{Status: http.StatusBadGateway, Kind: "server_error", Code: "pull_failed", Message: message}
}

// lastLine returns the last line of the command's messages without the name of the command.
func lastLine(text, otherwise string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return strings.TrimPrefix(last, "quire: ")
	}
	return otherwise
}

// limitedWriter keeps the first bytes and drops the rest.
type limitedWriter struct {
	buffer *bytes.Buffer
	left   int
}

func (w *limitedWriter) Write(text []byte) (int, error) {
	kept := text
	if len(kept) > w.left {
		kept = kept[:w.left]
	}
	w.left -= len(kept)
	w.buffer.Write(kept)
	return len(text), nil
}
