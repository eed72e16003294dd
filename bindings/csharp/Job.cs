using System;
using Quire.Native;

namespace Quire
{
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
    public sealed class Event
    {
        /// <summary>Whole characters, never a piece of a stop text.</summary>
        public string Text { get; internal set; }

        /// <summary>The ids that came with the text.</summary>
        public int[] Tokens { get; internal set; }

        /// <summary>Of the last event why the job ended, else None.</summary>
        public FinishReason Finish { get; internal set; }
    }

    /// <summary>One generation. Any thread may use it at any time; each event is given to one of those that
    /// poll.</summary>
    public sealed unsafe class Job : IDisposable
    {
        // Mono does not end a process while a thread waits in native code, so no wait is without end.
        private const long WaitSliceNanoseconds = 100 * 1000 * 1000;

        private readonly JobHandle handle;
        private volatile bool over;

        internal Job(JobHandle handle)
        {
            this.handle = handle;
        }

        /// <summary>Waits for the next event; null once the last one was taken. Throws what the job failed
        /// with.</summary>
        public Event Next()
        {
            while (!over)
            {
                IntPtr error;
                IntPtr polled = QuireNative.quire_job_poll(handle, WaitSliceNanoseconds, out error);
                QuireException.ThrowIf(error);
                if (polled == IntPtr.Zero) continue;
                Event read = Read(polled);
                if (read != null) return read;
            }
            return null;
        }

        /// <summary>Copies an event and frees it; null for one that says nothing to a reader of text.</summary>
        private Event Read(IntPtr polled)
        {
            IntPtr error;
            try
            {
                int type = QuireNative.quire_event_type(polled, out error);
                QuireException.ThrowIf(error);
                UIntPtr length;
                if (type == QuireNative.QUIRE_EVENT_ERROR)
                {
                    over = true;
                    byte* message = QuireNative.quire_event_error_message(polled, &length, out error);
                    throw new QuireException((ErrorCode)QuireNative.quire_event_error_code(polled, out error),
                                             Utf8.String(message, length));
                }
                if (type != QuireNative.QUIRE_EVENT_TEXT && type != QuireNative.QUIRE_EVENT_FINISHED) return null;
                if (type == QuireNative.QUIRE_EVENT_FINISHED) over = true;
                byte* text = QuireNative.quire_event_text(polled, &length, out error);
                return new Event
                {
                    Text = Utf8.String(text, length),
                    Tokens = ReadTokens(polled),
                    Finish = (FinishReason)QuireNative.quire_event_finish_reason(polled, out error),
                };
            }
            finally
            {
                QuireNative.quire_event_free(polled, out error);
            }
        }

        private static int[] ReadTokens(IntPtr polled)
        {
            IntPtr error;
            var tokens = new int[QuireNative.quire_event_tokens(polled, null, UIntPtr.Zero, out error)];
            fixed (int* target = tokens)
            {
                QuireNative.quire_event_tokens(polled, target, (UIntPtr)tokens.Length, out error);
            }
            return tokens;
        }

        /// <summary>Ends the job soon; its last event says Cancelled.</summary>
        public void Cancel()
        {
            IntPtr error;
            QuireNative.quire_job_cancel(handle, out error);
            QuireException.ThrowIf(error);
        }

        /// <summary>Frees the job, and cancels it where it is not over.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }
    }
}
