package server

import (
	"encoding/json"
	"net/http"
)

// ndjson writes one JSON object a line, as ollama's clients read streams. For one goroutine at a time.
type ndjson struct {
	w       http.ResponseWriter
	flusher http.Flusher
}

func newNDJSON(w http.ResponseWriter) *ndjson {
	return &ndjson{w, beginStream(w, "application/x-ndjson")}
}

func (n *ndjson) send(value interface{}) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return n.sendText(text)
}

func (n *ndjson) sendText(text []byte) error {
	_, err := n.w.Write(append(text, '\n'))
	if n.flusher != nil {
		n.flusher.Flush()
	}
	return err
}
