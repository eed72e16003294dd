package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"quire.dev/quire"
	"quire.dev/quire/server"
	"quire.dev/quire/server/local"
	"quire.dev/quire/server/otlp"
)

// service is the running server.
type service struct {
	args    *arguments
	started *server.Config // configuration of the start
	log     *server.Logger
	engine  *local.Engine
	handler *server.Server
	served  *http.Server
	signals chan os.Signal

	mutex  sync.Mutex      // guards pulled and orders changes of the configuration
	pulled map[string]bool // models that clients have pulled since the start
}

// serve runs the server until a signal ends it, and returns the exit status.
func serve(args *arguments, config *server.Config, log *server.Logger) int {
	s := &service{args: args, started: config, log: log, signals: make(chan os.Signal, 4), pulled: map[string]bool{}}
	// Subscribe first, so that no signal is lost during slow steps.
	signal.Notify(s.signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	listener, err := net.Listen("tcp", config.Listen)
	if err != nil {
		log.Error("the server cannot listen", server.Fields{"error": err.Error()})
		return exitFailure
	}
	if s.engine, err = local.New(config, log); err != nil {
		log.Error("the engine cannot start", server.Fields{"error": err.Error()})
		return exitFailure
	}
	s.handler = server.New(s.engine, config, log)
	s.handler.SetPuller(newPuller(s))
	if args.spans != nil {
		exporter := otlp.New(*args.spans)
		defer closeSpans(exporter)
		s.handler.Trace(exporter)
	}
	s.served = s.handler.HTTPServer()
	failed := make(chan error, 1)
	go func() { failed <- s.served.Serve(server.LimitConnections(listener, config.Limits.MaxConnections)) }()
	log.Info("listening", server.Fields{"address": listener.Addr().String(), "version": quire.LibraryVersion()})
	for {
		select {
		case err := <-failed:
			log.Error("the server stopped serving", server.Fields{"error": err.Error()})
			s.engine.Close()
			return exitFailure
		case got := <-s.signals:
			if got != syscall.SIGHUP {
				return s.stop()
			}
			s.reload()
		}
	}
}

// reload reads the configuration again. An invalid one changes nothing. Fields that only count at the start are
// logged if they have changed.
func (s *service) reload() {
	config, err := s.args.config()
	if err != nil {
		s.log.Error("the configuration is invalid; the old one stays in use", server.Fields{"error": err.Error()})
		return
	}
	for _, field := range config.NeedsRestart(s.started) {
		s.log.Warn("a field has changed, which takes effect at the next start", server.Fields{"field": field})
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for name := range s.pulled {
		if _, listed := config.Models[name]; !listed {
			config.Models[name] = pulledModel(name)
		}
	}
	s.handler.Configure(config)
	s.engine.Configure(config)
	s.log.Info("the configuration was reloaded", nil)
}

// addPulled serves a model of the hub's cache under its name.
func (s *service) addPulled(name string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.pulled[name] = true
	s.engine.Configure(s.handler.AddModel(name, pulledModel(name)))
}

func pulledModel(name string) server.ModelConfig { return server.ModelConfig{Path: name} }

// stop waits for running requests, up to the drain time of the configuration or until another signal.
func (s *service) stop() int {
	s.log.Info("stopping: waiting for running requests", nil)
	ctx, cancel := context.WithTimeout(context.Background(), s.handler.DrainTime())
	defer cancel()
	drained := make(chan error, 1)
	go func() {
		err := s.handler.Drain(ctx)
		if err == nil {
			err = s.served.Shutdown(ctx)
		}
		drained <- err
	}()
	for {
		select {
		case err := <-drained:
			if err != nil {
				return s.force("the drain time has passed")
			}
			s.engine.Close()
			s.log.Info("stopped", nil)
			return exitOK
		case got := <-s.signals:
			if got != syscall.SIGHUP {
				return s.force("a second signal")
			}
		}
	}
}

// closeSpans sends the remaining spans, but does not wait long for a collector that does not answer.
func closeSpans(exporter *otlp.Exporter) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	exporter.Close(ctx)
}

// Maximum time for the engine to end when it is forced.
const maxCloseTime = 5 * time.Second

// force ends the running requests.
func (s *service) force(why string) int {
	s.log.Warn("running requests are ended", server.Fields{"reason": why})
	_ = s.served.Close()
	closed := make(chan struct{})
	go func() {
		s.engine.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(maxCloseTime):
		s.log.Error("the engine does not stop: a step hangs", nil)
	}
	return exitForced
}
