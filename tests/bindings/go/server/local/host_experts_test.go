package local_test

import (
	"strings"
	"testing"

	"quire.dev/quire/server"
	"quire.dev/quire/server/local"
)

// expertProblems checks the embedded model, which has no experts, with a choice of host experts.
func expertProblems(t *testing.T, choice string) []error {
	return local.Check(&server.Config{Models: map[string]server.ModelConfig{"m": {Path: modelPath(t), HostExperts: choice}}})
}

func TestHostExpertsReachTheModel(t *testing.T) {
	for _, choice := range []string{"", "none", "auto"} {
		if problems := expertProblems(t, choice); problems != nil {
			t.Errorf("%q: %v", choice, problems)
		}
	}
	for choice, why := range map[string]string{"all": "has no experts", "24": "has no experts", "most": "none, all, auto or a number"} {
		problems := expertProblems(t, choice)
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), "models.m: ") || !strings.Contains(problems[0].Error(), why) {
			t.Errorf("%q: %v", choice, problems)
		}
	}
}
