package local

import (
	"errors"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// The log of the library: formats that were chosen, models that were evicted for others, prefixes that could not be
// written. Its lines become lines of the server's log.

var libraryLevels = map[quire.LogLevel]server.LogLevel{quire.LogError: server.LevelError,
	quire.LogWarning: server.LevelWarning, quire.LogInfo: server.LevelInfo, quire.LogDebug: server.LevelDebug}

// followLog starts to write the lines of the library.
func (e *Engine) followLog() error {
	queue, err := e.runtime.NewQueue()
	if err != nil {
		return err
	}
	e.library = queue
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		for {
			events, err := queue.Drain(e.ctx, maxBatch)
			if err != nil {
				if e.ctx.Err() == nil && !errors.Is(err, quire.CodeClosed) {
					e.log.Error("the log of the library is no longer followed", server.Fields{"error": err.Error()})
				}
				return
			}
			for _, event := range events {
				e.writeLine(&event)
			}
		}
	}()
	return nil
}

func (e *Engine) writeLine(event *quire.Event) {
	if event.Kind != quire.EventLog {
		return
	}
	e.log.Log(libraryLevels[event.LogLevel], event.Text, server.Fields{"source": "library"})
	if event.LostLines > 0 {
		e.log.Warn("lines of the library's log were lost", server.Fields{"lines": event.LostLines})
	}
}

// setLogLevel requests the lines that the server's log takes.
func (e *Engine) setLogLevel() {
	wanted := quire.LogError
	for theirs, ours := range libraryLevels {
		if ours >= e.log.Level() && theirs > wanted {
			wanted = theirs
		}
	}
	if err := e.library.SetLogLevel(wanted); err != nil {
		e.log.Error("the log of the library is not followed", server.Fields{"error": err.Error()})
	}
}
