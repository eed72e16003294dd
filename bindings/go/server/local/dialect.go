package local

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// Dialect of models without tool calls.
const plainDialect = "plain"

// chooseDialect takes the dialect of the configuration, otherwise that of the template, otherwise that of the
// vocabulary. Whether the model reasons is a question of its own: most dialects can express reasoning, and
// many models that use them never reason.
func (m *model) chooseDialect(config server.ModelConfig) error {
	m.dialect = plainDialect
	m.reasons = m.template != nil && reasoningWords.MatchString(templateSource(config))
	if config.Thinks != nil {
		m.reasons = *config.Thinks
	}
	if config.Dialect != "" {
		parser, err := quire.NewResponseParser(config.Dialect) // its error lists the dialects
		if err != nil {
			return err
		}
		m.dialect = config.Dialect
		return parser.Close()
	}
	if m.template == nil {
		return nil
	}
	var err error
	m.dialect, err = m.template.Dialect(m.model)
	return err
}

// reasoningWords matches names and markers of reasoning in templates, as the library does. If a template has none of
// them, its model is constrained from the first token on.
var reasoningWords = regexp.MustCompile(`(?i)think|thought|reason|analysis|inner_prefix|to=self`)

// templateSource returns the text of the template that the library has read; "" if it is in none of the usual
// files.
func templateSource(config server.ModelConfig) string {
	path := config.ChatTemplate
	if path == "" {
		path = filepath.Join(config.Path, "chat_template.jinja")
	}
	if source, err := os.ReadFile(path); err == nil {
		return string(source)
	}
	if source := ggufTemplate(config.Path); source != "" {
		return source
	}
	text, err := os.ReadFile(filepath.Join(config.Path, "tokenizer_config.json"))
	if err != nil {
		return ""
	}
	var tokenizer struct {
		ChatTemplate json.RawMessage `json:"chat_template"` // a text, or several with names
	}
	_ = json.Unmarshal(text, &tokenizer)
	return string(tokenizer.ChatTemplate)
}
