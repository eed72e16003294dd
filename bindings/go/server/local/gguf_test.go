package local

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// ggufFile returns a header with these keys; a value is a uint32, a string, or a list of strings.
func ggufFile(values ...any) []byte {
	var out bytes.Buffer
	put := func(v any) { _ = binary.Write(&out, binary.LittleEndian, v) }
	text := func(s string) {
		put(uint64(len(s)))
		out.WriteString(s)
	}
	out.WriteString("GGUF")
	put(uint32(3))
	put(uint64(0))
	put(uint64(len(values) / 2))
	for i := 0; i < len(values); i += 2 {
		text(values[i].(string))
		switch value := values[i+1].(type) {
		case uint32:
			put(uint32(4))
			put(value)
		case string:
			put(uint32(ggufText))
			text(value)
		case []string:
			put(uint32(ggufArray))
			put(uint32(ggufText))
			put(uint64(len(value)))
			for _, s := range value {
				text(s)
			}
		}
	}
	return out.Bytes()
}

func TestTheTemplateOfAGGUFFileIsThatOfItsMetadata(t *testing.T) {
	whole := ggufFile("a", uint32(1), "tokens", []string{"x", ""}, "tokenizer.chat_template", "{{ think }}", "b", "c")
	path := filepath.Join(t.TempDir(), "m.gguf")
	write := func(data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(whole)
	if got := ggufTemplate(path); got != "{{ think }}" {
		t.Errorf("got %q", got)
	}
	end := bytes.Index(whole, []byte("{{ think }}")) + len("{{ think }}")
	for length := 0; length < end; length++ {
		write(whole[:length])
		if got := ggufTemplate(path); got != "" {
			t.Fatalf("%d bytes give %q", length, got)
		}
	}
	write(ggufFile("a", uint32(1)))
	if got := ggufTemplate(path); got != "" {
		t.Errorf("without a template: %q", got)
	}
}

func TestAHostileGGUFHeaderTakesNoMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	data := ggufFile("tokenizer.chat_template", "x")
	binary.LittleEndian.PutUint64(data[len(data)-9:], 1<<62)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ggufTemplate(path); got != "" {
		t.Errorf("got %q", got)
	}
}
