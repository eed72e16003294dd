// Ends an answer before it is complete. The argument is the directory of a model.
package main

import (
	"context"
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
	all := context.Background()
	engine := must(quire.OpenChatEngine(all, os.Args[1], quire.ModelOptions{}, quire.CacheOptions{}, quire.ChatOptions{}))
	defer engine.Close()
	request := engine.Request()
	request.IgnoreEOS = true
	ctx, cancel := context.WithCancel(all)
	question := quire.Conversation{Messages: []quire.Message{{Role: quire.RoleUser, Content: "Tell a long story."}}}
	job := must(engine.Submit(ctx, question, request)) // the end of ctx cancels the job
	defer job.Close()
	for tokens := 0; tokens < 20; tokens += len(must(job.Next(ctx)).Tokens) {
	}
	cancel()
	if err := job.Wait(all); err != nil { // the wait ends with the job
		panic(err)
	}
	info := must(job.Info())
	fmt.Println(info.Finish, "after", info.NewTokens, "tokens")
}
