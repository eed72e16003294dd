package local

import (
	"math"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// fillSampling takes each setting from the client. A setting that the client leaves out comes from the recommendation of
// the model's authors; if there is none, the library's default is used (docs/sampling.md).
func (m *model) fillSampling(request *quire.Request, client *server.Sampling) {
	if m.recommends {
		request.SamplingOfModel = m.model
	}
	request.Temperature = client.Temperature
	request.TopK = topK(client.TopK)
	request.TopP = set(client.TopP)
	request.MinP = set(client.MinP)
	request.RepetitionPenalty = set(client.RepetitionPenalty)
	request.FrequencyPenalty = set(client.FrequencyPenalty)
	request.PresencePenalty = set(client.PresencePenalty)
	request.LogitBias = client.LogitBias
	request.GuidanceScale, request.NegativePromptText = client.GuidanceScale, client.NegativePrompt
	request.Seed = client.Seed
	fillSamplers(request, &client.Samplers)
}

func fillSamplers(request *quire.Request, client *server.Samplers) {
	request.PenaltyRange = count(client.PenaltyRange)
	request.Typical = set(client.Typical)
	request.TopNSigma = set(client.TopNSigma)
	request.XtcProbability = set(client.XTCProbability)
	request.XtcThreshold = set(client.XTCThreshold)
	request.DryMultiplier = set(client.DRYMultiplier)
	request.DryBase = set(client.DRYBase)
	request.DryAllowedLength = count(client.DRYAllowedLength)
	request.DryRange = count(client.DRYRange)
	request.MirostatTau = set(client.MirostatTau)
	request.MirostatEta = set(client.MirostatEta)
	request.MinTemperature = set(client.MinTemperature)
	request.MaxTemperature = set(client.MaxTemperature)
	request.TemperatureExponent = set(client.TemperatureExponent)
}

// set returns the value of a setting, or 0, which leaves it at its default. A zero of the client must replace a
// default that is none, so it becomes the smallest number above it. The library computes with single precision, in
// which this number is zero.
func set(number *float64) float64 {
	switch {
	case number == nil:
		return 0
	case *number == 0:
		return math.SmallestNonzeroFloat64
	}
	return *number
}

func count(number *int) int {
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
