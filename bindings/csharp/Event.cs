using System;
using Quire.Native;

namespace Quire
{
    /// <summary>What an event tells; the numbers of the C interface (quire/event.h). A later library may have more:
    /// skip what is not known.</summary>
    public enum EventKind
    {
        Started = QuireNative.QUIRE_EVENT_STARTED,

        /// <summary>Another part of the prompt is done; only where asked for.</summary>
        Progress = QuireNative.QUIRE_EVENT_PROGRESS,

        Text = QuireNative.QUIRE_EVENT_TEXT,

        /// <summary>The last one, of a job that came to its end.</summary>
        Finished = QuireNative.QUIRE_EVENT_FINISHED,

        /// <summary>The last one, of a job that failed.</summary>
        Error = QuireNative.QUIRE_EVENT_ERROR,
    }

    /// <summary>Why a job ended; the numbers of the C interface (quire/event.h).</summary>
    public enum FinishReason
    {
        None = QuireNative.QUIRE_FINISH_NONE,
        StopToken = QuireNative.QUIRE_FINISH_STOP_TOKEN,
        StopString = QuireNative.QUIRE_FINISH_STOP_STRING,
        Length = QuireNative.QUIRE_FINISH_LENGTH,
        MaxSeqLen = QuireNative.QUIRE_FINISH_MAX_SEQ_LEN,
        Completed = QuireNative.QUIRE_FINISH_COMPLETED,
        Cancelled = QuireNative.QUIRE_FINISH_CANCELLED,
        Error = QuireNative.QUIRE_FINISH_ERROR,
    }

    /// <summary>One piece of a job's result.</summary>
    public sealed unsafe class Event
    {
        public EventKind Kind { get; private set; }

        /// <summary>Whole characters, never a piece of a stop text.</summary>
        public string Text { get; private set; }

        /// <summary>The ids that came with the text.</summary>
        public int[] Tokens { get; private set; }

        /// <summary>Of each token; only where asked for, as the next two.</summary>
        public float[] LogProbs { get; private set; }

        /// <summary>The Request.TopLogProbs likeliest at the place of each token, one row after another.</summary>
        public int[] TopTokens { get; private set; }

        /// <summary>Those that belong to TopTokens.</summary>
        public float[] TopLogProbs { get; private set; }

        /// <summary>Of EventKind.Progress how many tokens of the prompt are done.</summary>
        public long ProgressDone { get; private set; }

        /// <summary>Of EventKind.Progress how many tokens the prompt has.</summary>
        public long ProgressTotal { get; private set; }

        /// <summary>Of the last event why the job ended, else None.</summary>
        public FinishReason Finish { get; private set; }

        /// <summary>Of EventKind.Error why the job failed, else null.</summary>
        public QuireException Error { get; private set; }

        /// <summary>Job.Id of its job.</summary>
        public long JobId { get; private set; }

        /// <summary>Request.UserData of its job.</summary>
        public ulong UserData { get; private set; }

        /// <summary>Whether no event of the job follows this one.</summary>
        public bool IsLast { get { return Kind == EventKind.Finished || Kind == EventKind.Error; } }

        /// <summary>Copies a native event and frees it.</summary>
        internal static Event Take(IntPtr taken)
        {
            try
            {
                return Read(taken);
            }
            finally
            {
                Free(taken);
            }
        }

        internal static void Free(IntPtr taken)
        {
            IntPtr error;
            QuireNative.quire_event_free(taken, out error);
            if (error != IntPtr.Zero) QuireNative.quire_error_free(error);
        }

        private static Event Read(IntPtr taken)
        {
            var kind = (EventKind)Call.Get((out IntPtr e) => QuireNative.quire_event_type(taken, out e));
            UIntPtr length;
            IntPtr error;
            byte* text = QuireNative.quire_event_text(taken, &length, out error);
            QuireException.ThrowIf(error);
            return new Event
            {
                Kind = kind,
                Text = Utf8.String(text, length),
                Tokens = Call.Fetch<int>((void* values, UIntPtr size, out IntPtr e) =>
                    QuireNative.quire_event_tokens(taken, (int*)values, size, out e)),
                LogProbs = Call.Fetch<float>((void* values, UIntPtr size, out IntPtr e) =>
                    QuireNative.quire_event_log_probs(taken, (float*)values, size, out e)),
                TopTokens = Call.Fetch<int>((void* values, UIntPtr size, out IntPtr e) =>
                    QuireNative.quire_event_top_tokens(taken, (int*)values, size, out e)),
                TopLogProbs = Call.Fetch<float>((void* values, UIntPtr size, out IntPtr e) =>
                    QuireNative.quire_event_top_log_probs(taken, (float*)values, size, out e)),
                ProgressDone = Call.Get((out IntPtr e) => QuireNative.quire_event_progress_done(taken, out e)),
                ProgressTotal = Call.Get((out IntPtr e) => QuireNative.quire_event_progress_total(taken, out e)),
                Finish = (FinishReason)Call.Get((out IntPtr e) =>
                    QuireNative.quire_event_finish_reason(taken, out e)),
                Error = kind == EventKind.Error ? Failure(taken) : null,
                JobId = Call.Get((out IntPtr e) => QuireNative.quire_event_job_id(taken, out e)),
                UserData = Call.Get((out IntPtr e) => QuireNative.quire_event_user_data(taken, out e)),
            };
        }

        private static QuireException Failure(IntPtr taken)
        {
            UIntPtr length;
            IntPtr error;
            byte* message = QuireNative.quire_event_error_message(taken, &length, out error);
            QuireException.ThrowIf(error);
            var code = (ErrorCode)Call.Get((out IntPtr e) => QuireNative.quire_event_error_code(taken, out e));
            return new QuireException(code, Utf8.String(message, length));
        }
    }
}
