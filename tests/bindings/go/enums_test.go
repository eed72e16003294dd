// The constants of the package: their documentation, their names as text, and zero values that leave a setting
// at its default.
package story

import (
	"context"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quire.dev/quire"
)

// documented returns the documentation of the package as go doc shows it.
func documented(t *testing.T) *doc.Package {
	t.Helper()
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, path := range must(filepath.Glob("../../../bindings/go/*.go")) {
		parsed = append(parsed, must(parser.ParseFile(files, path, nil, parser.ParseComments)))
	}
	return must(doc.NewFromFiles(files, parsed, "quire.dev/quire"))
}

func TestGoDocShowsTheValuesOfAnEnumWithItsType(t *testing.T) {
	enums, values := 0, 0
	for _, kind := range documented(t).Types {
		for _, group := range kind.Consts {
			enums++
			for _, spec := range group.Decl.Specs {
				value := spec.(*ast.ValueSpec)
				values++
				if value.Doc.Text() == "" {
					t.Errorf("%s has no comment", value.Names[0].Name)
				}
			}
		}
	}
	if enums < 20 || values < 100 {
		t.Errorf("go doc shows %d enums with %d values", enums, values)
	}
}

func TestTheNamesOfAnEnumBeginAlike(t *testing.T) {
	for _, kind := range documented(t).Types {
		for _, group := range kind.Consts {
			prefix := group.Names[0]
			for _, name := range group.Names {
				for !strings.HasPrefix(name, prefix) {
					prefix = prefix[:len(prefix)-1]
				}
			}
			if len(prefix) < 2 {
				t.Errorf("%s: the names of %v have no common beginning", kind.Name, group.Names)
			}
		}
	}
}

func TestAValuePrintsItsName(t *testing.T) {
	for value, text := range map[fmt.Stringer]string{quire.KVQ8: "q8", quire.FinishMaxSeqLen: "max_seq_len",
		quire.EventText: "text", quire.StateQueued: "queued", quire.PoolingOfModel: "of_model", quire.PoolingMean: "mean",
		quire.CodeNotFound: "not_found", quire.CodeOK: "ok", quire.FinishReason(99): "FinishReason(99)",
		quire.Pooling(-1): "Pooling(-1)"} {
		if value.String() != text {
			t.Errorf("%q prints %q", text, value.String())
		}
	}
}

// lastPooled returns a directory with the model of the tests that declares the pooling of the last token.
func lastPooled(t *testing.T) string {
	t.Helper()
	directory, model := t.TempDir(), must(filepath.Abs(os.Getenv("QUIRE_TEST_MODEL")))
	for _, entry := range must(os.ReadDir(model)) {
		if err := os.Symlink(filepath.Join(model, entry.Name()), filepath.Join(directory, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"modules.json": `[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
			{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]`,
		"1_Pooling/config.json": `{"pooling_mode_mean_tokens": false, "pooling_mode_lasttoken": true}`} {
		path := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

func embedded(t *testing.T, cache *quire.Cache, pooling quire.Pooling) []float32 {
	t.Helper()
	job := must(cache.Submit(quire.Request{Kind: quire.KindEmbed, Prompt: "Once upon a time", Pooling: pooling}))
	defer job.Close()
	if err := job.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	return must(job.Embedding())
}

func TestMeanPoolingIsPossibleForAModelThatDeclaresTheLastToken(t *testing.T) {
	runtime := must(quire.NewRuntime(quire.RuntimeOptions{NumThreads: 2}))
	defer runtime.Close()
	model := must(runtime.LoadModel(lastPooled(t)))
	defer model.Close()
	cache := must(model.NewCache(quire.CacheOptions{MaxTokens: 1024}))
	defer cache.Close()
	declared, last, mean := embedded(t, cache, 0), embedded(t, cache, quire.PoolingLast), embedded(t, cache, quire.PoolingMean)
	different := 0.0
	for i := range declared {
		if declared[i] != last[i] {
			t.Fatalf("value %d is %g without a pooling and %g with the last token", i, declared[i], last[i])
		}
		different += math.Abs(float64(mean[i] - last[i]))
	}
	if different < 0.1 { // both vectors have length 1
		t.Errorf("the mean differs from the last token by %g", different)
	}
	_, err := cache.Submit(quire.Request{Kind: quire.KindEmbed, Prompt: "Once", Pooling: quire.Pooling(7)})
	expectRefused(t, err, quire.CodeInvalidArgument, "pooling")
}

func TestAPromptGivenTwiceIsRefused(t *testing.T) {
	_, cache := open(t)
	parts := []quire.PromptPart{{Text: "upon"}}
	for field, request := range map[string]quire.Request{
		"Parts": {Prompt: "Once", Parts: parts}, "Parts: ": {Tokens: []int32{5}, Parts: parts},
		"Tokens": {Prompt: "Once", Tokens: []int32{5}}} {
		_, err := cache.Submit(request)
		expectRefused(t, err, quire.CodeInvalidArgument, field)
	}
}
