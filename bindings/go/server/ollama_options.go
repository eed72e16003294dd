package server

import (
	"encoding/json"
	"reflect"
	"strconv"
)

// ollamaOptions has the fields of `options`: ollama's own names, and those of OpenAI's requests.
type ollamaOptions struct {
	commonFields
	MaxTokens json.RawMessage `json:"num_predict"`
}

// Names of ollama's options in OpenAI's requests, if they differ.
var ollamaOptionNames = map[string]string{"num_predict": "max_tokens", "repeat_penalty": "repetition_penalty"}

// ollamaNumbers holds the options that must be numbers.
var ollamaNumbers = map[string]bool{"num_predict": true, "repeat_penalty": true, "seed": true, "temperature": true,
	"top_k": true, "top_p": true, "min_p": true, "presence_penalty": true, "frequency_penalty": true}

// openAIOptions converts options to fields of a request in OpenAI's format. An option that would change the answer
// and is not supported is refused.
func openAIOptions(options map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	known := bodyTypes[reflect.TypeOf(ollamaOptions{})]
	if err := known.check(optionsPrefix, options); err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	for name, value := range options {
		_, obeyed := known.fields[name]
		switch {
		case !obeyed || isAbsent(value):
		case ollamaNumbers[name] && !isNumber(value):
			return nil, invalid(optionsPrefix+name, "options.%s must be a number", name)
		case isNegative(name, value): // no limit, or a random seed
		case ollamaOptionNames[name] != "":
			out[ollamaOptionNames[name]] = value
		default:
			out[name] = value
		}
	}
	return out, nil
}

// fieldNames returns the names of fields in the form of ollama, by their names in OpenAI's requests.
func (r *ollamaCommon) fieldNames() map[string]string {
	names := map[string]string{"response_format": "format"}
	for name := range r.Options {
		if other := ollamaOptionNames[name]; other != "" {
			names[other] = "options." + name
		} else {
			names[name] = "options." + name
		}
	}
	return names
}

func isNumber(value json.RawMessage) bool {
	_, err := strconv.ParseFloat(string(value), 64)
	return err == nil
}

// isNegative reports whether an option has the value that means its absence.
func isNegative(name string, value json.RawMessage) bool {
	number, _ := strconv.ParseFloat(string(value), 64)
	return name == "num_predict" && number <= 0 || name == "seed" && number < 0
}
