package server

// Answers of /completion and /infill.

// llamaPiece is a part of an answer.
type llamaPiece struct {
	Index           int           `json:"index"`
	Content         string        `json:"content"`
	Tokens          []int32       `json:"tokens"`
	Stop            bool          `json:"stop"`
	IDSlot          int           `json:"id_slot"` // there are no slots: -1
	TokensPredicted int           `json:"tokens_predicted"`
	TokensEvaluated int           `json:"tokens_evaluated"`
	Probabilities   []llamaLogPro `json:"completion_probabilities,omitempty"`
}

// llamaLogPro is the log-probability of a token and of the likeliest alternatives.
type llamaLogPro struct {
	llamaTokenProb
	Top []llamaTokenProb `json:"top_logprobs"`
}

// llamaWhole is a whole answer, or the last part of one.
type llamaWhole struct {
	llamaPiece
	Model        string                 `json:"model"`
	Prompt       string                 `json:"prompt"`
	Settings     map[string]interface{} `json:"generation_settings"`
	HasNewLine   bool                   `json:"has_new_line"`
	Truncated    bool                   `json:"truncated"` // a prompt that is too long is refused instead
	StopType     string                 `json:"stop_type"`
	StoppingWord string                 `json:"stopping_word"`
	TokensCached int                    `json:"tokens_cached"`
	Timings      *timings               `json:"timings"`
}

// llamaAnswer holds what the answers of one request have in common.
type llamaAnswer struct {
	request  *llamaRequest
	model    Model
	prompts  [][]int32
	settings map[string]interface{}
}

// llamaSettings returns the settings that count for an answer; those left to the model are absent.
func llamaSettings(request *llamaRequest, model Model, g *Generation) map[string]interface{} {
	settings := map[string]interface{}{"n_ctx": model.Info().ContextTokens, "n_predict": -1, "max_tokens": -1,
		"stop": append([]string{}, g.StopTexts...), "stream": request.Stream, "ignore_eos": g.IgnoreEOS, "n_probs": g.TopLogProbs,
		"grammar": g.Grammar, "logit_bias": llamaBiases(model, g)}
	if g.MaxNewTokens > 0 {
		settings["n_predict"], settings["max_tokens"] = g.MaxNewTokens, g.MaxNewTokens
	}
	for name, value := range map[string]*float64{"temperature": g.Temperature, "top_p": g.TopP, "min_p": g.MinP,
		"repeat_penalty": g.RepetitionPenalty, "presence_penalty": g.PresencePenalty, "frequency_penalty": g.FrequencyPenalty} {
		if value != nil {
			settings[name] = *value
		}
	}
	if g.TopK != nil {
		settings["top_k"] = *g.TopK
	}
	if g.Seed != nil {
		settings["seed"] = *g.Seed
	}
	return settings
}

// llamaLogProbsOf returns the log-probabilities of tokens.
func llamaLogProbsOf(entries []TokenLogProb) []llamaLogPro {
	var out []llamaLogPro
	for i := range entries {
		one := llamaLogPro{llamaTokenProbOf(&entries[i]), []llamaTokenProb{}}
		for j := range entries[i].Top {
			one.Top = append(one.Top, llamaTokenProbOf(&entries[i].Top[j]))
		}
		out = append(out, one)
	}
	return out
}

// whole returns the answer to one prompt from its text and its result.
func (a *llamaAnswer) whole(index int, content string, hasNewLine bool, result Result) (llamaWhole, error) {
	prompt, err := a.model.Detokenize(a.prompts[index])
	out := llamaWhole{Model: a.request.Model, Prompt: prompt, Settings: a.settings, HasNewLine: hasNewLine, StopType: "eos",
		StoppingWord: result.StopText, TokensCached: result.Usage.Cached, Timings: newTimings([]Result{result})}
	out.llamaPiece = llamaPiece{Index: index, Content: content, Tokens: []int32{}, Stop: true, IDSlot: -1,
		TokensPredicted: result.Usage.New, TokensEvaluated: result.Usage.Prompt}
	switch {
	case result.Finish == FinishLength:
		out.StopType = "limit"
	case result.StopText != "":
		out.StopType = "word"
	}
	return out, err
}

func (s *Server) wholeLlama(c *call, form *llamaAnswer, streams []Stream) error {
	gathered, err := gather(c, streams)
	if err != nil {
		return err
	}
	answers := make([]interface{}, len(gathered))
	for i, each := range gathered {
		content := each.content.String()
		whole, err := form.whole(i, content, hasNewLine(content), each.result)
		if err != nil {
			return err
		}
		whole.Probabilities, whole.Tokens = llamaLogProbsOf(each.logProbs), append(whole.Tokens, each.tokens...)
		if answers[i], err = form.request.reported(&whole); err != nil {
			return err
		}
	}
	s.account(c, resultsOf(gathered))
	if form.request.Prompt.isList {
		return answer(c, answers)
	}
	return answer(c, answers[0])
}

func hasNewLine(text string) bool {
	for i := range text {
		if text[i] == '\n' {
			return true
		}
	}
	return false
}

func (s *Server) streamLlama(c *call, form *llamaAnswer, streams []Stream) error {
	out := newSSE(c)
	results := make([]Result, len(streams))
	newLines := make([]bool, len(streams))
	predicted := make([]int, len(streams))
	err := c.relay(streams, c.heartbeat(), out.heartbeat, func(item indexed) error {
		index := item.choice
		if item.end {
			results[index] = item.result
			last, err := form.whole(index, "", newLines[index], item.result)
			if err != nil {
				return err
			}
			report, err := form.request.reported(&last)
			if err != nil {
				return err
			}
			return out.send("", report)
		}
		predicted[index] += len(item.piece.Tokens)
		newLines[index] = newLines[index] || hasNewLine(item.piece.Text)
		return out.send("", llamaPiece{Index: index, Content: item.piece.Text, Tokens: append([]int32{}, item.piece.Tokens...), IDSlot: -1,
			TokensPredicted: predicted[index], TokensEvaluated: len(form.prompts[index]),
			Probabilities: llamaLogProbsOf(item.piece.LogProbs)})
	})
	if err == nil {
		s.account(c, results)
	}
	return err
}
