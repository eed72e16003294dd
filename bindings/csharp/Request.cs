using System;
using System.Collections.Generic;
using Quire.Native;

namespace Quire
{
    /// <summary>What a job generates. What is null or empty has its default. Not for several threads at
    /// once.</summary>
    public sealed unsafe class Request
    {
        private delegate int Setter(out IntPtr error);

        public string Prompt { get; set; } = "";

        /// <summary>The prompt as token ids; where set, Prompt is not read.</summary>
        public int[] Tokens { get; set; }

        /// <summary>Reads the text of special tokens in Prompt as those tokens: for templates.</summary>
        public bool ParseSpecial { get; set; }

        public int? MaxNewTokens { get; set; }

        /// <summary>Divides the logits; 0 takes the likeliest token always.</summary>
        public double? Temperature { get; set; }

        public int? TopK { get; set; }
        public double? TopP { get; set; }
        public ulong Seed { get; set; }

        /// <summary>Texts that end the job and are no part of its result.</summary>
        public IList<string> StopTexts { get; } = new List<string>();

        private static void Set(Setter setter)
        {
            IntPtr error;
            setter(out error);
            QuireException.ThrowIf(error);
        }

        private void SetPrompt(JobRequestHandle request)
        {
            IntPtr error;
            byte[] bytes = Utf8.Bytes(Prompt);
            fixed (byte* text = bytes)
            fixed (int* tokens = Tokens)
            {
                if (Tokens == null)
                    QuireNative.quire_job_request_set_prompt_text(request, text, (UIntPtr)bytes.Length, out error);
                else
                    QuireNative.quire_job_request_set_prompt_tokens(request, tokens, (UIntPtr)Tokens.Length,
                        out error);
            }
            QuireException.ThrowIf(error);
        }

        private static void AddStopText(JobRequestHandle request, string stop)
        {
            IntPtr error;
            byte[] bytes = Utf8.Bytes(stop);
            fixed (byte* text = bytes)
            {
                QuireNative.quire_job_request_add_stop_text(request, text, (UIntPtr)bytes.Length, out error);
            }
            QuireException.ThrowIf(error);
        }

        private void Fill(JobRequestHandle request)
        {
            SetPrompt(request);
            Set((out IntPtr e) =>
                QuireNative.quire_job_request_set_parse_special(request, ParseSpecial ? 1 : 0, out e));
            Set((out IntPtr e) => QuireNative.quire_job_request_set_seed(request, Seed, out e));
            if (MaxNewTokens.HasValue)
                Set((out IntPtr e) => QuireNative.quire_job_request_set_max_new_tokens(request, MaxNewTokens.Value, out e));
            if (Temperature.HasValue)
                Set((out IntPtr e) => QuireNative.quire_job_request_set_temperature(request, Temperature.Value, out e));
            if (TopK.HasValue)
                Set((out IntPtr e) => QuireNative.quire_job_request_set_top_k(request, TopK.Value, out e));
            if (TopP.HasValue)
                Set((out IntPtr e) => QuireNative.quire_job_request_set_top_p(request, TopP.Value, out e));
            foreach (string stop in StopTexts) AddStopText(request, stop);
        }

        internal JobRequestHandle ToNative()
        {
            IntPtr error;
            IntPtr created = QuireNative.quire_job_request_create(out error);
            QuireException.ThrowIf(error);
            var request = new JobRequestHandle(created);
            try
            {
                Fill(request);
                return request;
            }
            catch
            {
                request.Dispose();
                throw;
            }
        }
    }
}
