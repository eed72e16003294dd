package server

import (
	"context"
	"encoding/json"
	"time"
)

// Embeddings in ollama's format.

// ollamaEmbedRequest is the body of /api/embed.
type ollamaEmbedRequest struct {
	Model      string                     `json:"model"`
	Input      promptField                `json:"input"`
	Truncate   *bool                      `json:"truncate"` // default: true
	Dimensions int                        `json:"dimensions"`
	Options    map[string]json.RawMessage `json:"options"`
	KeepAlive  json.RawMessage            `json:"keep_alive"`
}

// ollamaEmbeddingsRequest is the body of the older /api/embeddings.
type ollamaEmbeddingsRequest struct {
	Model     string                     `json:"model"`
	Prompt    string                     `json:"prompt"`
	Options   map[string]json.RawMessage `json:"options"`
	KeepAlive json.RawMessage            `json:"keep_alive"`
}

func (s *Server) ollamaEmbed(c *call) error { return renamed(s.embedOllamaInputs(c), inputNames) }

func (s *Server) embedOllamaInputs(c *call) error {
	var request ollamaEmbedRequest
	if err := c.read(&request); err != nil {
		return err
	}
	if len(request.Input) > maxInputs {
		return invalid("input", "input must be at most %d texts", maxInputs)
	}
	vectors, usage, loading, err := s.embedOllama(c, &request)
	if err != nil {
		return err
	}
	return answer(c, map[string]interface{}{"model": request.Model, "embeddings": vectors,
		"total_duration": time.Since(c.began), "load_duration": loading, "prompt_eval_count": usage.Prompt})
}

func (s *Server) ollamaEmbeddings(c *call) error {
	var request ollamaEmbeddingsRequest
	if err := c.read(&request); err != nil {
		return err
	}
	list := ollamaEmbedRequest{Model: request.Model, Options: request.Options, KeepAlive: request.KeepAlive}
	if request.Prompt != "" {
		list.Input = promptField{{Text: request.Prompt}}
	}
	vectors, _, _, err := s.embedOllama(c, &list)
	if err != nil {
		return err
	}
	vector := []float32{}
	if len(vectors) > 0 {
		vector = vectors[0]
	}
	return answer(c, map[string][]float32{"embedding": vector})
}

// embedOllama computes a vector of length 1 for each input. Without inputs it only loads the model.
func (s *Server) embedOllama(c *call, request *ollamaEmbedRequest) ([][]float32, Usage, time.Duration, error) {
	if _, err := openAIOptions(request.Options); err != nil {
		return nil, Usage{}, 0, err
	}
	if _, err := keepAlive(request.KeepAlive); err != nil {
		return nil, Usage{}, 0, err
	}
	model, loading, err := s.openOllama(c, request.Model, request.Input.numBytes())
	if err != nil {
		return nil, Usage{}, 0, err
	}
	vectors := make([][]float32, len(request.Input))
	usage, err := eachInput(c, len(vectors), func(ctx context.Context, i int) (Usage, error) {
		input, err := request.cut(model, request.Input[i])
		if err != nil {
			return Usage{}, err
		}
		embedding, err := model.Embed(ctx, input, c.scheduling(nil))
		if err != nil {
			return Usage{}, err
		}
		dimensions := request.Dimensions
		if dimensions == 0 {
			dimensions = len(embedding.Vector)
		}
		vectors[i], err = shortened(embedding.Vector, dimensions)
		return embedding.Usage, err
	})
	if err == nil {
		s.account(c, []Result{{Usage: usage}})
	}
	return vectors, usage, loading, err
}

// cut returns an input without the tokens that exceed the context, unless the client forbids it.
func (r *ollamaEmbedRequest) cut(model Model, input Prompt) (Prompt, error) {
	if r.Truncate != nil && !*r.Truncate {
		return input, nil
	}
	tokens := input.Tokens
	if tokens == nil {
		var err error
		if tokens, err = model.Tokenize(input.Text, true); err != nil {
			return input, err
		}
	}
	if limit := model.Info().ContextTokens; len(tokens) > limit {
		return Prompt{Tokens: tokens[:limit]}, nil
	}
	return input, nil
}
