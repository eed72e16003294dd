// Lets the model call a tool, and answer with its result. The argument is the directory of a model.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"quire.dev/quire"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	ctx := context.Background()
	options := quire.ChatOptions{Dialect: "hermes"}
	engine := must(quire.OpenChatEngine(ctx, os.Args[1], quire.ModelOptions{}, quire.CacheOptions{}, options))
	defer engine.Close()
	request := engine.Request()
	request.MaxNewTokens = 100
	cities := json.RawMessage(`{"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}`)
	conversation := quire.Conversation{
		Messages:   []quire.Message{{Role: quire.RoleUser, Content: "How warm is it in Rome?"}},
		Tools:      []quire.Tool{{Name: "temperature", Description: "The temperature of a city.", Parameters: cities}},
		ToolChoice: quire.ToolsRequired, SingleCall: true}
	answer := must(engine.Ask(ctx, conversation, request))
	call := answer.Calls()[0]
	fmt.Println(call.Name, call.Arguments)
	result := quire.Message{Role: quire.RoleTool, Content: "21 degrees", CallID: call.ID} // here the program runs its tool
	conversation.Messages = append(conversation.Messages, answer.Message(), result)
	conversation.ToolChoice = quire.ToolsNone
	fmt.Println(must(engine.Ask(ctx, conversation, request)).Text())
}
