package server

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Fields holds the further fields of a log line.
type Fields map[string]interface{}

// LogLevel is the level of a log line; a level includes those after it.
type LogLevel int32

// Levels of the log.
const (
	LevelDebug LogLevel = iota
	LevelInfo
	LevelWarning
	LevelError
)

var levelNames = [...]string{"debug", "info", "warning", "error"}

// ParseLogLevel returns the level of a name; "" is info.
func ParseLogLevel(name string) (LogLevel, error) {
	if name == "" {
		return LevelInfo, nil
	}
	for level, known := range levelNames {
		if name == known {
			return LogLevel(level), nil
		}
	}
	return LevelInfo, fmt.Errorf("must be debug, info, warning or error, not %q", name)
}

// Logger writes one JSON object per line. No line contains the text of a prompt or an answer. Safe for
// concurrent use.
type Logger struct {
	mu    sync.Mutex
	out   io.Writer
	level int32 // atomic; lines of lower levels are not written
}

// NewLogger creates a logger that writes to out, or to standard error if out is nil. Its level is info.
func NewLogger(out io.Writer) *Logger {
	if out == nil {
		out = os.Stderr
	}
	return &Logger{out: out, level: int32(LevelInfo)}
}

// SetLevel changes the lowest level that is written.
func (l *Logger) SetLevel(level LogLevel) { atomic.StoreInt32(&l.level, int32(level)) }

// Level returns the lowest level that is written.
func (l *Logger) Level() LogLevel { return LogLevel(atomic.LoadInt32(&l.level)) }

// Debug, Info, Warn and Error write a line of their level.
func (l *Logger) Debug(message string, more Fields) { l.Log(LevelDebug, message, more) }
func (l *Logger) Info(message string, more Fields)  { l.Log(LevelInfo, message, more) }
func (l *Logger) Warn(message string, more Fields)  { l.Log(LevelWarning, message, more) }
func (l *Logger) Error(message string, more Fields) { l.Log(LevelError, message, more) }

// Log writes a line, without fields that are an empty text.
func (l *Logger) Log(level LogLevel, message string, more Fields) {
	if level < l.Level() {
		return
	}
	line := Fields{"time": time.Now().UTC().Format(time.RFC3339Nano), "level": levelNames[level], "message": message}
	for key, value := range more {
		if value != "" {
			line[key] = value
		}
	}
	text, err := json.Marshal(line)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.out.Write(append(text, '\n'))
}
