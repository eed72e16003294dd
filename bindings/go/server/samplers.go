package server

// samplerFields holds settings of samplers under llama.cpp's names.
type samplerFields struct {
	NumPredict         *int     `json:"n_predict"`
	NumCompletions     *int     `json:"n_cmpl"`
	RepeatPenalty      *float64 `json:"repeat_penalty"`
	RepeatLastN        *int     `json:"repeat_last_n"`
	TypicalP           *float64 `json:"typical_p"`
	TopNSigma          *float64 `json:"top_n_sigma"`
	XTCProbability     *float64 `json:"xtc_probability"`
	XTCThreshold       *float64 `json:"xtc_threshold"`
	DRYMultiplier      *float64 `json:"dry_multiplier"`
	DRYBase            *float64 `json:"dry_base"`
	DRYAllowedLength   *int     `json:"dry_allowed_length"`
	DRYPenaltyLastN    *int     `json:"dry_penalty_last_n"`
	Mirostat           *int     `json:"mirostat"`
	MirostatTau        *float64 `json:"mirostat_tau"`
	MirostatEta        *float64 `json:"mirostat_eta"`
	DynamicRange       *float64 `json:"dynatemp_range"`
	DynamicTemperature *float64 `json:"dynatemp_exponent"`
}

// newTokens returns the number of tokens to generate under OpenAI's or llama.cpp's name, which has -1 for the rest of
// the context; nil means that too.
func (f *samplerFields) newTokens(maxTokens *int) (*int, error) {
	if f.NumPredict != nil && *f.NumPredict == -1 {
		return maxTokens, nil
	}
	return either("max_tokens", maxTokens, "n_predict", f.NumPredict)
}

// fill adds the settings to those of the common fields.
func (f *samplerFields) fill(out *Sampling) error {
	out.Typical, out.XTCProbability, out.XTCThreshold = f.TypicalP, f.XTCProbability, f.XTCThreshold
	out.TopNSigma = f.TopNSigma
	if f.TopNSigma != nil && *f.TopNSigma < 0 { // -1 is off in llama.cpp
		out.TopNSigma = new(float64)
	}
	if f.TypicalP != nil && !(*f.TypicalP > 0 && *f.TypicalP <= 1) {
		return invalid("typical_p", "typical_p must be above 0 and at most 1, not %g", *f.TypicalP)
	}
	if err := f.fillPenalties(out); err != nil {
		return err
	}
	if err := f.fillMirostat(out); err != nil {
		return err
	}
	return f.fillDynamicTemperature(out)
}

// fillPenalties sets the ranges of penalties and DRY. A range of no token is a penalty that is off.
func (f *samplerFields) fillPenalties(out *Sampling) error {
	for name, tokens := range map[string]*int{"repeat_last_n": f.RepeatLastN, "dry_penalty_last_n": f.DRYPenaltyLastN} {
		if tokens != nil && *tokens < -1 {
			return invalid(name, "%s must be a number of tokens from 0 on, or -1 for all, not %d", name, *tokens)
		}
	}
	out.PenaltyRange = f.RepeatLastN
	if f.RepeatLastN != nil && *f.RepeatLastN == 0 {
		off := 1.0
		out.RepetitionPenalty, out.FrequencyPenalty, out.PresencePenalty = &off, new(float64), new(float64)
		out.PenaltyRange = nil
	}
	out.DRYMultiplier, out.DRYBase = f.DRYMultiplier, f.DRYBase
	out.DRYAllowedLength, out.DRYRange = f.DRYAllowedLength, f.DRYPenaltyLastN
	if f.DRYPenaltyLastN != nil && *f.DRYPenaltyLastN == 0 {
		out.DRYMultiplier, out.DRYRange = new(float64), nil
	}
	return nil
}

// Defaults of Mirostat in llama.cpp.
const (
	mirostatTau = 5.0
	mirostatEta = 0.1
)

// fillMirostat switches Mirostat 2 on or off; the settings alone do not switch it on.
func (f *samplerFields) fillMirostat(out *Sampling) error {
	if f.Mirostat == nil || *f.Mirostat == 0 {
		return nil
	}
	if *f.Mirostat != 2 {
		return invalid("mirostat", "mirostat must be 0 or 2, not %d", *f.Mirostat)
	}
	tau, eta := mirostatTau, mirostatEta
	out.MirostatTau, out.MirostatEta = &tau, &eta
	if f.MirostatTau != nil {
		tau = *f.MirostatTau
	}
	if f.MirostatEta != nil {
		eta = *f.MirostatEta
	}
	return nil
}

// fillDynamicTemperature sets the temperatures around that of the request.
func (f *samplerFields) fillDynamicTemperature(out *Sampling) error {
	if f.DynamicRange == nil || *f.DynamicRange == 0 {
		return nil
	}
	if *f.DynamicRange < 0 || out.Temperature == nil {
		return invalid("dynatemp_range", "dynatemp_range must be 0 or more, and needs a temperature to be around")
	}
	if *out.Temperature < 0.01 {
		return nil // the likeliest token is taken, whatever the range
	}
	const least = 0.01 // of the library
	min, max := *out.Temperature-*f.DynamicRange, *out.Temperature+*f.DynamicRange
	if min < least {
		min = least
	}
	out.MinTemperature, out.MaxTemperature, out.TemperatureExponent = &min, &max, f.DynamicTemperature
	return nil
}
