using System;
using System.Collections.Generic;
using Quire.Native;

namespace Quire
{
    public sealed unsafe partial class Stats
    {
        private void ReadNamespaces(IntPtr stats)
        {
            Namespaces = new Dictionary<string, Stats>();
            long count = Call.Get((out IntPtr e) => QuireNative.quire_stats_num_namespaces(stats, out e));
            for (int i = 0; i < count; i++)
            {
                int idx = i;
                string name = Call.FetchText((void* text, UIntPtr size, out IntPtr e) =>
                    QuireNative.quire_stats_namespace_name(stats, idx, (byte*)text, size, out e));
                Namespaces[name] =
                    Take(Call.Get((out IntPtr e) => QuireNative.quire_stats_namespace(stats, idx, out e)));
            }
        }
    }

    public sealed unsafe partial class Event
    {
        /// <summary>Whether no event of the job follows this one.</summary>
        public bool IsLast { get { return Kind == EventKind.Finished || Kind == EventKind.Error; } }

        internal static void Free(IntPtr taken)
        {
            IntPtr error;
            QuireNative.quire_event_free(taken, out error);
            if (error != IntPtr.Zero) QuireNative.quire_error_free(error);
        }
    }
}
