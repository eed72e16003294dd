using System;
using System.Collections.Generic;
using Quire.Native;

namespace Quire
{
    /// <summary>What a job does; the numbers of the C interface (quire/request.h), as below.</summary>
    public enum JobKind
    {
        Generate = QuireNative.QUIRE_JOB_KIND_GENERATE,

        /// <summary>Computes how likely the prompt is: Job.Scores.</summary>
        Score = QuireNative.QUIRE_JOB_KIND_SCORE,

        /// <summary>Computes the prompt, so that later jobs find it in the cache.</summary>
        Warm = QuireNative.QUIRE_JOB_KIND_WARM,

        /// <summary>Makes one vector of the prompt: Job.Embedding.</summary>
        Embed = QuireNative.QUIRE_JOB_KIND_EMBED,
    }

    /// <summary>How an embedding is made of the states of a prompt.</summary>
    public enum Pooling
    {
        Mean = QuireNative.QUIRE_POOLING_MEAN,
        Last = QuireNative.QUIRE_POOLING_LAST,
    }

    /// <summary>What happens to the events of a job when nobody takes them.</summary>
    public enum EventPolicy
    {
        /// <summary>Text grows together into one event.</summary>
        Coalesce = QuireNative.QUIRE_EVENTS_COALESCE,

        /// <summary>The job pauses until events are taken.</summary>
        Pause = QuireNative.QUIRE_EVENTS_PAUSE,

        /// <summary>The job ends with ErrorCode.Capacity.</summary>
        End = QuireNative.QUIRE_EVENTS_END,
    }

    /// <summary>What a job does. What is null or empty has its default. Not for several threads at once.</summary>
    public sealed unsafe class Request
    {
        public JobKind? Kind { get; set; }
        public string Prompt { get; set; }

        /// <summary>The prompt as token ids; where set, Prompt is not read.</summary>
        public int[] Tokens { get; set; }

        /// <summary>Adds the tokens that the model's tokenizer puts around Prompt. Default: true.</summary>
        public bool? AddSpecial { get; set; }

        /// <summary>Reads the text of special tokens in Prompt as those tokens: for templates.</summary>
        public bool? ParseSpecial { get; set; }

        public int? MaxNewTokens { get; set; }

        /// <summary>Tokens before which no stop token is drawn.</summary>
        public int? MinNewTokens { get; set; }

        /// <summary>The end-of-sequence tokens of the model do not end the job.</summary>
        public bool? IgnoreEos { get; set; }

        /// <summary>Tokens that end the job beside the model's own, and are no part of its result.</summary>
        public int[] StopTokens { get; set; }

        /// <summary>Texts that end the job and are no part of its result.</summary>
        public IList<string> StopTexts { get; } = new List<string>();

        /// <summary>Divides the logits; 0 takes the likeliest token always.</summary>
        public double? Temperature { get; set; }

        public int? TopK { get; set; }
        public double? TopP { get; set; }
        public double? MinP { get; set; }
        public ulong? Seed { get; set; }
        public double? RepetitionPenalty { get; set; }
        public double? FrequencyPenalty { get; set; }
        public double? PresencePenalty { get; set; }

        /// <summary>Of the three: the last tokens, prompt included; -1, the default, is all.</summary>
        public int? PenaltyRange { get; set; }

        /// <summary>Over how many older tokens the penalties fade to nothing.</summary>
        public int? PenaltyDecay { get; set; }

        /// <summary>Added to the logit of a token.</summary>
        public IDictionary<int, double> LogitBias { get; } = new Dictionary<int, double>();

        /// <summary>Tokens that are never drawn.</summary>
        public int[] BannedTokens { get; set; }

        /// <summary>The text of special tokens is part of the text.</summary>
        public bool? EmitSpecial { get; set; }

        /// <summary>Events carry the log-probability of each token.</summary>
        public bool? LogProbs { get; set; }

        /// <summary>The likeliest tokens that events carry beside each token.</summary>
        public int? TopLogProbs { get; set; }

        /// <summary>A Score job keeps all logits for Job.RawLogits.</summary>
        public bool? RawLogits { get; set; }

        public Pooling? Pooling { get; set; }

        /// <summary>The vector of an Embed job has length 1. Default: true.</summary>
        public bool? Normalize { get; set; }

        /// <summary>Every event of the job carries it.</summary>
        public ulong? UserData { get; set; }

        public EventPolicy? EventPolicy { get; set; }

        /// <summary>Events that may wait before the policy acts. Default: 64.</summary>
        public int? MaxUnreadEvents { get; set; }

        /// <summary>Events tell how far the prompt is.</summary>
        public bool? ProgressEvents { get; set; }

        /// <summary>Takes the events of the job; null: Job.Next does.</summary>
        public EventQueue Queue { get; set; }

        /// <summary>Larger goes first; -1000 to 1000.</summary>
        public int? Priority { get; set; }

        /// <summary>After submit, by which work must have begun; zero is none, here and below.</summary>
        public TimeSpan? QueueDeadline { get; set; }

        public TimeSpan? FirstTokenDeadline { get; set; }
        public TimeSpan? Deadline { get; set; }

        /// <summary>Room for all of the job is taken at once, so that it never gives it to others.</summary>
        public bool? ReserveWhole { get; set; }

        /// <summary>The job starts from what the cache has of its prompt. Default: true.</summary>
        public bool? ReusePrefix { get; set; }

        /// <summary>Later jobs may start from what this one computed. Default: true.</summary>
        public bool? PublishPages { get; set; }

        /// <summary>Such as a tenant: jobs share cached prefixes, and quotas count, within it.</summary>
        public string Namespace { get; set; }

        /// <summary>A native object, owned by the caller.</summary>
        internal JobRequestHandle ToNative()
        {
            var request = new JobRequestHandle(Call.Get<IntPtr>(QuireNative.quire_job_request_create));
            try
            {
                FillPrompt(request);
                FillLength(request);
                FillSampling(request);
                FillResults(request);
                FillScheduling(request);
                return request;
            }
            catch
            {
                request.Dispose();
                throw;
            }
        }

        private void FillPrompt(JobRequestHandle request)
        {
            Call.Set(Kind, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_kind(request, (int)value, out e));
            if (Tokens == null)
                Call.SetText(Prompt, (byte* text, UIntPtr length, out IntPtr e) =>
                    QuireNative.quire_job_request_set_prompt_text(request, text, length, out e));
            Call.SetTokens(Tokens, (int* tokens, UIntPtr length, out IntPtr e) =>
                QuireNative.quire_job_request_set_prompt_tokens(request, tokens, length, out e));
            Call.Set(AddSpecial, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_add_special(request, value ? 1 : 0, out e));
            Call.Set(ParseSpecial, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_parse_special(request, value ? 1 : 0, out e));
        }

        private void FillLength(JobRequestHandle request)
        {
            Call.Set(MaxNewTokens, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_max_new_tokens(request, value, out e));
            Call.Set(MinNewTokens, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_min_new_tokens(request, value, out e));
            Call.Set(IgnoreEos, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_ignore_eos(request, value ? 1 : 0, out e));
            Call.SetTokens(StopTokens, (int* tokens, UIntPtr length, out IntPtr e) =>
                QuireNative.quire_job_request_set_stop_tokens(request, tokens, length, out e));
            foreach (string stop in StopTexts)
                Call.SetText(stop, (byte* text, UIntPtr length, out IntPtr e) =>
                    QuireNative.quire_job_request_add_stop_text(request, text, length, out e));
        }

        private void FillSampling(JobRequestHandle request)
        {
            Call.Set(Temperature, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_temperature(request, value, out e));
            Call.Set(TopK, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_top_k(request, value, out e));
            Call.Set(TopP, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_top_p(request, value, out e));
            Call.Set(MinP, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_min_p(request, value, out e));
            Call.Set(Seed, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_seed(request, value, out e));
            Call.Set(RepetitionPenalty, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_repetition_penalty(request, value, out e));
            Call.Set(FrequencyPenalty, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_frequency_penalty(request, value, out e));
            Call.Set(PresencePenalty, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_presence_penalty(request, value, out e));
            Call.Set(PenaltyRange, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_penalty_range(request, value, out e));
            Call.Set(PenaltyDecay, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_penalty_decay(request, value, out e));
            foreach (KeyValuePair<int, double> bias in LogitBias)
                Call.Get((out IntPtr e) =>
                    QuireNative.quire_job_request_add_logit_bias(request, bias.Key, bias.Value, out e));
            Call.SetTokens(BannedTokens, (int* tokens, UIntPtr length, out IntPtr e) =>
                QuireNative.quire_job_request_set_banned_tokens(request, tokens, length, out e));
        }

        private void FillResults(JobRequestHandle request)
        {
            Call.Set(EmitSpecial, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_emit_special(request, value ? 1 : 0, out e));
            Call.Set(LogProbs, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_log_probs(request, value ? 1 : 0, out e));
            Call.Set(TopLogProbs, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_top_log_probs(request, value, out e));
            Call.Set(RawLogits, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_raw_logits(request, value ? 1 : 0, out e));
            Call.Set(Pooling, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_pooling(request, (int)value, out e));
            Call.Set(Normalize, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_normalize(request, value ? 1 : 0, out e));
            Call.Set(UserData, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_user_data(request, value, out e));
            Call.Set(EventPolicy, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_event_policy(request, (int)value, out e));
            Call.Set(MaxUnreadEvents, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_max_unread_events(request, value, out e));
            Call.Set(ProgressEvents, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_progress_events(request, value ? 1 : 0, out e));
            // Mono does not give back the request where the handle behind it is closed.
            if (Queue != null && Queue.Handle.IsClosed) throw new ObjectDisposedException("Queue");
            if (Queue != null)
                Call.Get((out IntPtr e) =>
                    QuireNative.quire_job_request_set_queue(request, Queue.Handle, out e));
        }

        private void FillScheduling(JobRequestHandle request)
        {
            Call.Set(Priority, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_priority(request, value, out e));
            Call.Set(QueueDeadline, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_queue_deadline_ns(request, Call.Nanoseconds(value), out e));
            Call.Set(FirstTokenDeadline, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_first_token_deadline_ns(request, Call.Nanoseconds(value), out e));
            Call.Set(Deadline, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_deadline_ns(request, Call.Nanoseconds(value), out e));
            Call.Set(ReserveWhole, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_reserve_whole(request, value ? 1 : 0, out e));
            Call.Set(ReusePrefix, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_reuse_prefix(request, value ? 1 : 0, out e));
            Call.Set(PublishPages, value => (out IntPtr e) =>
                QuireNative.quire_job_request_set_publish_pages(request, value ? 1 : 0, out e));
            Call.SetText(Namespace, (byte* text, UIntPtr length, out IntPtr e) =>
                QuireNative.quire_job_request_set_namespace(request, text, length, out e));
        }
    }
}
