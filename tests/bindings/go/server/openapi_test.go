package server_test

import (
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"

	"quire.dev/quire-test/server/fake"
	"quire.dev/quire/server"
)

// description returns the paths of /openapi.json.
func (f *fixture) description() map[string]interface{} {
	f.t.Helper()
	response, text := f.do("GET", "/openapi.json", "")
	expect(f.t, response.StatusCode, 200)
	return f.object(text)["paths"].(map[string]interface{})
}

var inBraces = regexp.MustCompile(`\{[^}]*\}`)

// unknownPath matches the refusals of a path that the server does not have.
var unknownPath = regexp.MustCompile(`has no (path|GET|POST|DELETE)`)

func TestEachDescribedRequestIsAnswered(t *testing.T) {
	f := startManaged(t, func(c *server.Config) { c.Admin = []string{digest("root")} }, &fake.Managed{})
	f.key = "root"
	for path, methods := range f.description() {
		for method := range methods.(map[string]interface{}) {
			response, text := f.do(strings.ToUpper(method), inBraces.ReplaceAllString(path, "m"), "{}")
			if response.StatusCode == 405 || unknownPath.MatchString(text) {
				t.Errorf("%s %s: %d %s", method, path, response.StatusCode, text)
			}
		}
	}
}

// Matches the calls that register a route. A route that ends with a slash gets all paths below it.
var registered = regexp.MustCompile(`(?:s\.post|s\.get|s\.admitted|mux\.HandleFunc)\((?:http\.Method(\w+), )?"(/[^"]*)"`)

func TestEachRouteIsDescribed(t *testing.T) {
	f := start(t, nil)
	paths := f.description()
	sources, err := filepath.Glob("../../../../bindings/go/server/*.go")
	if err != nil || len(sources) < 20 {
		t.Fatal(err, sources)
	}
	routes := 0
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range registered.FindAllStringSubmatch(string(text), -1) {
			routes++
			if !isDescribed(paths, found[2]) {
				t.Errorf("%s has the route %s, which /openapi.json lacks; add it to documented", source, found[2])
			}
		}
	}
	if routes < 40 {
		t.Errorf("only %d routes were found", routes)
	}
}

func isDescribed(paths map[string]interface{}, route string) bool {
	if _, is := paths[route]; is || !strings.HasSuffix(route, "/") {
		return is
	}
	for path := range paths {
		if strings.HasPrefix(path, route) {
			return true
		}
	}
	return false
}

func TestTheDocumentedFieldsAreThoseOfTheRequests(t *testing.T) {
	f := start(t, nil)
	paths := f.description()
	for path, fields := range map[string]string{
		"/v1/chat/completions": "model messages temperature top_k stop tools response_format stream_options chat_template_kwargs",
		"/v1/completions":      "model prompt max_tokens echo logprobs",
		"/v1/messages":         "model messages max_tokens system",
		"/completion":          "prompt n_predict n_probs json_schema temperature",
		"/infill":              "input_prefix input_suffix input_extra",
		"/api/chat":            "model messages options format think keep_alive",
		"/api/generate":        "prompt suffix raw options",
		"/v1/rerank":           "query documents top_n return_documents",
	} {
		schema := at(paths[path], "post", "requestBody", "content", "application/json", "schema", "properties")
		for _, field := range strings.Fields(fields) {
			if at(schema, field) == nil {
				t.Errorf("%s has no %s", path, field)
			}
		}
	}
	properties := at(paths["/v1/chat/completions"], "post", "requestBody", "content", "application/json", "schema", "properties")
	expect(t, at(properties, "temperature", "type"), "number")
	expect(t, at(properties, "top_k", "type"), "integer")
	expect(t, at(properties, "stream_options", "properties", "include_usage", "type"), "boolean")
	expect(t, at(properties, "messages"), map[string]string{}) // any form
	parameters := at(paths["/v1/models/{model}"], "get", "parameters", 0)
	expect(t, at(parameters, "name"), "model")
}

// The table of docs/server.md has a path in each code span of its first column, names in capitals.
func TestTheTableOfEndpointsHasTheDescribedPaths(t *testing.T) {
	f := start(t, nil)
	text, err := os.ReadFile("../../../../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Endpoints\n")
	table, _, _ = strings.Cut(table, "\n## ")
	names := regexp.MustCompile(`\b[A-Z]+\b`)
	documented := map[string]bool{}
	for _, row := range strings.Split(table, "\n") {
		columns := strings.Split(row, "|")
		if len(columns) < 3 {
			continue
		}
		for _, span := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(columns[1], -1) {
			if _, path, has := strings.Cut(span[1], "/"); has {
				documented[names.ReplaceAllString("/"+path, "{}")] = true
			}
		}
	}
	described := map[string]bool{}
	for path := range f.description() {
		described[inBraces.ReplaceAllString(path, "{}")] = true
	}
	expect(t, missing(described, documented), []string{})
	expect(t, missing(documented, described), []string{})
}

// missing returns the members of a set that another lacks.
func missing(set, other map[string]bool) []string {
	out := []string{}
	for member := range set {
		if !other[member] {
			out = append(out, member)
		}
	}
	sort.Strings(out)
	return out
}
