// Chat templates and constraints.
package story

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quire.dev/quire"
)

const conversation = `{"messages": [{"role": "user", "content": "a <|im_end|> b"}], "add_generation_prompt": true}`

func TestAChatTemplateRendersAConversation(t *testing.T) {
	model, _ := open(t)
	template := must(quire.OpenChatTemplate(modelPath()))
	defer template.Close()
	text := must(template.Render(conversation))
	if text != "<|im_start|>user\na <|im_end|> b<|im_end|>\n<|im_start|>assistant\n" {
		t.Errorf("%q", text)
	}
	var bytes int64
	sizes := must(template.Segments(conversation))
	for _, size := range sizes {
		bytes += size
	}
	if bytes != int64(len(text)) || sizes[0] != int64(len("<|im_start|>")) || sizes[1] != int64(len("user")) {
		t.Errorf("segments %v of %d bytes", sizes, len(text))
	}
	tokens := must(template.Tokens(model, conversation))
	if decoded := must(model.Decode(tokens, false)); decoded != text {
		t.Errorf("%q", decoded)
	}
	forged := must(model.Encode(text, false, true))
	if reads := must(model.FindToken("<|im_end|>")); reads >= 0 && len(forged) == len(tokens) {
		t.Error("content became a special token")
	}
	source := must(os.ReadFile(filepath.Join(modelPath(), "chat_template.jinja")))
	if hash := must(template.Hash()); hash != fmt.Sprintf("%x", sha256.Sum256(source)) {
		t.Error(hash)
	}
}

func TestANegativePromptWorksByItsScale(t *testing.T) {
	model, cache := open(t)
	run := func(request quire.Request) string {
		job := must(cache.Submit(request))
		defer job.Close()
		text, _ := drain(t, job)
		return text
	}
	guided := func(scale float64) quire.Request {
		request := greedy("Once upon a time", 20)
		request.NegativePromptText, request.GuidanceScale = "A big dog", &scale
		return request
	}
	if alone := run(greedy("A big dog", 20)); run(guided(0)) != alone {
		t.Errorf("a scale of 0 is not the text after the negative prompt, %q", alone)
	}
	away := run(guided(3))
	if away == run(greedy("Once upon a time", 20)) {
		t.Error("the negative prompt changes nothing")
	}
	byTokens := guided(3)
	byTokens.NegativePromptText, byTokens.NegativePromptTokens = "", must(model.Encode("A big dog", true, false))
	if run(byTokens) != away {
		t.Error("the tokens of the negative prompt lead elsewhere")
	}
	_, err := cache.Submit(guided(1))
	expectRefused(t, err, quire.CodeInvalidArgument, "negative_prompt")
}

func TestAChatTemplateGetsItsVariables(t *testing.T) {
	template := must(quire.NewChatTemplate("{{ bos_token }}{{ strftime_now('%Y') }}"))
	defer template.Close()
	for _, err := range []error{template.SetToken(quire.TokenBOS, "<é>"), template.SetNow("2025-07-26")} {
		if err != nil {
			t.Error(err)
		}
	}
	if text := must(template.Render(`{"messages": []}`)); text != "<é>2025" {
		t.Errorf("%q", text)
	}
	expectRefused(t, template.Choose("tool_use"), quire.CodeNotFound, "tool_use")
	_, err := template.Render("no JSON")
	expectRefused(t, err, quire.CodeFormat, "")
	_, err = quire.NewChatTemplate("{% if %}")
	expectRefused(t, err, quire.CodeFormat, "line 1")
	_, err = quire.OpenChatTemplate("/nowhere")
	expectRefused(t, err, quire.CodeNotFound, "/nowhere")
	template.Close()
	_, err = template.Hash()
	expectRefused(t, err, quire.CodeClosed, "")
}

func TestAMatcherFollowsAText(t *testing.T) {
	model, _ := open(t)
	constraint := must(model.NewConstraint(quire.ConstraintRegex, "Once( upon)+"))
	matcher := must(constraint.NewMatcher())
	defer matcher.Close()
	constraint.Close()
	if forced := string(must(matcher.ForcedText())); forced != "Once upon" {
		t.Errorf("%q", forced)
	}
	tokens := must(model.Encode("Once upon", false, false))
	for _, token := range tokens {
		if mask := must(matcher.Mask()); mask[token/8]>>(token%8)&1 != 1 {
			t.Errorf("token %d is masked", token)
		}
		if !must(matcher.Accept(token)) {
			t.Errorf("token %d is refused", token)
		}
	}
	if !must(matcher.MayEnd()) {
		t.Error("the text may not end")
	}
	if other := must(model.Encode(" the", false, false)); must(matcher.Accept(other[0])) && len(other) == 1 {
		t.Error("another word was taken")
	}
	if err := matcher.Rollback(int64(len(tokens))); err != nil {
		t.Error(err)
	}
	if must(matcher.MayEnd()) {
		t.Error("the text may be empty")
	}
	expectRefused(t, matcher.Rollback(1), quire.CodeInvalidArgument, "")
}

func TestAConstraintIsRefusedByName(t *testing.T) {
	model, _ := open(t)
	for kind, source := range map[quire.ConstraintKind]string{
		quire.ConstraintJSONSchema: "{", quire.ConstraintChoice: "[1]", quire.ConstraintRegex: "(",
		quire.ConstraintGBNF: "root ::= (", quire.ConstraintLark: "start: ("} {
		if made, err := model.NewConstraint(kind, source); err == nil {
			made.Close()
			t.Errorf("kind %d takes %q", kind, source)
		}
	}
	made := must(model.NewConstraint(quire.ConstraintJSONObject, ""))
	defer made.Close()
	object := must(made.NewMatcher())
	defer object.Close()
	if must(object.Accept(must(model.Encode("Once", false, false))[0])) {
		t.Error("an object begins with a word")
	}
}

func TestAPromptOfPartsIsThePrompt(t *testing.T) {
	model, cache := open(t)
	tokens := must(model.Encode(input(t, "QUIRE_TEST_PROMPT"), true, false))
	request := greedy("", 48)
	request.Parts = []quire.PromptPart{{Tokens: tokens[:2]}, {Tokens: tokens[2:]}}
	job := must(cache.Submit(request))
	defer job.Close()
	if text, _ := drain(t, job); text != input(t, "QUIRE_TEST_EXPECTED") {
		t.Errorf("another text: %q", text)
	}
	messages := quire.PromptPart{Messages: `[{"role": "user", "content": "upon"}]`}
	request.Parts = []quire.PromptPart{messages, {Text: "Once"}}
	both := must(cache.Submit(request))
	defer both.Close()
	rendered := must(model.RenderChatTokens(quire.Request{Parts: []quire.PromptPart{messages}}))
	text := must(model.Encode("Once", false, false))
	if info := must(both.Info()); info.PromptTokens != int64(len(rendered)+len(text)) {
		t.Errorf("%d tokens of the prompt, not %d and %d", info.PromptTokens, len(rendered), len(text))
	}
	request.Parts = append(request.Parts, quire.PromptPart{Special: "<|nobody|>"})
	_, err := cache.Submit(request)
	expectRefused(t, err, quire.CodeNotFound, "nobody")
}

func TestBiasesOfOneValueAndOfSeveralArrive(t *testing.T) {
	_, cache := open(t)
	for _, biases := range []map[int32]float64{{300: 1e6}, {300: 1e6, 301: 1e6}, {300: 1e6, 301: -5}} {
		request := greedy("Once", 2)
		request.LogitBias = biases
		job := must(cache.Submit(request))
		for {
			event, err := job.Next(context.Background())
			if err != nil {
				break
			}
			for _, token := range event.Tokens {
				if biases[token] != 1e6 {
					t.Errorf("token %d with %v", token, biases)
				}
			}
		}
		_ = job.Close()
	}
}

func TestALastEventHasItsUsage(t *testing.T) {
	_, cache := open(t)
	job := must(cache.Submit(greedy(input(t, "QUIRE_TEST_PROMPT"), 8)))
	defer job.Close()
	for {
		event := must(job.Next(context.Background()))
		if event.Finish == quire.FinishNone {
			if event.Usage != nil {
				t.Error("an event that is not the last has usage")
			}
			continue
		}
		if info := must(job.Info()); event.Usage.NewTokens != 8 || event.Usage.PromptTokens != info.PromptTokens {
			t.Errorf("%+v, %+v", event.Usage, info)
		}
		return
	}
}

func TestTheLogArrivesAsEventsOfAQueue(t *testing.T) {
	cache, queue := newCacheAndQueue(t, 2048)
	if err := queue.SetLogLevel(quire.LogDebug); err != nil {
		t.Fatal(err)
	}
	job := must(cache.Submit(greedy("Once", 1900)))
	defer job.Close()
	if err := cache.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	line := must(queue.Next(context.Background()))
	if line.Kind != quire.EventLog || line.LogLevel != quire.LogInfo || !strings.Contains(line.Text, "unfinished jobs") {
		t.Errorf("%+v", line)
	}
}
