package server

import (
	"math"
	"sort"
)

// newWriter returns the writer of log-probabilities of an answer, and nil if the request wants none.
func (w *completion) newWriter() *logProbWriter {
	if w.request.LogProbs == nil {
		return nil
	}
	return &logProbWriter{fields: &w.request.tokenFields, numTop: *w.request.LogProbs}
}

// echo returns the beginning of an answer: what the request asks to know about its prompt, and the prompt if it is
// echoed.
func (w *completion) echo(prompt *completionPrompt, writer *logProbWriter) completionChoice {
	choice := completionChoice{Text: prompt.text, PromptTokenIDs: prompt.ids,
		PromptLogProbs: w.request.promptLogProbs(prompt.logProbs)}
	if writer != nil {
		choice.LogProbs = &completionLogProbs{Tokens: []string{}, TokenLogProbs: []logProb{}, TopLogProbs: []alternatives{},
			TextOffset: []int{}}
		if w.request.Echo {
			writer.add(choice.LogProbs, prompt.logProbs, prompt.isText)
		}
	}
	return choice
}

func (s *Server) wholeCompletion(c *call, w *completion) error {
	gathered, err := gather(c, w.streams)
	if err != nil {
		return err
	}
	for i := range w.prompts {
		for _, whole := range w.best(gathered[i*w.numEach : (i+1)*w.numEach]) {
			writer := w.newWriter()
			choice := w.echo(&w.prompts[i], writer)
			word := finishWord(whole.result.Finish)
			choice.Index, choice.FinishReason, choice.TokenIDs = len(w.body.Choices), &word, whole.tokens
			choice.Text += whole.content.String()
			if writer != nil {
				writer.add(choice.LogProbs, whole.logProbs, false)
			}
			w.body.Choices = append(w.body.Choices, choice)
		}
	}
	results := resultsOf(gathered)
	w.body.Usage = completionUsage(results, w.numEach)
	w.body.Timings = newTimings(results[:w.numEach])
	s.account(c, w.withPrompts(results))
	return answer(c, w.body)
}

// best returns the requested number of answers: those with the largest mean log-probability of a token, if there are
// more.
func (w *completion) best(answers []*wholeMessage) []*wholeMessage {
	if len(answers) == w.num {
		return answers
	}
	ranked := append([]*wholeMessage{}, answers...)
	sort.SliceStable(ranked, func(i, j int) bool { return ranked[i].meanLogProb() > ranked[j].meanLogProb() })
	return ranked[:w.num]
}

func (m *wholeMessage) meanLogProb() float64 {
	if len(m.logProbs) == 0 {
		return math.Inf(-1)
	}
	sum := 0.0
	for _, entry := range m.logProbs {
		sum += entry.Log
	}
	return sum / float64(len(m.logProbs))
}

// withPrompts adds the work on log-probabilities of prompts to the results, unless the results are this work.
func (w *completion) withPrompts(results []Result) []Result {
	if w.request.echoesOnly() {
		return results
	}
	out := append([]Result{}, results...)
	for _, prompt := range w.prompts {
		if prompt.usage.Prompt > 0 {
			out = append(out, Result{Usage: prompt.usage})
		}
	}
	return out
}

// completionUsage counts each prompt once.
func completionUsage(results []Result, perPrompt int) *usageBody {
	total := &usageBody{}
	for first := 0; first < len(results); first += perPrompt {
		part := newUsage(results[first : first+perPrompt])
		total.PromptTokens += part.PromptTokens
		total.CompletionTokens += part.CompletionTokens
		total.PromptDetails.Cached += part.PromptDetails.Cached
	}
	total.TotalTokens = total.PromptTokens + total.CompletionTokens
	return total
}

func (s *Server) streamCompletion(c *call, w *completion) error {
	out := newSSE(c)
	texts := make([]chunk, len(w.streams))
	writers := make([]*logProbWriter, len(w.streams))
	for i := range w.streams {
		text := w.body
		text.Choices = []completionChoice{{Index: i, Text: inText}}
		if err := texts[i].encode(text); err != nil {
			return err
		}
		writers[i] = w.newWriter()
		if err := w.sendEcho(out, i, writers[i]); err != nil {
			return err
		}
	}
	results := make([]Result, len(w.streams))
	err := c.relay(w.streams, c.heartbeat(), out.heartbeat, func(item indexed) error {
		if !item.end && len(item.piece.LogProbs) == 0 && len(item.piece.Tokens) == 0 {
			return out.sendChunk(&texts[item.choice], item.piece.Text)
		}
		choice := completionChoice{Index: item.choice, Text: item.piece.Text, TokenIDs: item.piece.Tokens}
		if item.end {
			results[item.choice] = item.result
			word := finishWord(item.result.Finish)
			choice.FinishReason = &word
		}
		if len(item.piece.LogProbs) > 0 && writers[item.choice] != nil {
			choice.LogProbs = &completionLogProbs{}
			writers[item.choice].add(choice.LogProbs, item.piece.LogProbs, false)
		}
		chunk := w.body
		chunk.Choices = []completionChoice{choice}
		if item.end {
			chunk.Timings = newTimings(results[item.choice : item.choice+1])
		}
		return out.send("", chunk)
	})
	if err != nil {
		return err
	}
	s.account(c, w.withPrompts(results))
	if w.request.StreamOptions != nil && w.request.StreamOptions.IncludeUsage {
		w.body.Choices = []completionChoice{}
		w.body.Usage = completionUsage(results, w.numEach)
		w.body.Timings = newTimings(results[:w.numEach])
		if err := out.send("", w.body); err != nil {
			return err
		}
	}
	return out.sendText("", "[DONE]")
}

// sendEcho sends the beginning of an answer as a chunk of its own, if there is one.
func (w *completion) sendEcho(out *sse, i int, writer *logProbWriter) error {
	choice := w.echo(&w.prompts[i/w.numEach], writer)
	if !w.request.Echo && choice.PromptTokenIDs == nil {
		return nil
	}
	choice.Index = i
	if !w.request.Echo {
		choice.LogProbs = nil
	}
	chunk := w.body
	chunk.Choices = []completionChoice{choice}
	return out.send("", chunk)
}
