package hubcache

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// golden reads a table that the tests of the command read too.
func golden(t *testing.T, name string, rows interface{}) {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	folder := filepath.Join(filepath.Dir(here), "../../../../../tests/golden/hub")
	text, err := os.ReadFile(filepath.Join(folder, name))
	if os.IsNotExist(err) {
		t.Skip("the tests of the repository are absent")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, rows); err != nil {
		t.Fatal(err)
	}
}

func TestNamesHaveTheirPartsAndOtherTextsAreRefused(t *testing.T) {
	var rows []struct {
		Text, Choice, Revision string
		Repository             *string
	}
	golden(t, "names.json", &rows)
	for _, row := range rows {
		name, err := Parse(row.Text)
		if row.Repository == nil {
			if err == nil {
				t.Errorf("%q was read as %+v", row.Text, name)
			}
			continue
		}
		if want := (Name{*row.Repository, row.Choice, row.Revision}); err != nil || name != want {
			t.Errorf("%q: %+v, %v, not %+v", row.Text, name, err, want)
		}
	}
}

func TestEveryRowOfTheTableOfChoicesIsFollowed(t *testing.T) {
	var rows []struct {
		Why, Choice, Path string
		Files, Error      []string
	}
	golden(t, "choices.json", &rows)
	for _, row := range rows {
		path, err := choose(row.Files, row.Choice)
		if row.Error == nil {
			if err != nil || path != row.Path {
				t.Errorf("%s: %q, %v, not %q", row.Why, path, err, row.Path)
			}
			continue
		}
		for _, words := range row.Error {
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%s: the error %v lacks %q", row.Why, err, words)
			}
		}
	}
}

func TestModelsOfACacheAreFound(t *testing.T) {
	cache := t.TempDir()
	commit := strings.Repeat("a", 40)
	root := filepath.Join(cache, "models--org--name")
	write := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("blobs/1", "x")
	write("snapshots/"+commit+"/README.md", "x")
	if err := os.Symlink("../../blobs/1", filepath.Join(root, "snapshots", commit, "m-Q8_0.gguf")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../blobs/gone", filepath.Join(root, "snapshots", commit, "m-Q4_K_M.gguf")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HF_HUB_CACHE", cache)
	if _, err := Resolve("org/name"); err == nil || !strings.Contains(err.Error(), "quire pull org/name") {
		t.Errorf("without a reference: %v", err)
	}
	write("refs/main", commit)
	want := filepath.Join(root, "snapshots", commit, "m-Q8_0.gguf")
	for _, name := range []string{"org/name", "org/name:Q8_0", "org/name@" + commit} {
		if path, err := Resolve(name); err != nil || path != want {
			t.Errorf("%s: %q, %v", name, path, err)
		}
	}
	if _, err := Resolve("org/name:Q4_K_M"); err == nil {
		t.Error("a link to nothing was taken for a model")
	}
	write("refs/main", "../../../etc")
	if _, err := Resolve("org/name"); err == nil {
		t.Error("a reference to no commit was followed")
	}
	for _, path := range []string{cache, "/nowhere", "nowhere", "a/b/c"} {
		if got, err := Resolve(path); err != nil || got != path {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

func TestTheFolderFollowsTheEnvironment(t *testing.T) {
	for want, environment := range map[string]map[string]string{
		"/h/.cache/huggingface/hub": {"HOME": "/h"},
		"/x/huggingface/hub":        {"HOME": "/h", "XDG_CACHE_HOME": "/x"},
		"/h/y/hub":                  {"HOME": "/h", "XDG_CACHE_HOME": "/x", "HF_HOME": "~/y"},
		"/z":                        {"HOME": "/h", "HF_HOME": "/y", "HF_HUB_CACHE": "/z"},
	} {
		if got := Folder(func(name string) string { return environment[name] }); got != want {
			t.Errorf("%v: %s, not %s", environment, got, want)
		}
	}
}
