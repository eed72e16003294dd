package local

import (
	"fmt"
	"os"
	"sort"

	"quire.dev/quire"
	"quire.dev/quire/server"
	"quire.dev/quire/server/internal/hubcache"
)

// Check returns what would fail once a checked configuration is used: missing files, templates and dialects that are
// not valid, and models that cannot be loaded or never fit. It reads headers but no weights.
func Check(config *server.Config) []error {
	runtime, err := newRuntime(config)
	if err != nil {
		return []error{err}
	}
	defer runtime.Close()
	names := make([]string, 0, len(config.Models))
	for name := range config.Models {
		names = append(names, name)
	}
	sort.Strings(names)
	var problems []error
	for _, name := range names {
		for _, problem := range checkModel(runtime, name, config.Models[name], config.MemoryBudgets) {
			problems = append(problems, fmt.Errorf("models.%s%w", name, problem))
		}
	}
	return problems
}

// checkModel returns the problems of a model; each begins with a dot and the field, or with a colon.
func checkModel(runtime *quire.Runtime, name string, model server.ModelConfig, budgets map[string]int64) []error {
	var problems []error
	add := func(field string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", field, err))
		}
	}
	path, err := hubcache.Resolve(model.Path)
	if err == nil {
		model.Path = path
		_, err = os.Stat(path)
	}
	if err != nil {
		add(".path", err)
	} else if _, _, err := loadOptions(name, model); err != nil {
		add("", err)
	} else {
		add("", checkFit(runtime, name, model, budgets))
	}
	add(".chat_template", checkTemplate(model.ChatTemplate))
	add(".dialect", checkDialect(model.Dialect))
	add(".prefix_directory", checkDirectory(model.PrefixDirectory))
	return problems
}

func checkTemplate(path string) error {
	if path == "" {
		return nil
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	template, err := quire.NewChatTemplate(string(source))
	if err != nil {
		return err
	}
	return template.Close()
}

func checkDialect(dialect string) error {
	if dialect == "" {
		return nil
	}
	parser, err := quire.NewResponseParser(dialect) // its error lists the dialects
	if err != nil {
		return err
	}
	return parser.Close()
}

// checkDirectory checks that files can be created in a directory.
func checkDirectory(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.CreateTemp(path, ".quire-check-*")
	if err != nil {
		return err
	}
	_ = file.Close()
	return os.Remove(file.Name())
}
