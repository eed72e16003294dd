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

// recommends reports whether the directory of a model recommends sampling settings. A file without do_sample,
// which the library treats as greedy, does not count: clients of this interface expect sampling.
func recommends(directory string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(directory, "generation_config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var generation struct {
		DoSample bool `json:"do_sample"`
	}
	if err == nil {
		err = json.Unmarshal(text, &generation)
	}
	if err != nil {
		return false, fmt.Errorf("generation_config.json: %w", err)
	}
	return generation.DoSample, nil
}

// fillSampling takes the settings of the client, otherwise those that the model's authors recommend,
// otherwise the library's defaults.
func (m *model) fillSampling(request *quire.Request, client *server.Sampling) {
	if m.recommends {
		request.SamplingOfModel = m.model
	}
	request.Temperature = client.Temperature
	request.TopK = topK(client.TopK)
	request.TopP = value(client.TopP)
	request.MinP = value(client.MinP)
	request.RepetitionPenalty = value(client.RepetitionPenalty)
	request.FrequencyPenalty = value(client.FrequencyPenalty)
	request.PresencePenalty = value(client.PresencePenalty)
	request.LogitBias = client.LogitBias
	request.GuidanceScale, request.NegativePromptText = client.GuidanceScale, client.NegativePrompt
	request.RandomSeed = client.Seed == nil
	if client.Seed != nil {
		request.Seed = *client.Seed
	}
}

func value(number *float64) float64 {
	if number == nil {
		return 0
	}
	return *number
}

// topK returns 0, the default, if the client sets nothing. If the client wants all tokens, by 0 or by -1 as
// other servers accept, it returns more than any vocabulary has, since the default may be a smaller number.
func topK(value *int) int {
	switch {
	case value == nil:
		return 0
	case *value == 0 || *value == -1:
		return math.MaxInt32
	}
	return *value
}
