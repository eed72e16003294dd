package server

import "encoding/json"

// Token ids of a prompt, in vLLM's format. Routers compare them with the tokens in page events.

type rendered struct {
	RequestID string  `json:"request_id"`
	Model     string  `json:"model"`
	TokenIDs  []int32 `json:"token_ids"`

	// Changes of the conversation that gave it the form that the template needs; only of chats.
	Changes json.RawMessage `json:"changes,omitempty"`
}

func renderPrompt(model Model, name string, g *Generation) (rendered, error) {
	tokens, err := model.PromptTokens(g)
	return rendered{RequestID: newID("render-"), Model: name, TokenIDs: tokens}, err
}

// renderCompletions answers with a list that has one entry per prompt.
func (s *Server) renderCompletions(c *call) error {
	var request completionRequest
	if err := c.read(&request); err != nil {
		return err
	}
	s.fillModel(c, &request.Model)
	model, err := s.open(c, request.Model, request.Prompt.numBytes())
	if err != nil {
		return err
	}
	prompts := make([]rendered, len(request.Prompt))
	for i, prompt := range request.Prompt {
		g := &Generation{Prompt: request.asSent(prompt)}
		if err := request.cutPrompt(model, g); err != nil {
			return err
		}
		if prompts[i], err = renderPrompt(model, request.Model, g); err != nil {
			return err
		}
	}
	return answer(c, prompts)
}

func (s *Server) renderChat(c *call) error {
	request, g, err := c.readChat()
	if err != nil {
		return err
	}
	s.fillModel(c, &request.Model)
	model, err := s.open(c, request.Model, len(request.Messages))
	if err != nil {
		return err
	}
	if g.Rendered, err = request.cut(model, g, g.MaxNewTokens); err != nil {
		return err
	}
	prompt, err := renderPrompt(model, request.Model, g)
	if err != nil {
		return err
	}
	if prompt.Changes, err = model.PromptChanges(g); err != nil {
		return err
	}
	return answer(c, prompt)
}
