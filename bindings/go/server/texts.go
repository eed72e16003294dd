package server

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math"
	"sync"
)

// Requests that generate nothing: embeddings and scores.

const maxInputs = 2048

// Number of inputs of one request that are computed at the same time.
const maxInputsAtOnce = 16

// eachInput processes the inputs of a request, several at a time, and adds up their usage. The first failure
// ends the others.
func eachInput(c *call, num int, work func(ctx context.Context, i int) (Usage, error)) (Usage, error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	var running sync.WaitGroup
	var mutex sync.Mutex
	var total Usage
	var failure error
	places := make(chan struct{}, maxInputsAtOnce)
	for i := 0; i < num && ctx.Err() == nil; i++ {
		places <- struct{}{}
		running.Add(1)
		go func(i int) {
			defer running.Done()
			usage, err := work(ctx, i)
			<-places
			mutex.Lock()
			defer mutex.Unlock()
			if err != nil && failure == nil {
				failure = err
				cancel()
			}
			total.Prompt += usage.Prompt
			total.Cached += usage.Cached
		}(i)
	}
	running.Wait()
	if failure == nil {
		failure = c.ctx.Err()
	}
	return total, failure
}

// embeddingsRequest is the body of /v1/embeddings.
type embeddingsRequest struct {
	Model          string         `json:"model"`
	Input          embeddingField `json:"input"`
	EncodingFormat string         `json:"encoding_format"`
	Dimensions     int            `json:"dimensions"`
	Priority       *int           `json:"priority"`
}

// inputNames has the names that the fields of a prompt have in requests without an answer.
var inputNames = map[string]string{"prompt": "input"}

func (s *Server) embeddings(c *call) error { return renamed(s.embed(c), inputNames) }

func (s *Server) embed(c *call) error {
	var request embeddingsRequest
	if err := c.read(&request); err != nil {
		return err
	}
	if request.Input.num() == 0 || request.Input.num() > maxInputs {
		return invalid("input", "input must be 1 to %d texts or lists of tokens", maxInputs)
	}
	if request.EncodingFormat != "" && request.EncodingFormat != "float" && request.EncodingFormat != "base64" {
		return invalid("encoding_format", "encoding_format must be float or base64, not %q", request.EncodingFormat)
	}
	s.fillModel(c, &request.Model)
	model, err := s.open(c, request.Model, request.Input.numBytes())
	if err != nil {
		return err
	}
	type item struct {
		Object    string      `json:"object"`
		Index     int         `json:"index"`
		Embedding interface{} `json:"embedding"`
	}
	data := make([]item, request.Input.num())
	usage, err := eachInput(c, len(data), func(ctx context.Context, i int) (Usage, error) {
		prompt, err := request.Input.prompt(model, i)
		if err != nil {
			return Usage{}, err
		}
		embedding, err := model.Embed(ctx, prompt, c.scheduling(request.Priority))
		if err != nil {
			return Usage{}, err
		}
		vector, err := shortened(embedding.Vector, request.Dimensions)
		if err != nil {
			return Usage{}, err
		}
		data[i] = item{"embedding", i, vector}
		if request.EncodingFormat == "base64" {
			data[i].Embedding = encodeFloats(vector)
		}
		return embedding.Usage, nil
	})
	if err != nil {
		return err
	}
	s.account(c, []Result{{Usage: usage}})
	return answer(c, map[string]interface{}{
		"object": "list", "model": request.Model, "data": data,
		"usage": map[string]int{"prompt_tokens": usage.Prompt, "total_tokens": usage.Prompt},
	})
}

// shortened keeps the first dimensions and scales the vector to length 1.
func shortened(vector []float32, dimensions int) ([]float32, error) {
	if dimensions == 0 {
		return vector, nil
	}
	if dimensions < 1 || dimensions > len(vector) {
		return nil, invalid("dimensions", "dimensions must be from 1 to %d, not %d", len(vector), dimensions)
	}
	var squares float64
	for _, x := range vector[:dimensions] {
		squares += float64(x) * float64(x)
	}
	out := make([]float32, dimensions)
	for i, x := range vector[:dimensions] {
		if squares > 0 {
			out[i] = float32(float64(x) / math.Sqrt(squares))
		}
	}
	return out, nil
}

func encodeFloats(vector []float32) string {
	bytes := make([]byte, 4*len(vector))
	for i, x := range vector {
		binary.LittleEndian.PutUint32(bytes[4*i:], math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(bytes)
}

// scoreRequest is the body of /v1/score.
type scoreRequest struct {
	Model    string      `json:"model"`
	Input    promptField `json:"input"`
	Priority *int        `json:"priority"`
}

// score answers how likely texts are: the log-probability of each token but the first, and their sum.
func (s *Server) score(c *call) error { return renamed(s.scoreInputs(c), inputNames) }

func (s *Server) scoreInputs(c *call) error {
	var request scoreRequest
	if err := c.read(&request); err != nil {
		return err
	}
	if len(request.Input) == 0 || len(request.Input) > maxInputs {
		return invalid("input", "input must be 1 to %d texts or lists of tokens", maxInputs)
	}
	s.fillModel(c, &request.Model)
	model, err := s.open(c, request.Model, request.Input.numBytes())
	if err != nil {
		return err
	}
	type item struct {
		Index    int       `json:"index"`
		Tokens   []int32   `json:"tokens"`
		LogProbs []float64 `json:"logprobs"`
		Sum      float64   `json:"score"`
	}
	data := make([]item, len(request.Input))
	usage, err := eachInput(c, len(data), func(ctx context.Context, i int) (Usage, error) {
		scores, err := model.Score(ctx, request.Input[i], c.scheduling(request.Priority))
		if err != nil {
			return Usage{}, err
		}
		data[i] = item{Index: i, Tokens: scores.Tokens, LogProbs: scores.LogProbs}
		for _, value := range scores.LogProbs {
			data[i].Sum += value
		}
		return scores.Usage, nil
	})
	if err != nil {
		return err
	}
	s.account(c, []Result{{Usage: usage}})
	return answer(c, map[string]interface{}{"object": "list", "model": request.Model, "data": data,
		"usage": map[string]int{"prompt_tokens": usage.Prompt, "total_tokens": usage.Prompt}})
}
