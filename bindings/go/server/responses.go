package server

import (
	"encoding/json"
)

// responseWork is a checked request of /v1/responses, ready to run.
type responseWork struct {
	request    *responsesRequest
	body       *responseBody
	generation *Generation
	messages   []chatMessage // of the prompt, with instructions
	items      []item        // of the prompt, without instructions: those of a new request do not inherit them
	numEarlier int           // items from the previous response or the conversation
	events     *eventLog     // of a background response that is streamed; nil otherwise
}

// prepare checks a request and forms its prompt.
func (s *Server) prepare(c *call, request *responsesRequest) (*responseWork, error) {
	s.fillModel(c, &request.Model)
	if isAbsent(request.Input) {
		return nil, invalid("input", "input is missing")
	}
	if err := request.check(); err != nil {
		return nil, err
	}
	earlier, err := s.earlierItems(c.key.Owner, request)
	if err != nil {
		return nil, err
	}
	input, err := itemsOfInput("input", request.Input, s.knownItems(c.key.Owner))
	if err != nil {
		return nil, err
	}
	work := &responseWork{request: request, body: newResponseBody(request), numEarlier: len(earlier),
		items: append(earlier[:len(earlier):len(earlier)], input...)}
	if work.messages, err = messagesOfItems(work.items); err != nil {
		return nil, err
	}
	if request.Instructions != nil && *request.Instructions != "" {
		work.messages = append([]chatMessage{{Role: "system", Content: *request.Instructions}}, work.messages...)
	}
	return work, work.generate(c)
}

// earlierItems returns the items that come before the input.
func (s *Server) earlierItems(owner string, request *responsesRequest) ([]item, error) {
	if request.PreviousResponseID != nil {
		id := *request.PreviousResponseID
		stored, is := s.stored.get(id, owner).(*storedResponse)
		if !is {
			return nil, notFound("previous_response_not_found", "previous_response_id is %q, which is not stored", id)
		}
		if stored.isRunning() {
			return nil, invalid("previous_response_id", "the response %q has no answer yet; wait until its status is completed", id)
		}
		return stored.items, nil
	}
	if request.Conversation != nil {
		stored, is := s.stored.get(string(*request.Conversation), owner).(*conversation)
		if !is {
			return nil, noConversation(string(*request.Conversation))
		}
		return stored.items, nil
	}
	return nil, nil
}

// knownItems returns a function that finds an item by its id in everything that is stored for the owner.
func (s *Server) knownItems(owner string) func(id string) *item {
	var byID map[string]*item
	return func(id string) *item {
		if byID == nil {
			byID = map[string]*item{}
			s.stored.eachOf(owner, func(content storedContent) {
				items := content.ownItems()
				for i := range items {
					byID[items[i].id] = &items[i]
				}
			})
		}
		return byID[id]
	}
}

// generate sets the generation of the work.
func (w *responseWork) generate(c *call) error {
	request := w.request
	if num, err := request.choices(&c.config.Limits); err != nil || num != 1 {
		return invalid("n", "n must be 1: a response has one answer")
	}
	messages, err := json.Marshal(w.messages)
	if err != nil {
		return err
	}
	tools, err := toolsOf(request.Tools)
	if err != nil {
		return err
	}
	chat := chatRequest{commonFields: request.commonFields, Messages: messages, ToolChoice: request.ToolChoice,
		ParallelToolCalls: request.ParallelToolCalls, MaxTokens: request.MaxOutputTokens, ResponseFormat: request.format()}
	if request.Reasoning != nil && request.Reasoning.Effort != nil {
		chat.ReasoningEffort = *request.Reasoning.Effort
	}
	if chat.Tools, err = chatToolsOf(tools); err != nil {
		return err
	}
	if w.generation, err = chat.generation(c); err != nil {
		return err
	}
	w.generation.LogProbs = request.wantsLogProbs()
	if request.TopLogProbs != nil {
		w.generation.TopLogProbs = *request.TopLogProbs
	}
	return nil
}

// start opens the model and submits the generation.
func (s *Server) start(c *call, work *responseWork) (Stream, error) {
	model, err := s.open(c, work.request.Model, len(work.generation.Messages))
	if err != nil {
		return nil, err
	}
	if work.request.Truncation != nil && *work.request.Truncation == "auto" {
		if err := work.fitContext(model); err != nil {
			return nil, err
		}
	}
	return model.Submit(c.ctx, work.generation)
}

func (s *Server) createResponse(c *call) error {
	return renamed(s.respond(c), responsesNames)
}

func (s *Server) respond(c *call) error {
	var request responsesRequest
	if err := c.read(&request); err != nil {
		return err
	}
	work, err := s.prepare(c, &request)
	if err != nil {
		return err
	}
	if err := s.requireRoom(work); err != nil {
		return err
	}
	if request.Background {
		return s.respondLater(c, work)
	}
	stream, err := s.start(c, work)
	if err != nil {
		return err
	}
	defer stream.Close()
	writer := newResponseWriter(work.body)
	if request.Stream {
		out := newSSE(c)
		writer.send, writer.beat = out.send, out.heartbeat
	}
	writer.keep = func() error { return s.keep(c.key.Owner, work) }
	if err := writer.run(c, stream); err != nil {
		return writer.fail(err)
	}
	s.account(c, []Result{writer.result})
	if request.Stream {
		return nil
	}
	return answer(c, work.body)
}

// requireRoom refuses a request that is too large to be stored, before it is computed.
func (s *Server) requireRoom(work *responseWork) error {
	if !work.request.stores() {
		return nil
	}
	stored, err := work.stored()
	if err != nil {
		return err
	}
	return s.stored.requireRoom(stored.id, stored)
}

// keep stores a finished response, and adds its items to its conversation.
func (s *Server) keep(owner string, work *responseWork) error {
	request := work.request
	if !request.stores() && request.Conversation == nil {
		return nil
	}
	stored, err := work.stored()
	if err != nil {
		return err
	}
	if request.Background { // first, because a cancelled response adds nothing to its conversation
		err = s.replace(owner, stored)
	}
	if err == nil && request.Conversation != nil {
		err = s.extend(string(*request.Conversation), owner, stored.ownItems())
	}
	if err == nil && request.stores() && !request.Background {
		err = s.stored.put(stored.id, owner, stored)
	}
	return err
}

// countInputTokens answers /v1/responses/input_tokens.
func (s *Server) countInputTokens(c *call) error {
	var request responsesRequest
	if err := c.read(&request); err != nil {
		return err
	}
	count, err := s.numInputTokens(c, &request)
	if err != nil {
		return renamed(err, responsesNames)
	}
	return answer(c, map[string]interface{}{"object": "response.input_tokens", "input_tokens": count})
}

func (s *Server) numInputTokens(c *call, request *responsesRequest) (int, error) {
	work, err := s.prepare(c, request)
	if err != nil {
		return 0, err
	}
	model, err := s.open(c, request.Model, len(work.generation.Messages))
	if err != nil {
		return 0, err
	}
	tokens, err := model.PromptTokens(work.generation)
	return len(tokens), err
}
