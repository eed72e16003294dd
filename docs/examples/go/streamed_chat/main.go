// Prints an answer while it is generated. The argument is the directory of a model.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"quire.dev/quire"
)

func main() {
	ctx := context.Background()
	engine, err := quire.OpenChatEngine(ctx, os.Args[1], quire.ModelOptions{}, quire.CacheOptions{}, quire.ChatOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	request := engine.Request() // with the sampling that the model's authors recommend
	request.MaxNewTokens = 60
	job, err := engine.Submit(ctx, quire.Conversation{Messages: []quire.Message{
		{Role: quire.RoleSystem, Content: "Answer in one sentence."},
		{Role: quire.RoleUser, Content: "Who was the king?"}}}, request)
	if err != nil {
		log.Fatal(err)
	}
	defer job.Close()
	for event, err := job.Next(ctx); err != io.EOF; event, err = job.Next(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(event.ResponseText)
		if event.Usage != nil {
			fmt.Printf("\n%v, %d tokens\n", event.Finish, event.Usage.NewTokens)
		}
	}
}
