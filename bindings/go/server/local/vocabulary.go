package local

import (
	"quire.dev/quire"
	"quire.dev/quire/server"
)

// TokenizeMarkup returns the tokens of a text; the text of special tokens becomes those tokens.
func (m *model) TokenizeMarkup(text string, addSpecial bool) ([]int32, error) {
	tokens, err := m.model.Encode(text, addSpecial, true)
	return tokens, refusal("prompt", err)
}

// TokenBytes returns the bytes of a token.
func (m *model) TokenBytes(token int32) ([]byte, error) {
	bytes, err := m.model.TokenBytes(token)
	return bytes, refusal("tokens", err)
}

// FindToken returns the token with this spelling, or -1.
func (m *model) FindToken(text string) (int32, error) { return m.model.FindToken(text) }

// PromptText returns the prompt of a conversation as the chat template renders it.
func (m *model) PromptText(g *server.Generation) (string, error) {
	var request quire.Request
	prompt := promptOf(g)
	if err := m.fillPrompt(&request, &prompt); err != nil {
		return "", err
	}
	text, err := m.model.RenderChat(request)
	return text, refusal(promptField(&prompt), err)
}
