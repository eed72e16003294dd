package server

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
)

// The description of the interface, /openapi.json. The fields of requests come from the types that decode them.

// operation is a request that the server answers. A part of its path in braces is any name, such as a model's.
type operation struct {
	method, path string
	summary      string
	body         interface{} // a value of the type that decodes the body; nil if there is none
}

var documented = []operation{
	{"POST", "/v1/chat/completions", "OpenAI: the answer to a conversation", chatRequest{}},
	{"POST", "/v1/chat/completions/render", "vLLM: the tokens of the prompt of such a request", chatRequest{}},
	{"POST", "/v1/completions", "OpenAI: the continuation of texts", completionRequest{}},
	{"POST", "/v1/completions/render", "vLLM: the tokens of the prompts of such a request", completionRequest{}},
	{"POST", "/v1/embeddings", "OpenAI: vectors of texts", embeddingsRequest{}},
	{"POST", "/v1/responses", "OpenAI: a response to input items", responsesRequest{}},
	{"POST", "/v1/responses/input_tokens", "OpenAI: the number of prompt tokens", responsesRequest{}},
	{"GET", "/v1/responses/{id}", "OpenAI: a stored response, or with stream=true its events", nil},
	{"DELETE", "/v1/responses/{id}", "OpenAI: deletes a stored response", nil},
	{"GET", "/v1/responses/{id}/input_items", "OpenAI: the items of the prompt of a stored response", nil},
	{"POST", "/v1/responses/{id}/cancel", "OpenAI: cancels a background response", nil},
	{"POST", "/v1/conversations", "OpenAI: creates a conversation", conversationRequest{}},
	{"GET", "/v1/conversations/{id}", "OpenAI: a conversation", nil},
	{"POST", "/v1/conversations/{id}", "OpenAI: changes the metadata of a conversation", conversationRequest{}},
	{"DELETE", "/v1/conversations/{id}", "OpenAI: deletes a conversation", nil},
	{"GET", "/v1/conversations/{id}/items", "OpenAI: the items of a conversation", nil},
	{"POST", "/v1/conversations/{id}/items", "OpenAI: adds items to a conversation", conversationRequest{}},
	{"GET", "/v1/conversations/{id}/items/{item}", "OpenAI: an item of a conversation", nil},
	{"DELETE", "/v1/conversations/{id}/items/{item}", "OpenAI: deletes an item of a conversation", nil},
	{"POST", "/v1/messages", "Anthropic: the answer to a conversation", messagesRequest{}},
	{"POST", "/v1/messages/count_tokens", "Anthropic: the number of prompt tokens", messagesRequest{}},
	{"POST", "/v1/messages/batches", "Anthropic: refused", nil},
	{"GET", "/v1/messages/batches/{id}", "Anthropic: refused", nil},
	{"POST", "/v1/rerank", "Jina, Cohere: documents in order of their relevance", rerankRequest{}},
	{"POST", "/v2/rerank", "Cohere: documents in order of their relevance", rerankRequest{}},
	{"POST", "/v1/score", "log-probabilities of texts", scoreRequest{}},
	{"POST", "/v1/tokenize", "vLLM, llama.cpp: the tokens of a text or a conversation", tokenizeRequest{}},
	{"POST", "/v1/detokenize", "vLLM, llama.cpp: the text of tokens", detokenizeRequest{}},
	{"GET", "/v1/models", "OpenAI: the models", nil},
	{"GET", "/v1/models/{model}", "OpenAI: one model", nil},
	{"POST", "/completion", "llama.cpp: the continuation of texts", llamaRequest{}},
	{"POST", "/infill", "llama.cpp: the text between a prefix and a suffix", llamaRequest{}},
	{"POST", "/apply-template", "llama.cpp: the prompt of a conversation", chatRequest{}},
	{"GET", "/props", "llama.cpp: properties of a model", nil},
	{"GET", "/slots", "llama.cpp: the jobs of a model", nil},
	{"POST", "/api/chat", "ollama: the answer to a conversation", ollamaChatRequest{}},
	{"POST", "/api/generate", "ollama: the answer to a prompt", ollamaGenerateRequest{}},
	{"POST", "/api/embed", "ollama: vectors of texts", ollamaEmbedRequest{}},
	{"POST", "/api/embeddings", "ollama: the vector of a text", ollamaEmbeddingsRequest{}},
	{"POST", "/api/show", "ollama: one model", ollamaShowRequest{}},
	{"GET", "/api/tags", "ollama: the models", nil},
	{"GET", "/api/ps", "ollama: the resident models", nil},
	{"GET", "/api/version", "ollama: the version of its interface", nil},
	{"POST", "/api/pull", "ollama: brings a model from a hub, if the configuration has pull_command", ollamaPullRequest{}},
	{"POST", "/api/push", "ollama: refused", nil},
	{"POST", "/api/create", "ollama: refused", nil},
	{"POST", "/api/copy", "ollama: refused", nil},
	{"DELETE", "/api/delete", "ollama: refused", nil},
	{"GET", "/health", "whether requests are accepted", nil},
	{"GET", "/health/live", "whether steps advance", nil},
	{"GET", "/health/ready", "whether requests are accepted", nil},
	{"GET", "/health/startup", "whether the models of preload are loaded", nil},
	{"GET", "/metrics", "figures for Prometheus", nil},
	{"GET", "/get_server_info", "vllm-router: the model whose page events are published", nil},
	{"GET", "/version", "vLLM: the version of the library", nil},
	{"GET", "/load", "vLLM: the number of running requests", nil},
	{"GET", "/kv_event_sources", "vllm-router: the address of the page events", nil},
	{"GET", "/admin/models", "administrators: where the models are", nil},
	{"POST", "/admin/models/{model}/load", "administrators: loads a model", nil},
	{"POST", "/admin/models/{model}/evict", "administrators: unloads a model", nil},
	{"GET", "/admin/aliases", "administrators: the aliases", nil},
	{"POST", "/admin/aliases/{alias}", "administrators: exchanges the model of an alias", aliasRequest{}},
	{"GET", "/openapi.json", "this description", nil},
	{"GET", "/", "a chat in the browser", nil},
}

// openAPI answers with the description in the format of OpenAPI 3.1.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	paths := map[string]map[string]interface{}{}
	for _, each := range documented {
		if paths[each.path] == nil {
			paths[each.path] = map[string]interface{}{}
		}
		paths[each.path][strings.ToLower(each.method)] = each.describe()
	}
	_ = answer(w, map[string]interface{}{"openapi": "3.1.0",
		"info":  map[string]string{"title": "quire-server", "version": s.version()},
		"paths": paths,
		"components": map[string]interface{}{"securitySchemes": map[string]interface{}{
			"key": map[string]string{"type": "http", "scheme": "bearer"}}},
		"security": []map[string][]string{{"key": {}}, {}}})
}

func (o *operation) describe() map[string]interface{} {
	out := map[string]interface{}{"summary": o.summary,
		"responses": map[string]interface{}{"default": map[string]string{"description": "an answer, or an error with its message"}}}
	var parameters []map[string]interface{}
	for _, part := range strings.Split(o.path, "/") {
		if strings.HasPrefix(part, "{") {
			parameters = append(parameters, map[string]interface{}{"name": strings.Trim(part, "{}"), "in": "path",
				"required": true, "schema": map[string]string{"type": "string"}})
		}
	}
	if parameters != nil {
		out["parameters"] = parameters
	}
	if o.body != nil {
		schema := objectSchema(reflect.TypeOf(o.body))
		out["requestBody"] = map[string]interface{}{"required": true, "content": map[string]interface{}{
			"application/json": map[string]interface{}{"schema": schema}}}
	}
	return out
}

var unmarshaler = reflect.TypeOf((*json.Unmarshaler)(nil)).Elem()

// schemaOf returns the schema of what a type decodes. A type that decodes itself accepts several forms.
func schemaOf(t reflect.Type) map[string]interface{} {
	if t.Kind() == reflect.Ptr {
		return schemaOf(t.Elem())
	}
	if reflect.PtrTo(t).Implements(unmarshaler) {
		return map[string]interface{}{}
	}
	switch t.Kind() {
	case reflect.String:
		return map[string]interface{}{"type": "string"}
	case reflect.Bool:
		return map[string]interface{}{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return map[string]interface{}{"type": "number"}
	case reflect.Slice, reflect.Array:
		return map[string]interface{}{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Map:
		return map[string]interface{}{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Struct:
		return objectSchema(t)
	case reflect.Interface:
		return map[string]interface{}{}
	}
	return map[string]interface{}{"type": "integer"}
}

// objectSchema returns the schema of an object with the fields of a struct.
func objectSchema(t reflect.Type) map[string]interface{} {
	properties := map[string]interface{}{}
	eachField(t, func(name string, field reflect.Type) { properties[name] = schemaOf(field) })
	return map[string]interface{}{"type": "object", "properties": properties}
}
