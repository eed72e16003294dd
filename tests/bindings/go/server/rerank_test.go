package server_test

import (
	"math"
	"strings"
	"testing"
)

// The fake engine finds the bytes of a query certain that the document has, and others less likely.
func TestDocumentsComeInTheOrderOfTheirRelevance(t *testing.T) {
	f := start(t, nil)
	body := f.post("/v1/rerank", `{"model":"m","query":"abc","documents":["xyz","cab",{"text":"bcd","id":7}]}`)
	expect(t, at(body, "results", 0, "index"), 1)
	expect(t, at(body, "results", 0, "relevance_score"), 1)
	expect(t, at(body, "results", 0, "document"), map[string]string{"text": "cab"})
	expect(t, at(body, "results", 1, "index"), 2)
	expect(t, at(body, "results", 1, "document"), map[string]interface{}{"text": "bcd", "id": 7})
	expect(t, at(body, "results", 2, "index"), 0)
	if score := at(body, "results", 2, "relevance_score").(float64); math.Abs(score-math.Exp(-2)) > 1e-9 {
		t.Error(score)
	}
	expect(t, at(body, "model"), "m")
	expect(t, at(body, "usage", "total_tokens"), 3*(1+3+1+3))
	expect(t, at(body, "meta", "api_version", "version"), "1")
}

func TestRerankReturnsWhatItsFormAndItsFieldsAskFor(t *testing.T) {
	f := start(t, only)
	documents := `"query":"a","documents":["b","a","a"]`
	for path, has := range map[string]bool{"/v1/rerank": true, "/rerank": true, "/v2/rerank": false} {
		results := f.post(path, `{`+documents+`,"top_n":2}`)["results"].([]interface{})
		expect(t, len(results), 2)
		expect(t, at(results[0], "index"), 1) // equal scores keep their order
		expect(t, at(results[1], "index"), 2)
		expect(t, at(results[0], "document") != nil, has)
	}
	expect(t, at(f.post("/v1/rerank", `{`+documents+`,"return_documents":false}`), "results", 0, "document"), nil)
	expect(t, at(f.post("/v2/rerank", `{`+documents+`,"return_documents":true}`), "results", 0, "document", "text"), "a")
	expect(t, len(f.post("/v1/rerank", `{`+documents+`,"top_n":9}`)["results"].([]interface{})), 3)
}

func TestALongDocumentIsCutIfTheClientSetsALimit(t *testing.T) {
	f := start(t, only)
	long := strings.Repeat("b", 50) + "a"
	expect(t, at(f.post("/v1/rerank", `{"query":"a","documents":["`+long+`"]}`), "results", 0, "relevance_score"), 1)
	cut := f.post("/v1/rerank", `{"query":"a","documents":["`+long+`"],"max_tokens_per_doc":10}`)
	if score := at(cut, "results", 0, "relevance_score").(float64); score >= 1 {
		t.Error(score)
	}
	expect(t, at(cut, "usage", "prompt_tokens"), 12)
}

func TestARerankThatCannotBeObeyedNamesItsField(t *testing.T) {
	f := start(t, only)
	for words, body := range map[string]string{
		"query":              `{"documents":["a"]}`,
		"documents must":     `{"query":"a","documents":[]}`,
		"a document must":    `{"query":"a","documents":[null]}`,
		"its text":           `{"query":"a","documents":[{"title":"b"}]}`,
		"top_n":              `{"query":"a","documents":["a"],"top_n":0}`,
		"max_tokens_per_doc": `{"query":"a","documents":["a"],"max_tokens_per_doc":-1}`,
		"rank_fields":        `{"query":"a","documents":["a"],"rank_fields":["title"]}`,
		"max_chunks_per_doc": `{"query":"a","documents":["a"],"max_chunks_per_doc":3}`,
	} {
		f.refused("/v1/rerank", body, 400, words)
	}
}
