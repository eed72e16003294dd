package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// recommends tells whether the directory of a model says how to draw from it. One that does not speak of draws, which
// the library takes for greedy, says nothing: clients of this interface expect to sample.
func recommends(directory string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(directory, "generation_config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var says struct {
		DoSample bool `json:"do_sample"`
	}
	if err == nil {
		err = json.Unmarshal(text, &says)
	}
	if err != nil {
		return false, fmt.Errorf("generation_config.json: %w", err)
	}
	return says.DoSample, nil
}

// fillSampling takes what the client says, else what the model's authors recommend, else the library's own.
func (m *model) fillSampling(request *quire.Request, asked *server.Sampling) {
	if m.recommends {
		request.SamplingOfModel = m.model
	}
	request.Temperature = asked.Temperature
	request.TopK = topK(asked.TopK)
	request.TopP = value(asked.TopP)
	request.MinP = value(asked.MinP)
	request.RepetitionPenalty = value(asked.RepetitionPenalty)
	request.FrequencyPenalty = value(asked.FrequencyPenalty)
	request.PresencePenalty = value(asked.PresencePenalty)
	request.LogitBias = asked.LogitBias
	request.GuidanceScale, request.NegativePromptText = asked.GuidanceScale, asked.NegativePrompt
	request.RandomSeed = asked.Seed == nil
	if asked.Seed != nil {
		request.Seed = *asked.Seed
	}
}

func value(number *float64) float64 {
	if number == nil {
		return 0
	}
	return *number
}

// topK is 0, the default, where the client says nothing. Where it wants all tokens, by 0 or by -1, which other servers
// take for that, it is more than any vocabulary has, since the default may be another.
func topK(asked *int) int {
	switch {
	case asked == nil:
		return 0
	case *asked == 0 || *asked == -1:
		return math.MaxInt32
	}
	return *asked
}
