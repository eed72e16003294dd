using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;
using System.Text.Json;
using System.Threading;
using Microsoft.Extensions.AI;

namespace Quire.Extensions.AI
{
    /// <summary>Converts conversations and options of Microsoft.Extensions.AI to jobs.</summary>
    internal static class Requests
    {
        /// <summary>Submits a conversation. Without a maximum number of tokens, an answer may use all that
        /// the cache allows one job.</summary>
        public static Job Submit(QuireChatClient client, IEnumerable<ChatMessage> messages, ChatOptions? options,
            CancellationToken cancel)
        {
            options ??= new ChatOptions();
            if (options.ConversationId != null)
                throw new NotSupportedException("ChatOptions.ConversationId: conversations are not stored; leave it null " +
                    "and send all messages");
            Request request = Base(client, options);
            Sample(request, options);
            return client.Engine.Submit(ToConversation(messages, options), request, cancel);
        }

        /// <summary>Returns the request to set the options on: that of the program, if it provides one,
        /// otherwise a new one.</summary>
        private static Request Base(QuireChatClient client, ChatOptions options)
        {
            object? raw = options.RawRepresentationFactory?.Invoke(client);
            return raw switch
            {
                null => client.Engine.CreateRequest(),
                Request request => request,
                _ => throw new NotSupportedException("ChatOptions.RawRepresentationFactory: creates a " + raw.GetType() +
                    "; it must create a Quire.Request"),
            };
        }

        private static void Sample(Request request, ChatOptions options)
        {
            request.Temperature = options.Temperature ?? request.Temperature;
            request.TopP = options.TopP ?? request.TopP;
            request.TopK = options.TopK ?? request.TopK;
            request.FrequencyPenalty = options.FrequencyPenalty ?? request.FrequencyPenalty;
            request.PresencePenalty = options.PresencePenalty ?? request.PresencePenalty;
            request.MaxNewTokens = options.MaxOutputTokens ?? request.MaxNewTokens ?? int.MaxValue;
            foreach (string text in options.StopSequences ?? Array.Empty<string>()) request.StopTexts.Add(text);
            if (options.Seed == null) return;
            request.RandomSeed = false;
            request.Seed = unchecked((ulong)options.Seed.Value);
        }

        private static Conversation ToConversation(IEnumerable<ChatMessage> messages, ChatOptions options)
        {
            var conversation = new Conversation(Json(json => WriteMessages(json, messages, options.Instructions)))
            {
                ToolChoice = Choice(options.ToolMode),
                ResponseFormat = Format(options.ResponseFormat),
            };
            if (options.Tools == null || options.Tools.Count == 0) return conversation;
            conversation.Tools = Json(json => WriteTools(json, options.Tools));
            conversation.Calls = options.AllowMultipleToolCalls == false ? Calls.Single
                : options.Tools.Any(IsStrict) ? Calls.Strict : Calls.Free;
            return conversation;
        }

        private static string? Choice(ChatToolMode? mode) => mode switch
        {
            NoneChatToolMode _ => "\"none\"",
            RequiredChatToolMode required => required.RequiredFunctionName == null ? "\"required\""
                : Json(json => WriteChoice(json, required.RequiredFunctionName)),
            _ => null,
        };

        private static void WriteChoice(Utf8JsonWriter json, string name)
        {
            json.WriteStartObject();
            json.WriteString("type", "function");
            json.WriteStartObject("function");
            json.WriteString("name", name);
            json.WriteEndObject();
            json.WriteEndObject();
        }

        private static string? Format(ChatResponseFormat? format)
        {
            if (!(format is ChatResponseFormatJson wanted)) return null;
            return wanted.Schema == null ? "{\"type\": \"json_object\"}" : Json(json =>
            {
                json.WriteStartObject();
                json.WriteString("type", "json_schema");
                json.WriteStartObject("json_schema");
                json.WritePropertyName("schema");
                wanted.Schema.Value.WriteTo(json);
                json.WriteEndObject();
                json.WriteEndObject();
            });
        }

        /// <summary>Returns true if calls of the function must match its schema. As in other clients, the
        /// property "strict" requests this.</summary>
        private static bool IsStrict(AITool tool) =>
            tool.AdditionalProperties.TryGetValue("strict", out object? strict) && strict is true;

        private static void WriteTools(Utf8JsonWriter json, IList<AITool> tools)
        {
            json.WriteStartArray();
            foreach (AITool tool in tools)
            {
                if (!(tool is AIFunction function))
                    throw new NotSupportedException("ChatOptions.Tools: " + tool.GetType().Name + " " + tool.Name +
                        " would run at a provider; only functions of this program are supported");
                json.WriteStartObject();
                json.WriteString("type", "function");
                json.WriteStartObject("function");
                json.WriteString("name", function.Name);
                if (function.Description.Length > 0) json.WriteString("description", function.Description);
                json.WritePropertyName("parameters");
                function.JsonSchema.WriteTo(json);
                json.WriteEndObject();
                json.WriteEndObject();
            }
            json.WriteEndArray();
        }

        private static void WriteMessages(Utf8JsonWriter json, IEnumerable<ChatMessage> messages, string? instructions)
        {
            var names = new Dictionary<string, string>(); // names of functions by the ids of their calls
            json.WriteStartArray();
            if (!string.IsNullOrEmpty(instructions))
                WriteMessage(json, new ChatMessage(ChatRole.System, instructions), names);
            foreach (ChatMessage message in messages) WriteMessage(json, message, names);
            json.WriteEndArray();
        }

        /// <summary>Writes one message, or one for each result of a call.</summary>
        private static void WriteMessage(Utf8JsonWriter json, ChatMessage message, IDictionary<string, string> names)
        {
            foreach (AIContent content in message.Contents) RequireReadable(content);
            foreach (var result in message.Contents.OfType<FunctionResultContent>()) WriteResult(json, result, names);
            if (message.Role == ChatRole.Tool) return;
            json.WriteStartObject();
            json.WriteString("role", message.Role.Value);
            if (message.AuthorName != null) json.WriteString("name", message.AuthorName);
            json.WriteString("content", Joined(message.Contents.OfType<TextContent>().Select(text => text.Text)));
            string reasoning = Joined(message.Contents.OfType<TextReasoningContent>().Select(text => text.Text));
            if (reasoning.Length > 0) json.WriteString("reasoning_content", reasoning);
            WriteCalls(json, message.Contents.OfType<FunctionCallContent>().ToList(), names);
            json.WriteEndObject();
        }

        private static string Joined(IEnumerable<string?> texts) => string.Concat(texts);

        /// <summary>Checks that the content can be converted. Usage and errors of earlier answers are
        /// skipped.</summary>
        private static void RequireReadable(AIContent content)
        {
            switch (content)
            {
                case TextContent _:
                case TextReasoningContent _:
                case FunctionCallContent _:
                case FunctionResultContent _:
                case UsageContent _:
                case ErrorContent _:
                    return;
                default:
                    throw new NotSupportedException("messages: content of the type " + content.GetType().Name +
                        " is not supported; only text is");
            }
        }

        private static void WriteCalls(Utf8JsonWriter json, IList<FunctionCallContent> calls,
            IDictionary<string, string> names)
        {
            if (calls.Count == 0) return;
            json.WriteStartArray("tool_calls");
            foreach (FunctionCallContent call in calls)
            {
                names[call.CallId] = call.Name;
                json.WriteStartObject();
                json.WriteString("id", call.CallId);
                json.WriteString("type", "function");
                json.WriteStartObject("function");
                json.WriteString("name", call.Name);
                json.WriteString("arguments", Serialized(call.Arguments ?? new Dictionary<string, object?>()));
                json.WriteEndObject();
                json.WriteEndObject();
            }
            json.WriteEndArray();
        }

        private static void WriteResult(Utf8JsonWriter json, FunctionResultContent result,
            IDictionary<string, string> names)
        {
            json.WriteStartObject();
            json.WriteString("role", "tool");
            json.WriteString("tool_call_id", result.CallId);
            if (names.TryGetValue(result.CallId, out string? name)) json.WriteString("name", name);
            json.WriteString("content", result.Result as string ?? (result.Result == null
                ? result.Exception?.Message ?? "" : Serialized(result.Result)));
            json.WriteEndObject();
        }

        private static string Serialized(object value) =>
            JsonSerializer.Serialize(value, AIJsonUtilities.DefaultOptions.GetTypeInfo(value.GetType()));

        private static string Json(Action<Utf8JsonWriter> write)
        {
            using var bytes = new MemoryStream();
            using (var json = new Utf8JsonWriter(bytes)) write(json);
            return Encoding.UTF8.GetString(bytes.ToArray());
        }
    }
}
