using System;
using Quire.Native;

namespace Quire
{
    public sealed unsafe partial class Request
    {
        private void FillRest(JobRequestHandle request)
        {
            FillPrompt(request);
            if (Queue == null) return;
            // Check this first: Mono does not release the request handle if the call throws because its queue
            // is closed.
            if (Queue.Handle.IsClosed) throw new ObjectDisposedException("Queue");
            Call.Get((out IntPtr e) => QuireNative.quire_job_request_set_queue(request, Queue.Handle, out e));
        }

        private void FillPrompt(JobRequestHandle request)
        {
            if (Parts.Count > 0)
            {
                if (!string.IsNullOrEmpty(Prompt) || Tokens != null)
                    throw QuireException.Invalid("Parts",
                        "a request with Parts has neither Prompt nor Tokens; add them as a PromptPart");
                Call.Get((out IntPtr e) => QuireNative.quire_job_request_clear_prompt(request, out e));
                foreach (PromptPart part in Parts) Require.NotNull(part, "Parts").Add(request);
                return;
            }
            if (Tokens == null)
                Call.SetText(Prompt, (byte* text, UIntPtr length, out IntPtr e) =>
                    QuireNative.quire_job_request_set_prompt_text(request, text, length, out e));
            Call.SetTokens(Tokens, (int* tokens, UIntPtr length, out IntPtr e) =>
                QuireNative.quire_job_request_set_prompt_tokens(request, tokens, length, out e));
        }
    }
}
