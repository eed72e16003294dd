package server

import (
	"context"
	"encoding/json"
	"math"
	"sort"
	"strings"
)

// Documents in order of their relevance to a query, in the formats of Jina and of Cohere (v1 and v2).

// rerankRequest is the body of /v1/rerank and /v2/rerank.
type rerankRequest struct {
	Model           string           `json:"model"`
	Query           string           `json:"query"`
	Documents       []rerankDocument `json:"documents"`
	TopN            *int             `json:"top_n"`
	ReturnDocuments *bool            `json:"return_documents"`
	MaxTokensPerDoc *int             `json:"max_tokens_per_doc"` // longer documents are cut
	RankFields      []string         `json:"rank_fields"`        // only "text"
	Priority        *int             `json:"priority"`
	rerankTexts
}

// rerankDocument is a text, or an object with the text.
type rerankDocument struct {
	Text  string
	given json.RawMessage // as the client sent it
}

func (d *rerankDocument) UnmarshalJSON(value []byte) error {
	d.given = append(json.RawMessage{}, value...)
	if json.Unmarshal(value, &d.Text) == nil && !isAbsent(value) {
		return nil
	}
	var object struct {
		Text *string `json:"text"`
	}
	if json.Unmarshal(value, &object) != nil || object.Text == nil {
		return invalid("documents", "a document must be a text, or an object with its text")
	}
	d.Text = *object.Text
	return nil
}

// body returns the document as an object, as it is in answers.
func (d *rerankDocument) body() interface{} {
	if strings.HasPrefix(string(d.given), "{") {
		return d.given
	}
	return map[string]string{"text": d.Text}
}

type rerankResult struct {
	Index    int         `json:"index"`
	Score    float64     `json:"relevance_score"`
	Document interface{} `json:"document,omitempty"`
}

func (r *rerankRequest) check() error {
	switch {
	case r.Query == "":
		return invalid("query", "query is missing")
	case len(r.Documents) == 0 || len(r.Documents) > maxInputs:
		return invalid("documents", "documents must be 1 to %d texts", maxInputs)
	case r.TopN != nil && *r.TopN < 1:
		return invalid("top_n", "top_n must be 1 or more, not %d", *r.TopN)
	case r.MaxTokensPerDoc != nil && *r.MaxTokensPerDoc < 1:
		return invalid("max_tokens_per_doc", "max_tokens_per_doc must be 1 or more, not %d", *r.MaxTokensPerDoc)
	}
	for _, field := range r.RankFields {
		if field != "text" {
			return invalid("rank_fields", "rank_fields has %q; only the field text of a document is ranked", field)
		}
	}
	return nil
}

// rerankV1 returns the documents unless the client refuses them, as Jina does.
func (s *Server) rerankV1(c *call) error { return s.rerank(c, "1", true) }

// rerankV2 returns the documents only if the client requests them, as Cohere does.
func (s *Server) rerankV2(c *call) error { return s.rerank(c, "2", false) }

func (s *Server) rerank(c *call, version string, documents bool) error {
	var request rerankRequest
	if err := c.read(&request); err != nil {
		return err
	}
	if err := request.takeTexts(); err != nil {
		return err
	}
	if err := request.check(); err != nil {
		return err
	}
	s.fillModel(c, &request.Model)
	numBytes := len(request.Query)
	for _, document := range request.Documents {
		numBytes += len(document.Text)
	}
	model, err := s.open(c, request.Model, numBytes)
	if err != nil {
		return err
	}
	if request.ReturnDocuments != nil {
		documents = *request.ReturnDocuments
	}
	results, usage, err := request.results(c, model, documents)
	if err != nil {
		return err
	}
	s.account(c, []Result{{Usage: usage}})
	if request.Texts != nil {
		return answer(c, request.scoredTexts(results))
	}
	return answer(c, map[string]interface{}{"id": newID("rerank-"), "object": "list", "model": request.Model,
		"results": results, "usage": map[string]int{"prompt_tokens": usage.Prompt, "total_tokens": usage.Prompt},
		"meta": map[string]interface{}{"api_version": map[string]string{"version": version},
			"billed_units": map[string]int{"search_units": 1}, "tokens": map[string]int{"input_tokens": usage.Prompt}}})
}

// results returns the best documents, the most relevant first. Equal ones stay in the order of the client.
func (r *rerankRequest) results(c *call, model Model, documents bool) ([]rerankResult, Usage, error) {
	query, err := model.Tokenize(r.Query, false)
	if err != nil {
		return nil, Usage{}, err
	}
	results := make([]rerankResult, len(r.Documents))
	usage, err := eachInput(c, len(results), func(ctx context.Context, i int) (Usage, error) {
		score, usage, err := r.relevance(ctx, c, model, query, r.Documents[i].Text)
		results[i] = rerankResult{Index: i, Score: score}
		if documents {
			results[i].Document = r.Documents[i].body()
		}
		return usage, err
	})
	sort.SliceStable(results, func(a, b int) bool { return results[a].Score > results[b].Score })
	if r.TopN != nil && *r.TopN < len(results) {
		results = results[:*r.TopN]
	}
	return results, usage, err
}

// relevance returns the geometric mean of the probabilities of the query's tokens after the document, 0 to 1. So
// any generating model can rank documents.
func (r *rerankRequest) relevance(ctx context.Context, c *call, model Model, query []int32,
	document string) (float64, Usage, error) {
	before, err := r.documentTokens(model, document)
	if err != nil {
		return 0, Usage{}, err
	}
	scores, err := model.Score(ctx, Prompt{Tokens: append(before, query...)}, c.scheduling(r.Priority))
	if err != nil {
		return 0, Usage{}, err
	}
	num := len(query)
	if num > len(scores.LogProbs) {
		num = len(scores.LogProbs)
	}
	if num == 0 {
		return 0, scores.Usage, nil
	}
	sum := 0.0
	for _, value := range scores.LogProbs[len(scores.LogProbs)-num:] {
		sum += value
	}
	return math.Exp(sum / float64(num)), scores.Usage, nil
}

// documentTokens returns the tokens of a document, cut to the client's limit, and of the line break after it.
func (r *rerankRequest) documentTokens(model Model, document string) ([]int32, error) {
	if r.MaxTokensPerDoc == nil {
		return model.Tokenize(document+"\n", true)
	}
	tokens, err := model.Tokenize(document, true)
	if err != nil {
		return nil, err
	}
	if len(tokens) > *r.MaxTokensPerDoc {
		tokens = tokens[:*r.MaxTokensPerDoc]
	}
	end, err := model.Tokenize("\n", false)
	return append(tokens, end...), err
}
