package server

// restrictionFields holds limits of the answer, under vLLM's names.
type restrictionFields struct {
	MinTokens         int      `json:"min_tokens"`
	StopTokenIDs      []int32  `json:"stop_token_ids"`
	IncludeStop       bool     `json:"include_stop_str_in_output"`
	BadWords          []string `json:"bad_words"`
	AllowedTokenIDs   []int32  `json:"allowed_token_ids"`
	SkipSpecialTokens *bool    `json:"skip_special_tokens"`
}

// restrictions checks the fields beside the number of new tokens, of which 0 means the rest of the context.
func (f *restrictionFields) restrictions(maxNewTokens int) (Restrictions, error) {
	out := Restrictions{MinNewTokens: f.MinTokens, StopTokens: f.StopTokenIDs, KeepStop: f.IncludeStop,
		BannedTexts: f.BadWords, AllowedTokens: f.AllowedTokenIDs,
		KeepSpecial: f.SkipSpecialTokens != nil && !*f.SkipSpecialTokens}
	switch {
	case f.MinTokens < 0:
		return out, invalid("min_tokens", "min_tokens must be 0 or more, not %d", f.MinTokens)
	case maxNewTokens > 0 && f.MinTokens > maxNewTokens:
		return out, invalid("min_tokens", "min_tokens is %d, more than the %d tokens of the answer; raise max_tokens",
			f.MinTokens, maxNewTokens)
	case f.AllowedTokenIDs != nil && len(f.AllowedTokenIDs) == 0:
		return out, invalid("allowed_token_ids", "allowed_token_ids is empty; give at least one token, or leave it out")
	}
	for _, word := range f.BadWords {
		if word == "" {
			return out, invalid("bad_words", "a bad word must not be empty")
		}
	}
	return out, nil
}

// truncation is the number of tokens to which a prompt is cut.
type truncation struct {
	TruncatePromptTokens *int    `json:"truncate_prompt_tokens"`
	TruncationSide       *string `json:"truncation_side"`
}

// cut returns the tokens of a prompt that remain, and nil if all do. It keeps the last tokens, or the first if
// the side is "right". -1 means as many as leave room for maxNewTokens.
func (t *truncation) cut(model *meteredModel, g *Generation, maxNewTokens int) ([]int32, error) {
	if t.TruncationSide != nil && *t.TruncationSide != "left" && *t.TruncationSide != "right" {
		return nil, invalid("truncation_side", "truncation_side must be left or right, not %q", *t.TruncationSide)
	}
	if t.TruncatePromptTokens == nil {
		return nil, nil
	}
	keep := *t.TruncatePromptTokens
	if keep == -1 {
		if maxNewTokens < 1 {
			maxNewTokens = 1
		}
		keep = model.Info().ContextTokens - maxNewTokens
	}
	if keep < 1 {
		return nil, invalid("truncate_prompt_tokens", "truncate_prompt_tokens must be 1 or more, or -1 for the context "+
			"less max_tokens; it leaves %d tokens", keep)
	}
	tokens, err := model.tokensToCut(g)
	if err != nil || len(tokens) <= keep {
		return nil, err
	}
	if t.TruncationSide != nil && *t.TruncationSide == "right" {
		return tokens[:keep], nil
	}
	return tokens[len(tokens)-keep:], nil
}
