package local

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"quire.dev/quire"
	"quire.dev/quire/server"
	"quire.dev/quire/server/internal/hubcache"
)

// Describe returns the description of a model without loading its weights. The files are read once; what changes
// while the server runs is added each time.
func (e *Engine) Describe(name string) (server.Description, error) {
	e.mutex.Lock()
	s := e.models[name]
	if s == nil {
		e.mutex.Unlock()
		return server.Description{}, gone(name)
	}
	config, known := s.config, s.described
	e.mutex.Unlock()
	var failure error
	if known == nil {
		read, err := e.read(config)
		known, failure = &read, err
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if failure == nil {
		s.described = known
	}
	out := *known
	if m := s.current; m != nil {
		out.Resident, out.ContextTokens = true, int64(m.info.ContextTokens)
		if onAccelerator(config.Devices) {
			out.DeviceBytes = m.weightBytes
		}
		if config.IdleSeconds > 0 {
			since := m.used
			if m.users > 0 {
				since = time.Now()
			}
			out.Expires = since.Add(time.Duration(config.IdleSeconds) * time.Second)
		}
	}
	return out, failure
}

func onAccelerator(devices []string) bool {
	for _, device := range devices {
		if device != "cpu" {
			return true
		}
	}
	return false
}

// read describes the files of a model.
func (e *Engine) read(config server.ModelConfig) (server.Description, error) {
	var out server.Description
	path, err := hubcache.Resolve(config.Path)
	if err != nil {
		return out, err
	}
	loaded, err := e.runtime.LoadModelContext(e.ctx, path, quire.ModelOptions{Scope: quire.ScopeMetadata})
	if err != nil {
		return out, err
	}
	defer loaded.Close()
	if config.Path, err = loaded.Path(); err != nil { // of several precisions, the chosen one
		return out, err
	}
	if err := describeFiles(&out, config.Path); err != nil {
		return out, err
	}
	info, err := loaded.Info()
	if err != nil {
		return out, err
	}
	out.Architecture, out.ContextTokens, out.VocabSize = info.Architecture, info.MaxContext, info.VocabSize
	out.Layers, out.HiddenSize, out.Heads, out.KVHeads = info.NumLayers, info.HiddenSize, info.NumHeads, info.NumKVHeads
	out.Family = family(config.Path, info.Architecture)
	if err := describeTensors(&out, loaded, info); err != nil {
		return out, err
	}
	return out, describeAnswers(&out, loaded, config)
}

// describeTensors sets the number of parameters, and the storage format of most of them.
func describeTensors(out *server.Description, loaded *quire.Model, info quire.ModelInfo) error {
	tensors, err := loaded.Tensors()
	if err != nil {
		return err
	}
	byFormat := map[string]int64{}
	for _, tensor := range tensors {
		count := int64(1)
		for _, size := range tensor.Shape {
			count *= size
		}
		out.Parameters += count
		byFormat[tensor.Format] += count
	}
	most := ""
	for format, count := range byFormat {
		if count > byFormat[most] || count == byFormat[most] && format < most {
			most = format
		}
	}
	out.Quantization = strings.ToUpper(most)
	if most != "" && most != "f16" && most != "bf16" && most != "f32" {
		out.Quantization = fmt.Sprintf("%s-%.1fbpw", out.Quantization, info.BitsPerWeight)
	}
	return nil
}

// describeAnswers sets what the template and the vocabulary of a model allow.
func describeAnswers(out *server.Description, loaded *quire.Model, config server.ModelConfig) error {
	out.Infills = server.HasInfillMarks(loaded.FindToken)
	template, err := chatTemplate(loaded, config)
	if template == nil || err != nil {
		return err
	}
	defer template.Close()
	m := &model{model: loaded, template: template}
	if err := m.chooseDialect(config); err != nil {
		return err
	}
	out.Template, out.Calls, out.Reasons = templateSource(config), m.dialect != plainDialect, m.reasons
	return nil
}

// family returns the model_type of config.json, or a name made of the architecture.
func family(path, architecture string) string {
	text, err := os.ReadFile(filepath.Join(path, "config.json"))
	var config struct {
		ModelType string `json:"model_type"`
	}
	if err == nil && json.Unmarshal(text, &config) == nil && config.ModelType != "" {
		return config.ModelType
	}
	return strings.ToLower(strings.TrimSuffix(architecture, "ForCausalLM"))
}

// describeFiles sets the size, the time and a digest of a file, or of the files of a directory. The digest is made
// of names, sizes and times: to read the weights would take too long.
func describeFiles(out *server.Description, path string) error {
	var lines []string
	add := func(name string, info fs.FileInfo) {
		out.Bytes += info.Size()
		if info.ModTime().After(out.Modified) {
			out.Modified = info.ModTime()
		}
		if strings.HasSuffix(name, ".gguf") {
			out.Format = "gguf"
		}
		lines = append(lines, fmt.Sprintf("%s %d %d\n", name, info.Size(), info.ModTime().UnixNano()))
	}
	out.Format = "safetensors"
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		add(info.Name(), info)
	} else if err := eachFile(path, add); err != nil {
		return err
	}
	sort.Strings(lines)
	digest := sha256.Sum256([]byte(strings.Join(lines, "")))
	out.Digest = hex.EncodeToString(digest[:])
	return nil
}

// eachFile visits the files of a directory, links to files included, but no further directories.
func eachFile(directory string, visit func(name string, info fs.FileInfo)) error {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := os.Stat(filepath.Join(directory, entry.Name()))
		if err == nil && info.Mode().IsRegular() {
			visit(entry.Name(), info)
		}
	}
	return nil
}
