// Serves many clients from one engine, which computes their tokens together. The argument is the model's directory.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"quire.dev/quire"
)

const numClients = 16

func main() {
	ctx := context.Background()
	cache := quire.CacheOptions{MaxTokens: 256 * numClients}
	engine, err := quire.OpenChatEngine(ctx, os.Args[1], quire.ModelOptions{}, cache, quire.ChatOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	counts := make(chan int64)
	for client := 0; client < numClients; client++ {
		go func(question quire.Message) {
			request := engine.Request()
			request.MaxNewTokens = 32
			answer, err := engine.Ask(ctx, quire.Conversation{Messages: []quire.Message{question}}, request)
			if err != nil {
				log.Fatal(err)
			}
			counts <- answer.Usage().NewTokens
		}(quire.Message{Role: quire.RoleUser, Content: fmt.Sprintf("Tell me of king number %d.", client)})
	}
	tokens := int64(0)
	for client := 0; client < numClients; client++ {
		tokens += <-counts
	}
	fmt.Println(numClients, "answers,", tokens, "tokens")
}
