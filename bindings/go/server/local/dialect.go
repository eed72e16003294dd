package local

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// The dialect of models that call no tools.
const plainDialect = "plain"

// chooseDialect takes the dialect that the configuration names, else the one that the template, or else the vocabulary
// tells.
func (m *model) chooseDialect(config server.ModelConfig) error {
	m.dialect = plainDialect
	if config.Dialect != "" {
		parser, err := quire.NewResponseParser(config.Dialect) // which says what dialects there are
		if err != nil {
			return err
		}
		m.dialect, m.reasons = config.Dialect, true
		return parser.Close()
	}
	if m.template == nil {
		return nil
	}
	m.reasons = speaksOfReasoning.MatchString(templateSource(config))
	var err error
	m.dialect, err = m.template.Dialect(m.model)
	return err
}

// speaksOfReasoning finds the names and marks that templates have for reasoning. A model of which its template says
// nothing of the kind is held to its format from the first token on.
var speaksOfReasoning = regexp.MustCompile(`(?i)think|thought|reason|analysis|inner_prefix`)

// templateSource is the text of the template, which the library has read; "" where it lies in no file that is known.
func templateSource(config server.ModelConfig) string {
	path := config.ChatTemplate
	if path == "" {
		path = filepath.Join(config.Path, "chat_template.jinja")
	}
	if source, err := os.ReadFile(path); err == nil {
		return string(source)
	}
	text, err := os.ReadFile(filepath.Join(config.Path, "tokenizer_config.json"))
	if err != nil {
		return ""
	}
	var says struct {
		ChatTemplate json.RawMessage `json:"chat_template"` // a text, or several with names
	}
	_ = json.Unmarshal(text, &says)
	return string(says.ChatTemplate)
}
