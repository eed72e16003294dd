// Answers parsed into text and calls, and models exchanged through an alias.
package story

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"quire.dev/quire"
)

const tools = `[{"type": "function", "function": {"name": "say", "parameters": {"type": "object",
  "properties": {"word": {"enum": ["once", "upon"]}}, "required": ["word"], "additionalProperties": false}}}]`

// events feeds an answer in pieces and returns all events.
func events(t *testing.T, parser *quire.ResponseParser, pieces ...string) (all []quire.ResponseEvent) {
	t.Helper()
	take := func() {
		for must(parser.Next()) {
			all = append(all, must(parser.Event()))
		}
	}
	for _, piece := range pieces {
		if err := parser.Feed(piece); err != nil {
			t.Fatal(err)
		}
		take()
	}
	if err := parser.Finish(); err != nil {
		t.Fatal(err)
	}
	take()
	return all
}

func TestAnAnswerIsParsedIntoTextAndCalls(t *testing.T) {
	parser := must(quire.NewResponseParser("hermes"))
	defer parser.Close()
	if err := parser.SetTools(tools); err != nil {
		t.Fatal(err)
	}
	answer := "<think>é?</think>Well.\n<tool_call>\n{\"name\": \"say\", \"arguments\": {\"word\": \"upon\"}}\n</tool_call>"
	var raw, text, reasoning, arguments strings.Builder
	var name string
	ends := 0
	for _, event := range events(t, parser, answer[:20], answer[20:51], answer[51:]) {
		raw.Write(event.Raw)
		switch event.Kind {
		case quire.ResponseText:
			text.WriteString(event.Text)
		case quire.ResponseReasoning:
			reasoning.WriteString(event.Text)
		case quire.ResponseCallBegin:
			name = event.Name
		case quire.ResponseArguments:
			arguments.WriteString(event.Text)
		case quire.ResponseCallEnd:
			ends++
		}
		if isCall := event.Kind >= quire.ResponseCallBegin && event.Kind <= quire.ResponseCallEnd; isCall != (event.CallIndex == 0) {
			t.Errorf("%+v", event)
		}
	}
	if raw.String() != answer || text.String() != "Well." || reasoning.String() != "é?" || name != "say" || ends != 1 {
		t.Errorf("%q, %q, %q, %q, %d", raw.String(), text.String(), reasoning.String(), name, ends)
	}
	if arguments.String() != `{"word": "upon"}` {
		t.Error(arguments.String())
	}
	expectRefused(t, parser.Feed("more"), quire.CodeInvalidArgument, "")
	_, err := quire.NewResponseParser("nobody's")
	expectRefused(t, err, quire.CodeNotFound, "hermes")
	if dialects := strings.Fields(must(quire.ResponseDialects())); len(dialects) < 10 {
		t.Error(dialects)
	}
}

func TestReasoningOpenedByThePromptIsReasoning(t *testing.T) {
	for name, open := range map[string]func(*quire.ResponseParser) error{
		"by the setting": func(p *quire.ResponseParser) error { return p.SetReasoning(quire.ReasoningOpen) },
		"by the prompt":  func(p *quire.ResponseParser) error { return p.SetPrompt("<|im_start|>assistant\n<think>\n") },
	} {
		parser := must(quire.NewResponseParser("hermes"))
		if err := open(parser); err != nil {
			t.Fatal(name, err)
		}
		if first := events(t, parser, "so</think>then")[0]; first.Kind != quire.ResponseReasoning || first.Text != "so" {
			t.Errorf("%s: %+v", name, first)
		}
		parser.Close()
	}
}

func TestTheDialectFollowsFromTheTemplate(t *testing.T) {
	model, _ := open(t)
	for source, dialect := range map[string]string{
		"{{ '<tool_call>{\"name\": ' }}": "hermes", "{{ messages }}": "plain"} {
		template := must(quire.NewChatTemplate(source))
		if got := must(template.Dialect(nil)); got != dialect {
			t.Errorf("%q is %s", source, got)
		}
		_ = must(template.Dialect(model))
		template.Close()
	}
	template := must(quire.NewChatTemplate("a"))
	defer template.Close()
	model.Close()
	_, err := template.Dialect(model)
	expectRefused(t, err, quire.CodeClosed, "")
}

// A parser of the same dialect reads the output of a constraint, and so does the job itself.
func TestAJobIsConstrainedToACall(t *testing.T) {
	model, cache := open(t)
	rules := fmt.Sprintf(`{"dialect": "hermes", "tools": %s, "tool_choice": "required", "parallel_tool_calls": false, "reasoning": "off"}`, tools)
	constraint := must(model.NewResponseConstraint(rules))
	defer constraint.Close()
	request := greedy("Once", 200)
	request.Constraint = constraint
	job := must(cache.Submit(request))
	defer job.Close()
	answer, _ := drain(t, job)
	expectRead(t, cache, request, answer)
	parser := must(quire.NewResponseParser("hermes"))
	defer parser.Close()
	if err := parser.SetReasoning(quire.ReasoningOff); err != nil {
		t.Fatal(err)
	}
	var arguments string
	ends := 0
	for _, event := range events(t, parser, answer) {
		if event.Kind == quire.ResponseArguments {
			arguments += event.Text
		}
		if event.Kind == quire.ResponseCallEnd {
			ends++
		}
	}
	var said struct{ Word string }
	if err := json.Unmarshal([]byte(arguments), &said); err != nil || ends != 1 || (said.Word != "once" && said.Word != "upon") {
		t.Errorf("%q: %q, %v", answer, arguments, err)
	}
	_, err := model.NewResponseConstraint(`{"dialect": "plain", "tools": ` + tools + `}`)
	expectRefused(t, err, quire.CodeUnsupported, "plain")
}

// expectRead runs a job whose answer is a call and checks that its events report the call.
func expectRead(t *testing.T, cache *quire.Cache, request quire.Request, answer string) {
	t.Helper()
	request.ResponseDialect, request.Reasoning = "hermes", quire.ReasoningOff
	job := must(cache.Submit(request))
	defer job.Close()
	var raw, arguments strings.Builder
	begins, ends := 0, 0
	for event := must(job.Next(context.Background())); event.Kind == quire.EventText; event = must(job.Next(context.Background())) {
		raw.WriteString(event.Text)
		switch event.ResponseKind {
		case quire.ResponseArguments:
			arguments.WriteString(event.ResponseText)
		case quire.ResponseCallBegin:
			begins++
		case quire.ResponseCallEnd:
			ends++
		}
		isEdge := event.ResponseKind == quire.ResponseCallBegin || event.ResponseKind == quire.ResponseCallEnd
		if (event.CallName == "say") != isEdge || (isEdge && event.CallIndex != 0) || event.CallID != "" {
			t.Errorf("%+v", event)
		}
	}
	if raw.String() != answer || !json.Valid([]byte(arguments.String())) || begins != 1 || ends != 1 {
		t.Errorf("%q is not %q: %q, %d, %d", raw.String(), answer, arguments.String(), begins, ends)
	}
	expectShortThought(t, cache)
	request.ResponseDialect = "nobody's"
	_, err := cache.Submit(request)
	expectRefused(t, err, quire.CodeNotFound, "hermes")
}

// expectShortThought runs jobs with a reasoning budget of zero and of three tokens.
func expectShortThought(t *testing.T, cache *quire.Cache) {
	t.Helper()
	for _, budget := range []int{-1, 3} {
		request := greedy("Once", 30)
		request.ResponseDialect, request.Reasoning, request.ReasoningBudget = "hermes", quire.ReasoningOpen, budget
		job := must(cache.Submit(request))
		text, _ := drain(t, job)
		job.Close()
		if end := strings.Index(text, "</think>"); end < 0 || (budget < 0) != (strings.TrimSpace(text[:end]) == "") {
			t.Errorf("%d: %q", budget, text)
		}
	}
}

func TestAModelIsExchangedWhileJobsRun(t *testing.T) {
	runtime := newRuntime(t)
	load := func() *quire.Cache {
		model := must(runtime.LoadModel(modelPath()))
		defer model.Close()
		return must(model.NewCache(quire.CacheOptions{MaxTokens: 2048}))
	}
	alias := must(runtime.NewAlias("chat"))
	defer alias.Close()
	_, err := alias.Submit(greedy("a", 1))
	expectRefused(t, err, quire.CodeNotFound, "chat")
	cache := load()
	if err := alias.SetCache(cache); err != nil {
		t.Fatal(err)
	}
	running := must(alias.Submit(endless()))
	defer running.Close()
	must(running.Next(context.Background()))

	over := make(chan struct{})
	var submitters sync.WaitGroup
	for i := 0; i < 4; i++ {
		submitters.Add(1)
		go func() {
			defer submitters.Done()
			for exchanged := false; !exchanged; {
				select {
				case <-over:
					exchanged = true
				default:
				}
				job, err := alias.Submit(greedy(input(t, "QUIRE_TEST_PROMPT"), 8))
				if err != nil {
					t.Error(err)
					return
				}
				if text, _ := drain(t, job); !strings.HasPrefix(input(t, "QUIRE_TEST_EXPECTED"), text) {
					t.Errorf("%q", text)
				}
				job.Close()
			}
		}()
	}
	for i := 0; i < 3; i++ {
		_, err := runtime.LoadModel("/no/such/model") // changes nothing
		expectRefused(t, err, quire.CodeNotFound, "")
		next := load()
		for _, err := range []error{alias.SetCache(next), cache.Close()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		cache = next
	}
	close(over)
	submitters.Wait()
	if swaps := must(alias.NumSwaps()); swaps != 3 {
		t.Errorf("%d swaps", swaps)
	}
	if state := must(running.Info()).State; state == quire.StateFinished {
		t.Errorf("the job of the first cache is %v", state)
	}
	cache.Close()
	for _, err := range []error{alias.SetCache(nil), running.Cancel()} {
		if err != nil {
			t.Error(err)
		}
	}
	if _, finish := drain(t, running); finish != quire.FinishCancelled {
		t.Error(finish)
	}
	expectRefused(t, alias.SetCache(cache), quire.CodeClosed, "")
}

func TestAnAliasUsesItsFallbackAndReportsWhy(t *testing.T) {
	_, cache := open(t)
	_, other := open(t)
	runtime := newRuntime(t)
	alias := must(runtime.NewAlias("chat"))
	expectRefused(t, alias.AddFallback(other), quire.CodeInvalidArgument, "runtime")
	model := must(runtime.LoadModel(modelPath()))
	cache = must(model.NewCache(quire.CacheOptions{MaxTokens: 2048}))
	if err := alias.AddFallback(cache); err != nil {
		t.Fatal(err)
	}
	for _, object := range []io.Closer{cache, model, runtime} { // the alias keeps the objects that it needs
		if err := object.Close(); err != nil {
			t.Fatal(err)
		}
	}
	job := must(alias.Submit(greedy(input(t, "QUIRE_TEST_PROMPT"), 48)))
	if err := alias.Close(); err != nil {
		t.Fatal(err)
	}
	if text, _ := drain(t, job); text != input(t, "QUIRE_TEST_EXPECTED") {
		t.Errorf("%q", text)
	}
	job.Close()
	_, err := alias.Reason()
	expectRefused(t, err, quire.CodeClosed, "")
	if _, err := runtime.NewAlias("late"); !errors.Is(err, quire.CodeClosed) {
		t.Error(err)
	}
}

func TestAnAliasReportsWhyAndRemovesItsFallbacks(t *testing.T) {
	runtime := newRuntime(t)
	model := must(runtime.LoadModel(modelPath()))
	defer model.Close()
	cache := must(model.NewCache(quire.CacheOptions{MaxTokens: 2048}))
	defer cache.Close()
	alias := must(runtime.NewAlias("chat"))
	defer alias.Close()
	if err := alias.AddFallback(cache); err != nil {
		t.Fatal(err)
	}
	job := must(alias.SubmitContext(context.Background(), greedy("Once", 4)))
	drain(t, job)
	job.Close()
	if reason := must(alias.Reason()); must(alias.NumFallbacks()) != 1 || reason == "" || strings.Contains(reason, "\n") {
		t.Errorf("%q", reason)
	}
	if err := alias.ClearFallbacks(); err != nil {
		t.Fatal(err)
	}
	_, err := alias.Submit(greedy("Once", 4))
	expectRefused(t, err, quire.CodeNotFound, "")
}
