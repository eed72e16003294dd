package server

import (
	"encoding/json"
	"unicode/utf8"
)

// Tokens of a text or a conversation, in the formats of vLLM and of llama.cpp.

// tokenizeRequest is the body of /v1/tokenize: vLLM's `prompt` or `messages` with the other fields of a chat, or
// llama.cpp's `content`.
type tokenizeRequest struct {
	Model            string          `json:"model"`
	Prompt           *string         `json:"prompt"`
	Messages         json.RawMessage `json:"messages"`
	AddSpecialTokens *bool           `json:"add_special_tokens"` // default: true for a prompt
	ReturnTokenStrs  bool            `json:"return_token_strs"`

	Content      *string `json:"content"`
	AddSpecial   bool    `json:"add_special"`
	ParseSpecial *bool   `json:"parse_special"` // default: true
	WithPieces   bool    `json:"with_pieces"`
}

// tokenizeChat is a body with messages. It has the fields of tokenizeRequest too.
type tokenizeChat chatRequest

// checkFields refuses fields of the body that the server would ignore. Which fields a body may have depends on whether
// it has messages.
func (r *tokenizeRequest) checkFields(body []byte) error {
	if isAbsent(r.Messages) {
		return checkFields(body, tokenizeRequest{})
	}
	return checkFields(body, tokenizeChat{})
}

func (s *Server) tokenize(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	var request tokenizeRequest
	if err := decode(body, &request); err != nil {
		return err
	}
	if err := request.checkFields(body); err != nil {
		return err
	}
	s.fillModel(c, &request.Model)
	model, err := s.open(c, request.Model, len(body))
	if err != nil {
		return err
	}
	if request.Content != nil {
		return request.answerPieces(c, model)
	}
	tokens, err := request.tokens(c, model, body)
	if err != nil {
		return err
	}
	if tokens == nil {
		tokens = []int32{}
	}
	out := map[string]interface{}{"tokens": tokens, "count": len(tokens), "max_model_len": model.Info().ContextTokens}
	if request.ReturnTokenStrs {
		if out["token_strs"], err = tokenTexts(model, tokens); err != nil {
			return err
		}
	}
	return answer(c, out)
}

// tokens returns the tokens of the prompt or of the conversation.
func (r *tokenizeRequest) tokens(c *call, model *meteredModel, body json.RawMessage) ([]int32, error) {
	if isAbsent(r.Messages) {
		text := ""
		if r.Prompt != nil {
			text = *r.Prompt
		}
		return model.Tokenize(text, r.AddSpecialTokens == nil || *r.AddSpecialTokens)
	}
	if r.Prompt != nil {
		return nil, invalid("messages", "prompt and messages exclude each other; send one of them")
	}
	if r.AddSpecialTokens != nil && *r.AddSpecialTokens {
		return nil, invalid("add_special_tokens", "add_special_tokens must be false for messages: their special tokens come "+
			"from the chat template")
	}
	var chat chatRequest
	if err := decode(body, &chat); err != nil {
		return nil, err
	}
	g, err := chat.generation(c)
	if err != nil {
		return nil, err
	}
	if g.Rendered, err = chat.cut(model, g, g.MaxNewTokens); err != nil {
		return nil, err
	}
	return model.PromptTokens(g)
}

// piecedToken is a token in llama.cpp's format. The piece is a text, or a list of bytes if it is not UTF-8.
type piecedToken struct {
	ID    int32       `json:"id"`
	Piece interface{} `json:"piece"`
}

func (r *tokenizeRequest) answerPieces(c *call, model Model) error {
	encode := model.TokenizeMarkup
	if r.ParseSpecial != nil && !*r.ParseSpecial {
		encode = model.Tokenize
	}
	tokens, err := encode(*r.Content, r.AddSpecial)
	if err != nil {
		return err
	}
	if !r.WithPieces {
		return answer(c, map[string][]int32{"tokens": append([]int32{}, tokens...)})
	}
	pieces := make([]piecedToken, len(tokens))
	for i, token := range tokens {
		bytes, err := model.TokenBytes(token)
		if err != nil {
			return err
		}
		pieces[i] = piecedToken{token, string(bytes)}
		if !utf8.Valid(bytes) {
			pieces[i].Piece = bytesOf(bytes)
		}
	}
	return answer(c, map[string][]piecedToken{"tokens": pieces})
}

// tokenTexts returns the text of each token. Bytes that form no character become U+FFFD.
func tokenTexts(model Model, tokens []int32) ([]string, error) {
	texts := make([]string, len(tokens))
	for i, token := range tokens {
		bytes, err := model.TokenBytes(token)
		if err != nil {
			return nil, err
		}
		texts[i] = string(bytes)
	}
	return texts, nil
}

// detokenizeRequest is the body of /v1/detokenize.
type detokenizeRequest struct {
	Model  string  `json:"model"`
	Tokens []int32 `json:"tokens"`
}

// detokenize answers with the text under vLLM's name and under llama.cpp's.
func (s *Server) detokenize(c *call) error {
	var request detokenizeRequest
	if err := c.read(&request); err != nil {
		return err
	}
	s.fillModel(c, &request.Model)
	model, err := s.open(c, request.Model, 4*len(request.Tokens))
	if err != nil {
		return err
	}
	text, err := model.Detokenize(request.Tokens)
	if err != nil {
		return err
	}
	return answer(c, map[string]string{"prompt": text, "content": text})
}
