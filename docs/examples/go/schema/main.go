// Lets the model answer with JSON of a schema. The argument is the directory of a model.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"quire.dev/quire"
)

const schema = `{"type": "object", "required": ["name", "year"], "properties": {
	"name": {"type": "string", "maxLength": 30}, "year": {"type": "integer", "minimum": 1000, "maximum": 2100}}}`

func main() {
	ctx := context.Background()
	engine, err := quire.OpenChatEngine(ctx, os.Args[1], quire.ModelOptions{}, quire.CacheOptions{}, quire.ChatOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	answer, err := engine.Ask(ctx, quire.Conversation{Schema: json.RawMessage(schema),
		Messages: []quire.Message{{Role: quire.RoleUser, Content: "Who was the king, and when?"}}}, engine.Request())
	if err != nil {
		log.Fatal(err)
	}
	var king struct {
		Name string
		Year int
	}
	if err := json.Unmarshal([]byte(answer.Text()), &king); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, %d\n", king.Name, king.Year)
}
