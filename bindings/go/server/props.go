package server

import (
	"context"
	"net/http"
)

// llama.cpp's descriptions of a server: its model, its slots, and prompts as its chat template renders them.

// described opens the model of a request without a body: that of the parameter `model`, or the only one.
func (s *Server) described(w http.ResponseWriter, r *http.Request, describe func(name string, model Model) (interface{}, error)) {
	key, failure := s.admission.authenticate(r)
	if failure != nil {
		s.fail(w, r, failure)
		return
	}
	config := s.config.Load()
	ctx, cancel := context.WithTimeout(r.Context(), config.Limits.requestTime())
	defer cancel()
	c := &call{exchange: w.(*exchange), server: s, r: r, ctx: ctx, cancel: cancel, key: key, config: config}
	defer c.end()
	name := r.URL.Query().Get("model")
	s.fillModel(c, &name)
	model, err := s.open(c, name, 0)
	if err != nil {
		s.sendFailure(c, err)
		return
	}
	body, err := describe(name, model)
	if err != nil {
		s.sendFailure(c, err)
		return
	}
	_ = answer(w, body)
}

func (s *Server) props(w http.ResponseWriter, r *http.Request) {
	s.described(w, r, func(name string, model Model) (interface{}, error) {
		info := model.Info()
		return map[string]interface{}{
			"default_generation_settings": map[string]interface{}{"id": 0, "id_task": -1, "n_ctx": info.ContextTokens,
				"speculative": false, "is_processing": false, "params": map[string]interface{}{"n_predict": -1, "max_tokens": -1}},
			"total_slots": info.MaxJobs, "model_alias": name, "model_path": name, "chat_template": info.Template,
			"chat_template_caps": map[string]bool{"supports_tools": info.Calls, "supports_tool_calls": info.Calls},
			"bos_token":          info.BOS, "eos_token": info.EOS, "modalities": map[string]bool{"vision": false, "audio": false},
			"build_info": "quire " + s.version(), "is_sleeping": false}, nil
	})
}

type slotBody struct {
	ID           int  `json:"id"`
	IDTask       int  `json:"id_task"`
	ContextSize  int  `json:"n_ctx"`
	Speculative  bool `json:"speculative"`
	IsProcessing bool `json:"is_processing"`
}

// slots lists as many slots as the model runs jobs at the same time; the first of them are those that are taken.
// A model that is not resident has none: to look at it must not load it.
func (s *Server) slots(w http.ResponseWriter, r *http.Request) {
	wanted := r.URL.Query().Get("fail_on_no_slot")
	if s.isOnDisk(r.URL.Query().Get("model")) {
		s.listForKey(w, r, func([]string) interface{} { return []slotBody{} })
		return
	}
	s.described(w, r, func(name string, model Model) (interface{}, error) {
		info := model.Info()
		running := 0
		if manager, is := s.engine.(Manager); is {
			running = manager.Loads()[s.config.Load().target(name)].Running
		}
		if wanted != "" && wanted != "0" && running >= info.MaxJobs {
			return nil, unavailable(0, "all %d slots are in use; send the request again later", info.MaxJobs)
		}
		slots := make([]slotBody, info.MaxJobs)
		for i := range slots {
			slots[i] = slotBody{ID: i, IDTask: -1, ContextSize: info.ContextTokens, IsProcessing: i < running}
		}
		return slots, nil
	})
}

// isOnDisk reports whether a model of the configuration, or the only one for "", is not resident.
func (s *Server) isOnDisk(name string) bool {
	manager, is := s.engine.(Manager)
	config := s.config.Load()
	if name == "" {
		name = onlyModel(config, Key{})
	}
	state, known := map[string]string(nil), false
	if is {
		state = manager.States()
		_, known = state[config.target(name)]
	}
	return known && state[config.target(name)] != StateResident
}

// applyTemplate answers with the prompt of a conversation.
func (s *Server) applyTemplate(c *call) error {
	request, g, err := c.readChat()
	if err != nil {
		return err
	}
	s.fillModel(c, &request.Model)
	model, err := s.open(c, request.Model, len(request.Messages))
	if err != nil {
		return err
	}
	text, err := model.PromptText(g)
	if err != nil {
		return err
	}
	return answer(c, map[string]string{"prompt": text})
}
