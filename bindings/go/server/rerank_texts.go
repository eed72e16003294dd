package server

// rerankTexts holds the fields of a rerank request in the form of Text Embeddings Inference, which llama.cpp has too.
type rerankTexts struct {
	Texts      []rerankDocument `json:"texts"` // in place of documents
	ReturnText bool             `json:"return_text"`
}

// scoredText is a result in the form of Text Embeddings Inference.
type scoredText struct {
	Index int     `json:"index"`
	Score float64 `json:"score"`
	Text  *string `json:"text,omitempty"`
}

// takeTexts makes the texts the documents of the request.
func (r *rerankRequest) takeTexts() error {
	if r.Texts == nil {
		return nil
	}
	if r.Documents != nil {
		return invalid("texts", "texts and documents exclude each other; send one of them")
	}
	r.Documents = r.Texts
	return nil
}

// scoredTexts returns results in the form of Text Embeddings Inference.
func (r *rerankRequest) scoredTexts(results []rerankResult) []scoredText {
	out := make([]scoredText, len(results))
	for i, result := range results {
		out[i] = scoredText{Index: result.Index, Score: result.Score}
		if r.ReturnText {
			out[i].Text = &r.Texts[result.Index].Text
		}
	}
	return out
}
