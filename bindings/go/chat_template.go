package quire

import (
	"runtime"

	"quire.dev/quire/internal/native"
)

// ChatTemplate turns a conversation into a prompt, as the model's directory says. A conversation is one JSON object
// with `messages` as OpenAI has them, and whatever else the template reads, such as `tools` and
// `add_generation_prompt` (docs/chat.md). Special tokens come from the template's words alone: text of a message is
// text, whatever it contains.
type ChatTemplate struct {
	handle *handle[native.ChatTemplateHandle]
}

// NewChatTemplate makes a template from its source, in Jinja; Format with line and column where it is none.
func NewChatTemplate(source string) (*ChatTemplate, error) {
	return ownChatTemplate(native.Quire_chat_template_create, source)
}

// OpenChatTemplate takes the templates of a model directory, with the texts of its special tokens; NotFound where the
// directory has none. It reads no weights and no tokenizer.
func OpenChatTemplate(modelPath string) (*ChatTemplate, error) {
	return ownChatTemplate(native.Quire_chat_template_open, modelPath)
}

func ownChatTemplate(create func(string, *native.ErrorHandle) native.ChatTemplateHandle,
	text string) (*ChatTemplate, error) {
	created, err := call(func(e *native.ErrorHandle) native.ChatTemplateHandle { return create(text, e) })
	if err != nil {
		return nil, err
	}
	return &ChatTemplate{own(created, native.Quire_chat_template_free)}, nil
}

// Close frees the template.
func (t *ChatTemplate) Close() error { return t.handle.close() }

// Choose takes the template of a name for all renderings; an empty name ends that. NotFound tells the names there are.
func (t *ChatTemplate) Choose(name string) error {
	return t.set(name, native.Quire_chat_template_choose)
}

// SetToken gives the text of a special token, which templates know as `bos_token` and so on.
func (t *ChatTemplate) SetToken(kind TokenKind, text string) error {
	return t.set(text, func(template native.ChatTemplateHandle, text string, e *native.ErrorHandle) int32 {
		return native.Quire_chat_template_set_token(template, int32(kind), text, e)
	})
}

// SetNow says what templates take for the time now, such as "2025-07-26" or "2025-07-26T14:05:09". Without it, that of
// the system's clock, in UTC.
func (t *ChatTemplate) SetNow(text string) error {
	return t.set(text, native.Quire_chat_template_set_now)
}

func (t *ChatTemplate) set(text string,
	setter func(native.ChatTemplateHandle, string, *native.ErrorHandle) int32) error {
	_, err := with(t.handle, func(template native.ChatTemplateHandle, e *native.ErrorHandle) int32 {
		return setter(template, text, e)
	})
	return err
}

// Render is the text of the prompt. InvalidArgument has what the template refuses, in its own words.
func (t *ChatTemplate) Render(conversation string) (string, error) {
	text, err := measuredWith(t.handle, ofText(native.Quire_chat_template_render, conversation))
	return string(text), err
}

// Segments are the parts of what Render gives, in bytes: in turns one of the template's words and one of content, the
// first of the template. Any may be 0.
func (t *ChatTemplate) Segments(conversation string) ([]int64, error) {
	return measuredWith(t.handle, ofText(native.Quire_chat_template_segments, conversation))
}

// Tokens are those of the rendered conversation, with the model's tokenizer. Nothing is put around them.
func (t *ChatTemplate) Tokens(model *Model, conversation string) ([]int32, error) {
	defer runtime.KeepAlive(model)
	return measuredWith(t.handle, func(template native.ChatTemplateHandle, out []int32, e *native.ErrorHandle) int64 {
		return native.Quire_chat_template_tokens(template, model.handle.get(), conversation, out, e)
	})
}

// Hash is the SHA-256 of the source of the template that was chosen, or of the default one, in hexadecimal digits.
func (t *ChatTemplate) Hash() (string, error) {
	text, err := measuredWith(t.handle, native.Quire_chat_template_hash)
	return string(text), err
}

// ofText turns a getter of what belongs to a text into a getter of the one.
func ofText[H ~uintptr, E any](getter func(H, string, []E, *native.ErrorHandle) int64,
	text string) func(H, []E, *native.ErrorHandle) int64 {
	return func(source H, out []E, e *native.ErrorHandle) int64 { return getter(source, text, out, e) }
}
