package local_test

import (
	"testing"

	"quire.dev/quire/server"
)

// repeating is a request whose prompt repeats itself, so that its last tokens occurred before.
const repeating = `{"model":"story","prompt":"one two three four, one two three four, one two three four, one two three",
	"max_tokens":48,"temperature":0}`

type draftedAnswer struct {
	Choices []struct{ Text string }
	Timings struct {
		Predicted int `json:"predicted_n"`
		Drafted   int `json:"draft_n"`
		Accepted  int `json:"draft_n_accepted"`
	}
}

func TestAnAnswerWithDraftsIsTheSame(t *testing.T) {
	answers := map[string]draftedAnswer{}
	for _, drafter := range []string{"none", "ngram", "auto"} {
		f := start(t, func(c *server.Config) {
			model := c.Models["story"]
			model.Drafter, model.MaxDrafts = drafter, 8
			c.Models["story"] = model
		})
		var answer draftedAnswer
		f.post("/v1/completions", repeating, &answer)
		answers[drafter] = answer
	}
	plain := answers["none"]
	if plain.Timings.Drafted != 0 || plain.Timings.Predicted != 48 {
		t.Error(plain.Timings)
	}
	for _, drafter := range []string{"ngram", "auto"} {
		if answers[drafter].Choices[0].Text != plain.Choices[0].Text {
			t.Errorf("%s: %q instead of %q", drafter, answers[drafter].Choices[0].Text, plain.Choices[0].Text)
		}
	}
	if timings := answers["ngram"].Timings; timings.Drafted == 0 || timings.Accepted == 0 || timings.Accepted > timings.Drafted {
		t.Error(timings)
	}
}
