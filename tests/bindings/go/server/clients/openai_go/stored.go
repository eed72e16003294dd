package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/conversations"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

func completions(ctx context.Context, client openai.Client) {
	request := openai.CompletionNewParams{Model: "m", MaxTokens: openai.Int(8), Temperature: openai.Float(0), Logprobs: openai.Int(1),
		Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"Once upon a time", "The king"}}}
	whole := must(client.Completions.New(ctx, request))
	expect(len(whole.Choices) == 2 && strings.Join(whole.Choices[1].Logprobs.Tokens, "") == whole.Choices[1].Text, whole.Choices)
	joined := make([]string, 2)
	stream := client.Completions.NewStreaming(ctx, request)
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			joined[choice.Index] += choice.Text
		}
	}
	expect(stream.Err() == nil && joined[0] == whole.Choices[0].Text && joined[1] == whole.Choices[1].Text, stream.Err(), joined)
	names := 0
	for models := client.Models.ListAutoPaging(ctx); models.Next(); names++ {
		expect(models.Current().ID == "m" || models.Current().ID == "calls", models.Current())
	}
	expect(names == 2 && must(client.Models.Get(ctx, "m")).ID == "m", names)
}

func asks(text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: "m", MaxOutputTokens: openai.Int(16), Temperature: openai.Float(0),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}}
}

func stored(ctx context.Context, client openai.Client) {
	whole := must(client.Responses.New(ctx, asks("Tell me of a king.")))
	joined := ""
	stream := client.Responses.NewStreaming(ctx, asks("Tell me of a king."))
	for stream.Next() {
		if event := stream.Current(); event.Type == "response.output_text.delta" {
			joined += event.Delta
		}
	}
	expect(stream.Err() == nil && joined == whole.OutputText(), stream.Err(), joined)
	more := asks("And then?")
	more.PreviousResponseID = openai.String(whole.ID)
	next := must(client.Responses.New(ctx, more))
	items := must(client.Responses.InputItems.List(ctx, next.ID, responses.InputItemListParams{})).Data
	expect(next.Usage.InputTokens > whole.Usage.InputTokens && len(items) == 3, items)
	counted := must(client.Responses.InputTokens.Count(ctx, responses.InputTokenCountParams{Model: openai.String("m"),
		Input: responses.InputTokenCountParamsInputUnion{OfString: openai.String("Tell me of a king.")}}))
	expect(counted.InputTokens == whole.Usage.InputTokens, counted)
	expect(client.Responses.Delete(ctx, whole.ID) == nil)
	var failure *openai.Error
	_, err := client.Responses.Get(ctx, whole.ID, responses.ResponseGetParams{})
	expect(errors.As(err, &failure) && failure.StatusCode == http.StatusNotFound, err)
}

func background(ctx context.Context, client openai.Client) {
	request := asks("Tell me of a king.")
	request.Background = openai.Bool(true)
	late := must(client.Responses.New(ctx, request))
	for late.Status == "queued" || late.Status == "in_progress" {
		time.Sleep(20 * time.Millisecond)
		late = must(client.Responses.Get(ctx, late.ID, responses.ResponseGetParams{}))
	}
	expect(late.Status == "completed" || late.Status == "incomplete", late.Status)
	request.MaxOutputTokens = openai.Int(1500)
	request.SetExtraFields(map[string]any{"logit_bias": map[string]int{"1": -100, "2": -100}})
	endless := must(client.Responses.New(ctx, request))
	expect(must(client.Responses.Cancel(ctx, endless.ID)).Status == "cancelled")
}

func conversation(ctx context.Context, client openai.Client) {
	said := func(text string) []responses.ResponseInputItemUnionParam {
		return []responses.ResponseInputItemUnionParam{responses.ResponseInputItemParamOfMessage(text, "user")}
	}
	made := must(client.Conversations.New(ctx, conversations.ConversationNewParams{Items: said("hello"), Metadata: shared.Metadata{"a": "b"}}))
	request := asks("And then?")
	request.Conversation = responses.ResponseNewParamsConversationUnion{OfString: openai.String(made.ID)}
	must(client.Responses.New(ctx, request))
	var roles []string
	pages := client.Conversations.Items.ListAutoPaging(ctx, made.ID, conversations.ItemListParams{Limit: openai.Int(2), Order: "asc"})
	for pages.Next() {
		roles = append(roles, string(pages.Current().Role))
	}
	expect(pages.Err() == nil && strings.Join(roles, " ") == "user user assistant", pages.Err(), roles)
	added := must(client.Conversations.Items.New(ctx, made.ID, conversations.ItemNewParams{Items: said("x")})).Data[0]
	expect(must(client.Conversations.Items.Get(ctx, made.ID, added.ID, conversations.ItemGetParams{})).ID == added.ID)
	must(client.Conversations.Items.Delete(ctx, made.ID, added.ID))
	changed := must(client.Conversations.Update(ctx, made.ID, conversations.ConversationUpdateParams{Metadata: shared.Metadata{"c": "d"}}))
	expect(changed.ID == made.ID && must(client.Conversations.Get(ctx, made.ID)).ID == made.ID)
	expect(must(client.Conversations.Delete(ctx, made.ID)).Deleted)
}
