package server

import (
	"encoding/json"
	"sort"
)

// fitContext drops the oldest turns of a conversation until its prompt leaves room for the answer:
// max_output_tokens, or an eighth of the context, but at most half of it. System messages at the beginning
// stay, and so does the last turn, which may be refused as too long.
func (w *responseWork) fitContext(model *meteredModel) error {
	context := model.Info().ContextTokens
	room := context / 8
	if w.request.MaxOutputTokens != nil {
		room = *w.request.MaxOutputTokens
	}
	if room > context/2 {
		room = context / 2
	}
	first, turns := turnsOf(w.messages)
	var failure error
	fits := func(turn int) bool {
		if failure = w.dropUntil(first, turns[turn]); failure != nil {
			return true
		}
		var tokens []int32
		tokens, failure = model.tokensToCut(w.generation)
		return failure != nil || len(tokens) <= context-room
	}
	if len(turns) == 0 || fits(0) {
		return failure
	}
	turn := 1 + sort.Search(len(turns)-1, func(i int) bool { return fits(i + 1) })
	if failure != nil {
		return failure
	}
	if turn == len(turns) {
		turn--
	}
	return w.dropUntil(first, turns[turn])
}

// turnsOf returns the number of system messages at the beginning, and the index of the first message of each
// turn: a message of the user, and those up to the next one.
func turnsOf(messages []chatMessage) (first int, turns []int) {
	for first < len(messages) && (messages[first].Role == "system" || messages[first].Role == "developer") {
		first++
	}
	for i := first; i < len(messages); i++ {
		if i == first || messages[i].Role == "user" {
			turns = append(turns, i)
		}
	}
	return first, turns
}

// dropUntil sets the messages of the generation, without those from first to the index next.
func (w *responseWork) dropUntil(first, next int) error {
	kept := append(append([]chatMessage{}, w.messages[:first]...), w.messages[next:]...)
	text, err := json.Marshal(kept)
	w.generation.Messages = text
	return err
}
