package local

import (
	"math"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// fillSampling takes the settings of the client, otherwise those that the model's authors recommend,
// otherwise the library's defaults (docs/sampling.md).
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
	request.Seed = client.Seed
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
