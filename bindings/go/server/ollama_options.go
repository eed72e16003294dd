package server

import (
	"encoding/json"
	"reflect"
	"strconv"
)

// Names of ollama's options in OpenAI's requests, and in the extensions of those; nil means the same name.
var ollamaOptionNames = map[string]string{"num_predict": "max_tokens", "repeat_penalty": "repetition_penalty"}

// ollamaOptionsObeyed holds the options that every request of this server has.
var ollamaOptionsObeyed = map[string]bool{"num_predict": true, "repeat_penalty": true, "seed": true, "temperature": true,
	"top_k": true, "top_p": true, "min_p": true, "presence_penalty": true, "frequency_penalty": true, "stop": true}

// openAIOptions converts options to fields of a request in OpenAI's format. An option that would change the answer
// and is not supported is refused.
func openAIOptions(options map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	rest := map[string]json.RawMessage{}
	for name, value := range options {
		switch {
		case isAbsent(value):
		case !ollamaOptionsObeyed[name]:
			rest[name] = value
		case name != "stop" && !isNumber(value):
			return nil, invalid("options."+name, "options.%s must be a number", name)
		case isNegative(name, value): // no limit, or a random seed
		case ollamaOptionNames[name] != "":
			out[ollamaOptionNames[name]] = value
		default:
			out[name] = value
		}
	}
	known := fieldNames(reflect.TypeOf(commonFields{}))
	for name, value := range rest {
		if known[name] {
			out[name] = value
			delete(rest, name)
		}
	}
	return out, checkSettings(rest, "options.", options)
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
