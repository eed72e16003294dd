using System;
using System.Collections.Generic;
using System.Threading;
using Quire.Native;

namespace Quire
{
    /// <summary>Settings of a runtime. What is null has its default. Not for several threads at once.</summary>
    public sealed unsafe class RuntimeOptions
    {
        /// <summary>Threads that compute; 0 is one per core.</summary>
        public int? NumThreads { get; set; }

        /// <summary>The device of models that name none: "cpu", "cuda:0".</summary>
        public string Device { get; set; }

        /// <summary>Bytes of each device, by its name, that models and caches may take together.</summary>
        public IDictionary<string, long> MemoryBudgets { get; } = new Dictionary<string, long>();

        internal void Fill(RuntimeOptionsHandle options)
        {
            Call.Set(NumThreads, value => (out IntPtr e) =>
                QuireNative.quire_runtime_options_set_num_threads(options, value, out e));
            Call.SetText(Device, (byte* text, UIntPtr length, out IntPtr e) =>
                QuireNative.quire_runtime_options_set_device(options, text, length, out e));
            foreach (KeyValuePair<string, long> budget in MemoryBudgets)
                Call.SetText(budget.Key, (byte* text, UIntPtr length, out IntPtr e) =>
                    QuireNative.quire_runtime_options_set_memory_budget(options, text, length, budget.Value, out e));
        }
    }

    /// <summary>What a runtime knows of one device.</summary>
    public sealed class Device
    {
        /// <summary>By which options choose it.</summary>
        public string Name { get; internal set; }

        /// <summary>Model, instruction sets or compute capability.</summary>
        public string Description { get; internal set; }

        /// <summary>Why it cannot be used; empty where it can.</summary>
        public string Refusal { get; internal set; }

        public long MemoryBytes { get; internal set; }

        /// <summary>At the moment of asking.</summary>
        public long FreeBytes { get; internal set; }
    }

    /// <summary>The devices that models are loaded on. Any thread may use it at any time.</summary>
    public sealed unsafe class Runtime : IDisposable
    {
        private readonly RuntimeHandle handle;
        private readonly Dispatcher dispatcher = new Dispatcher(); // of all jobs of its caches

        /// <summary>Makes a runtime that computes with so many threads; 0 is one per core.</summary>
        public Runtime(int numThreads = 0) : this(new RuntimeOptions { NumThreads = numThreads }) { }

        public Runtime(RuntimeOptions options)
        {
            Call.Get((out IntPtr e) =>
                QuireNative.quire_abi_check(QuireNative.QUIRE_ABI_MAJOR, QuireNative.QUIRE_ABI_MINOR, out e));
            using (var filled = new RuntimeOptionsHandle(
                Call.Get<IntPtr>(QuireNative.quire_runtime_options_create)))
            {
                options.Fill(filled);
                handle = new RuntimeHandle(
                    Call.Get((out IntPtr e) => QuireNative.quire_runtime_create(filled, out e)));
            }
        }

        /// <summary>The version of the library that is loaded, such as "0.1.0".</summary>
        public static string LibraryVersion
        {
            get { return Utf8.String(QuireNative.quire_version_string()); }
        }

        /// <summary>Loads a model directory. The token ends the load, which leaves nothing behind then.</summary>
        public Model LoadModel(string path, ModelOptions options = null,
            CancellationToken cancel = default(CancellationToken))
        {
            options = options ?? new ModelOptions();
            using (ModelOptionsHandle filled = options.ToNative(path))
            using (var ending = new Cancel(cancel))
            {
                return ending.During(value =>
                    ProgressCalls.During(options.Progress, filled, () => new Model(new ModelHandle(
                        Call.Get((out IntPtr e) => QuireNative.quire_model_load(handle, filled,
                            QuireNative.QUIRE_WAIT_FOREVER, value, out e))), dispatcher)));
            }
        }

        /// <summary>The same on a thread of the pool.</summary>
        public System.Threading.Tasks.Task<Model> LoadModelAsync(string path, ModelOptions options = null,
            CancellationToken cancel = default(CancellationToken))
        {
            if (handle.IsClosed) throw new ObjectDisposedException("Runtime");
            return System.Threading.Tasks.Task.Run(() => LoadModel(path, options, cancel), cancel);
        }

        /// <summary>What a model directory and a cache will take, before a weight is read. Fails as a load does, and
        /// with ErrorCode.OutOfMemory where a split over several devices, automatic or by bytes, does not
        /// go.</summary>
        public Plan Plan(string path, ModelOptions model = null, CacheOptions cache = null)
        {
            using (ModelOptionsHandle filledModel = (model ?? new ModelOptions()).ToNative(path))
            using (CacheOptionsHandle filledCache = (cache ?? new CacheOptions()).ToNative())
            {
                return Quire.Plan.Take(Call.Get((out IntPtr e) =>
                    QuireNative.quire_plan_create(handle, filledModel, filledCache, out e)));
            }
        }

        /// <summary>An empty queue for jobs of caches of this runtime.</summary>
        public EventQueue CreateQueue()
        {
            return new EventQueue(new QueueHandle(
                Call.Get((out IntPtr e) => QuireNative.quire_queue_create(handle, out e))));
        }

        /// <summary>All devices, those that cannot be used included, in an order that does not change.</summary>
        public IList<Device> Devices()
        {
            int count = Call.Get((out IntPtr e) => QuireNative.quire_runtime_num_devices(handle, out e));
            var devices = new List<Device>();
            for (int i = 0; i < count; i++) devices.Add(Describe(i));
            return devices;
        }

        private Device Describe(int device)
        {
            return new Device
            {
                Name = Call.FetchText((void* text, UIntPtr size, out IntPtr e) =>
                    QuireNative.quire_runtime_device_name(handle, device, (byte*)text, size, out e)),
                Description = Call.FetchText((void* text, UIntPtr size, out IntPtr e) =>
                    QuireNative.quire_runtime_device_description(handle, device, (byte*)text, size, out e)),
                Refusal = Call.FetchText((void* text, UIntPtr size, out IntPtr e) =>
                    QuireNative.quire_runtime_device_refusal(handle, device, (byte*)text, size, out e)),
                MemoryBytes = Call.Get((out IntPtr e) =>
                    QuireNative.quire_runtime_device_memory_bytes(handle, device, out e)),
                FreeBytes = Call.Get((out IntPtr e) =>
                    QuireNative.quire_runtime_device_free_bytes(handle, device, out e)),
            };
        }

        /// <summary>What this machine offers and what the library found, for a person.</summary>
        public static string Diagnose()
        {
            return Diagnose(QuireNative.QUIRE_DIAGNOSE_TEXT);
        }

        /// <summary>The same as one JSON object.</summary>
        public static string DiagnoseAsJson()
        {
            return Diagnose(QuireNative.QUIRE_DIAGNOSE_JSON);
        }

        private static string Diagnose(int format)
        {
            return Call.FetchText((void* text, UIntPtr size, out IntPtr e) =>
                QuireNative.quire_diagnose(format, (byte*)text, size, out e));
        }

        /// <summary>Frees the runtime; models made with it stay usable.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }
    }
}
