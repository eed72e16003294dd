package server

import "encoding/json"

// embeddingField holds the inputs of an embeddings request in OpenAI's forms, or in llama.cpp's: there an input may also
// be a list of texts and token ids, or an object with a text.
type embeddingField struct {
	promptField               // OpenAI's forms
	mixed       [][]llamaPart // llama.cpp's forms; nil if the inputs have one of OpenAI's
}

func (f *embeddingField) UnmarshalJSON(value []byte) error {
	if json.Unmarshal(value, &f.promptField) == nil {
		return nil
	}
	var prompts llamaPrompts
	if err := json.Unmarshal(value, &prompts); err != nil {
		return renamed(err, inputNames)
	}
	f.promptField, f.mixed = nil, prompts.prompts
	return nil
}

func (f *embeddingField) num() int { return len(f.promptField) + len(f.mixed) }

func (f *embeddingField) numBytes() int {
	total := f.promptField.numBytes()
	for _, input := range f.mixed {
		for _, part := range input {
			total += len(part.text) + 4
		}
	}
	return total
}

// prompt returns an input. Special tokens in its texts are text.
func (f *embeddingField) prompt(model Model, i int) (Prompt, error) {
	if f.mixed == nil {
		prompt := f.promptField[i]
		if prompt.Text != "" || prompt.Tokens != nil {
			return prompt, nil
		}
		tokens, err := model.Tokenize("", true) // the tokens around a text are an input too
		return Prompt{Tokens: tokens}, err
	}
	parts := f.mixed[i]
	if len(parts) == 1 && !parts[0].isID {
		return Prompt{Text: parts[0].text}, nil
	}
	var out Prompt
	for j, part := range parts {
		if part.isID {
			out.Tokens = append(out.Tokens, part.token)
			continue
		}
		tokens, err := model.Tokenize(part.text, j == 0)
		if err != nil {
			return out, err
		}
		out.Tokens = append(out.Tokens, tokens...)
	}
	return out, nil
}
