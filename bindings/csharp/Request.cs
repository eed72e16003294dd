using System;
using System.Linq;
using System.Runtime.CompilerServices;
using Quire.Native;

namespace Quire
{
    /// <summary>One part of a prompt.</summary>
    [NullableContext(1)]
    public sealed class PromptPart
    {
        private string text;
        private string special;
        private string messages;
        private int[] tokens;

        private PromptPart() { }

        /// <summary>Text, tokenized at submit, by itself.</summary>
        public static PromptPart OfText(string text)
        {
            return new PromptPart { text = text };
        }

        /// <summary>Ids of tokens, taken as they are.</summary>
        public static PromptPart OfTokens(int[] tokens)
        {
            return new PromptPart { tokens = tokens };
        }

        /// <summary>One special token, as the tokenizer's file spells it, such as "&lt;|im_end|&gt;".</summary>
        public static PromptPart OfSpecial(string special)
        {
            return new PromptPart { special = special };
        }

        /// <summary>A message, or a list of them, in JSON as OpenAI has them: the chat template makes them into
        /// tokens.</summary>
        public static PromptPart OfMessages(string json)
        {
            return new PromptPart { messages = json };
        }

        internal unsafe void Add(JobRequestHandle request)
        {
            Call.SetText(text, (byte* bytes, UIntPtr size, out IntPtr e) =>
                QuireNative.quire_job_request_add_prompt_text(request, bytes, size, out e));
            Call.SetText(special, (byte* bytes, UIntPtr size, out IntPtr e) =>
                QuireNative.quire_job_request_add_prompt_special(request, bytes, size, out e));
            Call.SetText(messages, (byte* bytes, UIntPtr size, out IntPtr e) =>
                QuireNative.quire_job_request_add_messages(request, bytes, size, out e));
            Call.SetTokens(tokens, (int* ids, UIntPtr size, out IntPtr e) =>
                QuireNative.quire_job_request_add_prompt_tokens(request, ids, size, out e));
        }
    }

    public sealed unsafe partial class Request
    {
        private void FillRest(JobRequestHandle request)
        {
            FillPrompt(request);
            FillBiases(request);
            if (Queue == null) return;
            // Mono does not give back the request where its queue's handle is closed.
            if (Queue.Handle.IsClosed) throw new ObjectDisposedException("Queue");
            Call.Get((out IntPtr e) => QuireNative.quire_job_request_set_queue(request, Queue.Handle, out e));
        }

        private void FillPrompt(JobRequestHandle request)
        {
            if (Parts.Count > 0)
            {
                Call.Get((out IntPtr e) => QuireNative.quire_job_request_clear_prompt(request, out e));
                foreach (PromptPart part in Parts) part.Add(request);
                return;
            }
            if (Tokens == null)
                Call.SetText(Prompt, (byte* text, UIntPtr length, out IntPtr e) =>
                    QuireNative.quire_job_request_set_prompt_text(request, text, length, out e));
            Call.SetTokens(Tokens, (int* tokens, UIntPtr length, out IntPtr e) =>
                QuireNative.quire_job_request_set_prompt_tokens(request, tokens, length, out e));
        }

        /// <summary>Tokens of one and the same bias go in one call.</summary>
        private void FillBiases(JobRequestHandle request)
        {
            double first = LogitBias.Values.FirstOrDefault();
            if (LogitBias.Count > 1 && LogitBias.Values.All(bias => bias == first))
                Call.SetTokens(LogitBias.Keys.ToArray(), (int* tokens, UIntPtr length, out IntPtr e) =>
                    QuireNative.quire_job_request_set_logit_biases(request, tokens, length, first, out e));
            else
                foreach (var bias in LogitBias)
                    Call.Get((out IntPtr e) =>
                        QuireNative.quire_job_request_add_logit_bias(request, bias.Key, bias.Value, out e));
        }
    }
}
