package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quire.dev/quire/server"
	"quire.dev/quire/server/local"
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

// problemsOf checks the embedded model with a drafter.
func problemsOf(t *testing.T, drafter string) []error {
	return local.Check(&server.Config{Models: map[string]server.ModelConfig{"m": {Path: modelPath(t), Drafter: drafter}}})
}

func TestADrafterIsANameOrANetwork(t *testing.T) {
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	for _, drafter := range []string{"", "auto", "none", "ngram"} {
		if problems := problemsOf(t, drafter); problems != nil {
			t.Errorf("%q: %v", drafter, problems)
		}
	}
	const expected = "models.m: drafter must be auto, none, ngram, mtp, or the path or hub name of a draft network, not "
	for drafter, why := range map[string]string{"eagle": "no such file", "/nowhere/at/all": "no such file", "acme/eagle": "quire pull acme/eagle"} {
		problems := problemsOf(t, drafter)
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), expected) || !strings.Contains(problems[0].Error(), why) {
			t.Errorf("%q: %v", drafter, problems)
		}
	}
}

func TestANetworkThatDoesNotFitTheModelIsRefused(t *testing.T) {
	for _, drafter := range []string{"mtp", t.TempDir()} {
		problems := problemsOf(t, drafter)
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), "models.m: ") {
			t.Errorf("%q: %v", drafter, problems)
		}
	}
}

// draftsBy returns the counts of answers that a network drafts for, up to one with an accepted draft: measured
// times decide how many drafts an answer has.
func draftsBy(t *testing.T, network string) (drafted, accepted int) {
	f := start(t, func(c *server.Config) {
		model := c.Models["story"]
		model.Drafter = network
		c.Models["story"] = model
	})
	for i := 0; i < 40 && accepted == 0; i++ {
		var answer draftedAnswer
		f.post("/v1/completions", `{"model":"story","prompt":"Once upon a time","max_tokens":64,"temperature":0}`, &answer)
		drafted += answer.Timings.Drafted
		accepted += answer.Timings.Accepted
	}
	return drafted, accepted
}

// cacheWith returns a cache of a hub that has a folder as acme/eagle.
func cacheWith(t *testing.T, folder string) string {
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	cache, commit := t.TempDir(), strings.Repeat("0", 40)
	repository := filepath.Join(cache, "models--acme--eagle")
	snapshot := filepath.Join(repository, "snapshots", commit)
	check(os.MkdirAll(snapshot, 0o755))
	check(os.MkdirAll(filepath.Join(repository, "refs"), 0o755))
	check(os.WriteFile(filepath.Join(repository, "refs", "main"), []byte(commit), 0o600))
	files, err := os.ReadDir(folder)
	check(err)
	for _, file := range files {
		check(os.Symlink(filepath.Join(folder, file.Name()), filepath.Join(snapshot, file.Name())))
	}
	return cache
}

func TestANetworkIsTakenByItsPathAndByItsName(t *testing.T) {
	network, err := filepath.Abs("../../../../../../shared/golden/mtp/eagle3_story/draft")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(network); err != nil {
		t.Skip(network + " is absent")
	}
	if drafted, accepted := draftsBy(t, network); drafted == 0 || accepted == 0 {
		t.Errorf("by path: %d of %d", accepted, drafted)
	}
	t.Setenv("HF_HUB_CACHE", cacheWith(t, network))
	if drafted, accepted := draftsBy(t, "acme/eagle"); drafted == 0 || accepted == 0 {
		t.Errorf("by name: %d of %d", accepted, drafted)
	}
}
