package local

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// sampling are the settings that generation_config.json recommends; nil where it says nothing.
type sampling struct {
	Temperature       *float64 `json:"temperature"`
	TopP              *float64 `json:"top_p"`
	TopK              *int     `json:"top_k"`
	MinP              *float64 `json:"min_p"`
	RepetitionPenalty *float64 `json:"repetition_penalty"`
}

// readSampling reads the recommendation of a model directory, of which there may be none.
func readSampling(directory string) (sampling, error) {
	var recommended sampling
	text, err := os.ReadFile(filepath.Join(directory, "generation_config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return recommended, nil
	}
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(&recommended)
	}
	if err != nil {
		return recommended, fmt.Errorf("generation_config.json: %w", err)
	}
	return recommended, nil
}

// fillSampling takes what the client says, else what the model's makers recommend, else the library's own.
func (m *model) fillSampling(request *quire.Request, asked *server.Sampling) {
	number := func(asked, recommended *float64) float64 {
		if asked == nil {
			asked = recommended
		}
		if asked == nil {
			return 0
		}
		return *asked
	}
	request.Temperature = asked.Temperature
	if request.Temperature == nil {
		request.Temperature = m.defaults.Temperature
	}
	topK := asked.TopK
	if topK == nil {
		topK = m.defaults.TopK
	}
	if topK != nil && *topK != -1 { // which other servers take for all
		request.TopK = *topK
	}
	request.TopP = number(asked.TopP, m.defaults.TopP)
	request.MinP = number(asked.MinP, m.defaults.MinP)
	request.RepetitionPenalty = number(asked.RepetitionPenalty, m.defaults.RepetitionPenalty)
	request.FrequencyPenalty = number(asked.FrequencyPenalty, nil)
	request.PresencePenalty = number(asked.PresencePenalty, nil)
	request.LogitBias = asked.LogitBias
	request.Seed = randomSeed()
	if asked.Seed != nil {
		request.Seed = *asked.Seed
	}
}

func randomSeed() uint64 {
	var bytes [8]byte
	_, _ = rand.Read(bytes[:])
	return binary.LittleEndian.Uint64(bytes[:])
}
