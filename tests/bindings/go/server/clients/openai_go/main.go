// Drives a server in this process, without a socket, with the official Go client of OpenAI.
// usage: openai_go MODEL_DIR TEMPLATE
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"quire.dev/quire/server"
	"quire.dev/quire/server/local"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return value
}

func expect(holds bool, about ...interface{}) {
	if !holds {
		log.Panic(about...)
	}
}

func asked(model, text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
		Temperature: openai.Float(0), MaxTokens: openai.Int(400)}
}

var city = map[string]any{"type": "object", "required": []string{"city"}, "additionalProperties": false,
	"properties": map[string]any{"city": map[string]any{"enum": []string{"Oslo", "Rome"}}}}

func isCall(name, arguments string) {
	var input struct{ City string }
	err := json.Unmarshal([]byte(arguments), &input)
	expect(err == nil && name == "weather" && len(input.City) == 4, name, arguments)
}

func texts(ctx context.Context, client openai.Client) {
	whole := must(client.Chat.Completions.New(ctx, asked("m", "Tell me of a king.")))
	stream := client.Chat.Completions.NewStreaming(ctx, asked("m", "Tell me of a king."))
	joined := openai.ChatCompletionAccumulator{}
	num := 0
	for stream.Next() {
		expect(joined.AddChunk(stream.Current()), "a chunk does not go on")
		num++
	}
	expect(stream.Err() == nil && num > 5, stream.Err(), num)
	expect(joined.Choices[0].Message.Content == whole.Choices[0].Message.Content, joined.Choices, whole.Choices)
	response := must(client.Responses.New(ctx, responses.ResponseNewParams{Model: "m", MaxOutputTokens: openai.Int(8),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hello")}}))
	expect(must(client.Responses.Get(ctx, response.ID, responses.ResponseGetParams{})).OutputText() == response.OutputText())
	vectors := must(client.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: "m",
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a king", "a queen"}}}))
	expect(len(vectors.Data) == 2 && len(vectors.Data[1].Embedding) > 0, vectors)
}

func calls(ctx context.Context, client openai.Client) {
	request := asked("calls", "How warm is it?")
	request.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "weather", Parameters: city, Strict: openai.Bool(true)})}
	request.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: param.NewOpt("required")}
	request.ParallelToolCalls = openai.Bool(false)
	choice := must(client.Chat.Completions.New(ctx, request)).Choices[0]
	expect(choice.FinishReason == "tool_calls" && len(choice.Message.ToolCalls) == 1, choice)
	isCall(choice.Message.ToolCalls[0].Function.Name, choice.Message.ToolCalls[0].Function.Arguments)
	stream := client.Chat.Completions.NewStreaming(ctx, request)
	joined, finished := openai.ChatCompletionAccumulator{}, 0
	for stream.Next() {
		expect(joined.AddChunk(stream.Current()), "a chunk does not go on")
		if call, over := joined.JustFinishedToolCall(); over {
			isCall(call.Name, call.Arguments)
			finished++
		}
	}
	expect(stream.Err() == nil && finished == 1, stream.Err(), finished)
	request = asked("m", "Who?")
	request.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "place", Schema: city, Strict: openai.Bool(true)}}}
	isCall("weather", must(client.Chat.Completions.New(ctx, request)).Choices[0].Message.Content)
}

func failures(ctx context.Context, client openai.Client) {
	var failure *openai.Error
	_, err := client.Chat.Completions.New(ctx, asked("nobody", "hello"))
	expect(errors.As(err, &failure) && failure.StatusCode == http.StatusNotFound && failure.Code == "model_not_found", err)
	wrong := asked("m", "hello")
	wrong.TopP = openai.Float(2)
	_, err = client.Chat.Completions.New(ctx, wrong)
	expect(errors.As(err, &failure) && failure.StatusCode == http.StatusBadRequest && failure.Param == "top_p", err)
	left, leave := context.WithCancel(ctx)
	endless := asked("m", "hello")
	endless.MaxTokens, endless.LogitBias = openai.Int(1500), map[string]int64{"1": -100, "2": -100}
	stream := client.Chat.Completions.NewStreaming(left, endless)
	expect(stream.Next(), stream.Err())
	leave()
	for stream.Next() {
	}
	expect(errors.Is(stream.Err(), context.Canceled), stream.Err())
}

func main() {
	models := must(local.Open(&server.Config{Models: map[string]server.ModelConfig{"m": {Path: os.Args[1]},
		"calls": {Path: os.Args[1], CacheTokens: 4096, ChatTemplate: os.Args[2]}}}, nil))
	defer models.Close()
	client := openai.NewClient(option.WithHTTPClient(models.Client()), option.WithAPIKey("k"), option.WithMaxRetries(0))
	for name, part := range map[string]func(context.Context, openai.Client){"texts": texts, "completions": completions,
		"calls": calls, "stored": stored, "background": background, "conversation": conversation, "failures": failures} {
		part(context.Background(), client)
		fmt.Println(name, "passed")
	}
}
