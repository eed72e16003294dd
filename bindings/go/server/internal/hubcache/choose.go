package hubcache

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// Among several GGUF files without a choice this one is taken, as llama.cpp does.
const usualQuantization = "Q4_K_M"

var splitName = regexp.MustCompile(`^(.+)-([0-9]{5})-of-([0-9]{5})\.gguf$`)

// ggufModel is a model in one GGUF file or in several.
type ggufModel struct {
	stem  string // path without numbers of parts and without ".gguf"
	count int
	parts map[int]string
}

// choose returns the path to open among the files of a snapshot, by the rules of the command
// (capi/hub/choose_files.cpp): a model directory, or the first file of a GGUF model.
func choose(files []string, choice string) (string, error) {
	folders := modelFolders(files)
	if folders[choice] {
		return choice, nil
	}
	if models := ggufModels(files); len(models) > 0 {
		return chooseGguf(models, choice)
	}
	if len(folders) == 0 {
		return "", errors.New("it has no model that Quire reads: neither config.json with *.safetensors nor *.gguf")
	}
	if choice != "" && folders[""] {
		return "", fmt.Errorf("no file matches %q; it has one model, and other precisions may be branches: ORG/NAME@BRANCH", choice)
	}
	names := make([]string, 0, len(folders))
	for folder := range folders {
		names = append(names, folder)
	}
	return "", several(names)
}

func several(choices []string) error {
	sort.Strings(choices)
	return fmt.Errorf("several models match; write ORG/NAME:CHOICE with one of %s", strings.Join(choices, ", "))
}

// modelFolders returns the folders with a configuration and weights; "" is the root.
func modelFolders(files []string) map[string]bool {
	configs, weights := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		folder, name := path.Split(file)
		folder = strings.TrimSuffix(folder, "/")
		switch {
		case name == "config.json" || name == "params.json":
			configs[folder] = true
		case strings.HasSuffix(name, ".safetensors") && name != ".safetensors":
			weights[folder] = true
		}
	}
	for folder := range configs {
		if !weights[folder] {
			delete(configs, folder)
		}
	}
	return configs
}

func ggufModels(files []string) []*ggufModel {
	models := map[string]*ggufModel{}
	for _, file := range files {
		name := strings.ToLower(path.Base(file))
		if !strings.HasSuffix(name, ".gguf") || name == ".gguf" || strings.Contains(name, "mmproj") ||
			strings.HasPrefix(name, "imatrix") {
			continue
		}
		stem, number, count := file[:len(file)-len(".gguf")], 1, 1
		if match := splitName.FindStringSubmatch(file); match != nil {
			part, _ := strconv.Atoi(match[2])
			parts, _ := strconv.Atoi(match[3])
			if part > 0 && parts > 0 {
				stem, number, count = match[1], part, parts
			}
		}
		key := fmt.Sprintf("%s/%05d", stem, count)
		if models[key] == nil {
			models[key] = &ggufModel{stem: stem, count: count, parts: map[int]string{}}
		}
		models[key].parts[number] = file
	}
	keys := make([]string, 0, len(models))
	for key := range models {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	out := make([]*ggufModel, 0, len(models))
	for _, key := range keys {
		out = append(out, models[key])
	}
	return out
}

func chooseGguf(models []*ggufModel, choice string) (string, error) {
	for _, model := range models {
		for _, file := range model.parts {
			if file == choice {
				return model.first()
			}
		}
	}
	found := models
	if choice != "" {
		if found = withWord(models, choice); len(found) == 0 {
			return "", fmt.Errorf("no file matches %q; there are %s", choice, strings.Join(choicesOf(models, models), ", "))
		}
	} else if usual := withWord(models, usualQuantization); len(usual) == 1 {
		found = usual
	}
	if len(found) > 1 {
		return "", several(choicesOf(models, found))
	}
	return found[0].first()
}

// first returns the file to open of a model that has all its parts.
func (m *ggufModel) first() (string, error) {
	if len(m.parts) != m.count || m.parts[1] == "" || m.parts[m.count] == "" {
		return "", fmt.Errorf("%s: %d of its %d files are there; the model is incomplete", m.stem, len(m.parts), m.count)
	}
	return m.parts[1], nil
}

// withWord returns the models whose path has the quantization as a word: Q4_K is in "x-Q4_K.gguf" but not in
// "x-Q4_K_M.gguf".
func withWord(models []*ggufModel, word string) []*ggufModel {
	pattern := regexp.MustCompile(`(?i)(^|[^0-9a-z])` + regexp.QuoteMeta(word) + `([-./]|$)`)
	var found []*ggufModel
	for _, model := range models {
		if pattern.MatchString(model.stem) {
			found = append(found, model)
		}
	}
	return found
}

var quantization = regexp.MustCompile(`(?i)^((i|t)?q.*|b?f16|f32|.*fp4.*)$`)

// choicesOf returns the shortest choice that leads to each model only.
func choicesOf(all, models []*ggufModel) []string {
	var choices []string
	for _, model := range models {
		word := path.Base(model.stem)
		word = word[strings.LastIndexAny(word, "-.")+1:]
		if quantization.MatchString(word) && strings.ContainsAny(word, "0123456789") && len(withWord(all, word)) == 1 {
			choices = append(choices, word)
			continue
		}
		for number := 1; ; number++ {
			if file := model.parts[number]; file != "" {
				choices = append(choices, file)
				break
			}
		}
	}
	return choices
}
