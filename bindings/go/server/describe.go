package server

import (
	"time"
)

// Describer is an optional interface of an Engine: what is known about a model without loading its weights.
type Describer interface {
	Describe(name string) (Description, error)
}

// Description describes a model of the configuration.
type Description struct {
	Architecture  string // as in config.json
	Family        string // model_type of config.json
	Format        string // of the files: "safetensors" or "gguf"
	Quantization  string // storage format of most weights, with the bits of a weight
	Parameters    int64
	Bytes         int64  // of all files
	Digest        string // SHA-256 of the names, sizes and times of the files
	Modified      time.Time
	ContextTokens int64
	Layers        int
	HiddenSize    int
	Heads         int
	KVHeads       int
	VocabSize     int
	Template      string
	Calls         bool // the model's dialect has tool calls
	Reasons       bool // the model may reason before its answer
	Infills       bool // its vocabulary has tokens for text between a prefix and a suffix

	Resident    bool
	DeviceBytes int64     // bytes of the weights on accelerators; 0 if it is not resident
	Expires     time.Time // time when the model will be unloaded if no request comes; zero if never
}

// describe returns the description of a model; of a model that cannot be read, what is known of it.
func (s *Server) describe(name string) Description {
	var description Description
	if describer, is := s.engine.(Describer); is {
		description, _ = describer.Describe(name) // the load reports what is wrong
	}
	if description.Modified.IsZero() {
		description.Modified = s.started
	}
	if limit := s.config.Load().Models[name].ContextTokens; limit > 0 && !description.Resident {
		description.ContextTokens = int64(limit)
	}
	return description
}
