package local

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
)

const (
	ggufText  = 8
	ggufArray = 9
	// Limits of what is read; the library, which checks the whole header, has loaded the file before.
	maxGGUFKeys  = 1 << 16
	maxGGUFBytes = 4 << 20
)

var errGGUF = errors.New("not a GGUF header")

// ggufSizes has the sizes of numbers by type; 0 is no number.
var ggufSizes = [13]int64{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

// ggufTemplate returns the chat template in the metadata of a GGUF file; "" if there is none.
func ggufTemplate(path string) string {
	if !strings.HasSuffix(path, ".gguf") {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	r := ggufReader{bufio.NewReaderSize(file, 1<<16)}
	template, err := r.find("tokenizer.chat_template")
	if err != nil {
		return ""
	}
	return template
}

// ggufReader reads the header of a GGUF file from front to back.
type ggufReader struct{ *bufio.Reader }

// find returns the text of a key.
func (r ggufReader) find(key string) (string, error) {
	var head struct {
		Magic         [4]byte
		Version       uint32
		Tensors, Keys uint64
	}
	if err := binary.Read(r, binary.LittleEndian, &head); err != nil {
		return "", err
	}
	if string(head.Magic[:]) != "GGUF" || head.Keys > maxGGUFKeys {
		return "", errGGUF
	}
	for i := uint64(0); i < head.Keys; i++ {
		name, err := r.text()
		if err != nil {
			return "", err
		}
		kind, err := r.kind()
		if err != nil {
			return "", err
		}
		if name == key && kind == ggufText {
			return r.text()
		}
		if err := r.skip(kind); err != nil {
			return "", err
		}
	}
	return "", errGGUF
}

func (r ggufReader) kind() (uint32, error) {
	var kind uint32
	err := binary.Read(r, binary.LittleEndian, &kind)
	return kind, err
}

func (r ggufReader) length() (uint64, error) {
	var length uint64
	err := binary.Read(r, binary.LittleEndian, &length)
	return length, err
}

func (r ggufReader) text() (string, error) {
	length, err := r.length()
	if err != nil {
		return "", err
	}
	if length > maxGGUFBytes {
		return "", errGGUF
	}
	text := make([]byte, length)
	_, err = io.ReadFull(r, text)
	return string(text), err
}

// skip passes a value. Arrays of arrays, which no program writes, end the search.
func (r ggufReader) skip(kind uint32) error {
	count := uint64(1)
	if kind == ggufArray {
		var err error
		if kind, err = r.kind(); err != nil {
			return err
		}
		if count, err = r.length(); err != nil {
			return err
		}
	}
	if kind == ggufText {
		for ; count > 0; count-- {
			if _, err := r.text(); err != nil {
				return err
			}
		}
		return nil
	}
	if int(kind) >= len(ggufSizes) || ggufSizes[kind] == 0 || count > 1<<40 {
		return errGGUF
	}
	_, err := io.CopyN(io.Discard, r, int64(count)*ggufSizes[kind])
	return err
}
