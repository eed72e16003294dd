using System;
using System.Collections.Generic;
using System.Text;
using System.Text.Json;
using Microsoft.Extensions.AI;

namespace Quire.Extensions.AI
{
    /// <summary>Converts the events of one job to Microsoft.Extensions.AI. For one thread at a
    /// time.</summary>
    internal sealed class Answer
    {
        private readonly StringBuilder arguments = new StringBuilder();
        private readonly string id;
        private readonly string? modelId;
        private string callId = "";
        private string callName = "";
        private long reasoningTokens;
        private bool hasCalls;

        public Answer(long jobId, string? modelId)
        {
            id = "quire-" + jobId;
            this.modelId = modelId;
        }

        /// <summary>Converts an event; returns null if it has no content of its own.</summary>
        public ChatResponseUpdate? Take(Event taken)
        {
            AIContent? content = Content(taken);
            if (taken.IsLast) return Last(taken, content);
            return content == null ? null : Update(content);
        }

        private AIContent? Content(Event taken)
        {
            switch (taken.ResponseKind)
            {
                case ResponseKind.Text:
                    return taken.ResponseText.Length == 0 ? null : new TextContent(taken.ResponseText);
                case ResponseKind.Reasoning:
                    reasoningTokens += taken.Tokens?.Length ?? 0;
                    return taken.ResponseText.Length == 0 ? null : new TextReasoningContent(taken.ResponseText);
                case ResponseKind.CallBegin:
                    Begin(taken);
                    return null;
                case ResponseKind.Arguments:
                    arguments.Append(taken.ResponseText);
                    return null;
                case ResponseKind.CallEnd:
                    hasCalls = true;
                    return FunctionCallContent.CreateFromParsedArguments(arguments.ToString(), callId, callName, Parsed);
                default:
                    return null;
            }
        }

        /// <summary>Begins a call with the model's own id if it is known by then, otherwise with a new
        /// one.</summary>
        private void Begin(Event taken)
        {
            callId = string.IsNullOrEmpty(taken.CallId) ? "call_" + Guid.NewGuid().ToString("N") : taken.CallId;
            callName = taken.CallName;
            arguments.Clear();
        }

        /// <summary>Parses arguments. Anything but a JSON object throws, which sets the call's
        /// Exception.</summary>
        private static IDictionary<string, object?> Parsed(string text)
        {
            using JsonDocument document = JsonDocument.Parse(text);
            var parsed = new Dictionary<string, object?>();
            foreach (JsonProperty member in document.RootElement.EnumerateObject())
                parsed[member.Name] = member.Value.Clone();
            return parsed;
        }

        private ChatResponseUpdate Last(Event taken, AIContent? content)
        {
            var contents = new List<AIContent>();
            if (content != null) contents.Add(content);
            if (taken.Usage != null) contents.Add(new UsageContent(ToUsage(taken.Usage)));
            ChatResponseUpdate last = Update(contents);
            last.FinishReason = ToReason(taken.Finish);
            return last;
        }

        private ChatResponseUpdate Update(AIContent content) => Update(new List<AIContent> { content });

        private ChatResponseUpdate Update(IList<AIContent> contents) => new ChatResponseUpdate(ChatRole.Assistant, contents)
        {
            ResponseId = id,
            MessageId = id,
            ModelId = modelId,
            CreatedAt = DateTimeOffset.UtcNow,
        };

        private ChatFinishReason ToReason(FinishReason reason)
        {
            switch (reason)
            {
                case FinishReason.Length:
                case FinishReason.MaxSeqLen:
                    return ChatFinishReason.Length;
                case FinishReason.StopToken:
                case FinishReason.StopString:
                case FinishReason.Completed:
                    return hasCalls ? ChatFinishReason.ToolCalls : ChatFinishReason.Stop;
                default:
                    return new ChatFinishReason(reason.ToString().ToLowerInvariant());
            }
        }

        private UsageDetails ToUsage(Usage usage) => new UsageDetails
        {
            InputTokenCount = usage.PromptTokens,
            OutputTokenCount = usage.NewTokens,
            TotalTokenCount = usage.PromptTokens + usage.NewTokens,
            AdditionalCounts = new AdditionalPropertiesDictionary<long>
            {
                ["InputTokenDetails.CachedTokenCount"] = usage.CachedTokens,
                ["OutputTokenDetails.ReasoningTokenCount"] = reasoningTokens,
            },
        };
    }
}
