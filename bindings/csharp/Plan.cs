using System;
using System.Collections.Generic;
using System.Linq;
using Quire.Native;

namespace Quire
{
    /// <summary>What something takes of memory, in bytes by kind.</summary>
    public unsafe class MemoryPlan
    {
        /// <summary>Of the device: all that follows but staging.</summary>
        public long TotalBytes { get; private set; }

        public long EmbeddingBytes { get; private set; }
        public long LayerBytes { get; private set; }
        public long HeadBytes { get; private set; }

        /// <summary>Pages of keys and values.</summary>
        public long KvBytes { get; private set; }

        /// <summary>Activations, logits and scratch.</summary>
        public long WorkspaceBytes { get; private set; }

        /// <summary>Host memory that copies need.</summary>
        public long StagingBytes { get; private set; }

        internal void Read(IntPtr plan)
        {
            TotalBytes = Call.Get((out IntPtr e) => QuireNative.quire_plan_total_bytes(plan, out e));
            EmbeddingBytes = Call.Get((out IntPtr e) => QuireNative.quire_plan_embedding_bytes(plan, out e));
            LayerBytes = Call.Get((out IntPtr e) => QuireNative.quire_plan_layer_bytes(plan, out e));
            HeadBytes = Call.Get((out IntPtr e) => QuireNative.quire_plan_head_bytes(plan, out e));
            KvBytes = Call.Get((out IntPtr e) => QuireNative.quire_plan_kv_bytes(plan, out e));
            WorkspaceBytes = Call.Get((out IntPtr e) => QuireNative.quire_plan_workspace_bytes(plan, out e));
            StagingBytes = Call.Get((out IntPtr e) => QuireNative.quire_plan_staging_bytes(plan, out e));
        }

        internal void Read(IntPtr plan, int device)
        {
            TotalBytes = Call.Get((out IntPtr e) => QuireNative.quire_plan_device_total_bytes(plan, device, out e));
            EmbeddingBytes = Call.Get((out IntPtr e) => QuireNative.quire_plan_device_embedding_bytes(plan, device, out e));
            LayerBytes = Call.Get((out IntPtr e) => QuireNative.quire_plan_device_layer_bytes(plan, device, out e));
            HeadBytes = Call.Get((out IntPtr e) => QuireNative.quire_plan_device_head_bytes(plan, device, out e));
            KvBytes = Call.Get((out IntPtr e) => QuireNative.quire_plan_device_kv_bytes(plan, device, out e));
            WorkspaceBytes = Call.Get((out IntPtr e) => QuireNative.quire_plan_device_workspace_bytes(plan, device, out e));
            StagingBytes = Call.Get((out IntPtr e) => QuireNative.quire_plan_device_staging_bytes(plan, device, out e));
        }
    }

    /// <summary>The part of one device.</summary>
    public sealed unsafe class DevicePlan : MemoryPlan
    {
        public string Name { get; private set; }
        public int NumLayers { get; private set; }

        /// <summary>What it has free beside the reserve and within the split.</summary>
        public long UsableBytes { get; private set; }

        internal DevicePlan(IntPtr plan, int device)
        {
            Name = Call.FetchText((void* text, UIntPtr size, out IntPtr e) =>
                QuireNative.quire_plan_device_name(plan, device, (byte*)text, size, out e));
            NumLayers = Call.Get((out IntPtr e) => QuireNative.quire_plan_device_num_layers(plan, device, out e));
            UsableBytes = Call.Get((out IntPtr e) => QuireNative.quire_plan_device_usable_bytes(plan, device, out e));
            Read(plan, device);
        }
    }

    /// <summary>The part of one layer.</summary>
    public sealed unsafe class LayerPlan
    {
        /// <summary>Its place in Plan.Devices.</summary>
        public int Device { get; private set; }

        /// <summary>Weights and pages.</summary>
        public long Bytes { get; private set; }

        internal LayerPlan(IntPtr plan, int layer)
        {
            Device = Call.Get((out IntPtr e) => QuireNative.quire_plan_layer_device(plan, layer, out e));
            Bytes = Call.Get((out IntPtr e) => QuireNative.quire_plan_bytes_of_layer(plan, layer, out e));
        }
    }

    /// <summary>What a model and its cache will take of memory, in all, on each device and of each
    /// layer.</summary>
    public sealed unsafe class Plan : MemoryPlan
    {
        public IList<DevicePlan> Devices { get; private set; }
        public IList<LayerPlan> Layers { get; private set; }

        /// <summary>Copies a native plan and frees it.</summary>
        internal static Plan Take(IntPtr plan)
        {
            try
            {
                return new Plan(plan);
            }
            finally
            {
                IntPtr error;
                QuireNative.quire_plan_free(plan, out error);
                if (error != IntPtr.Zero) QuireNative.quire_error_free(error);
            }
        }

        private Plan(IntPtr plan)
        {
            Read(plan);
            int devices = Call.Get((out IntPtr e) => QuireNative.quire_plan_num_devices(plan, out e));
            int layers = Call.Get((out IntPtr e) => QuireNative.quire_plan_num_layers(plan, out e));
            Devices = Enumerable.Range(0, devices).Select(i => new DevicePlan(plan, i)).ToList().AsReadOnly();
            Layers = Enumerable.Range(0, layers).Select(i => new LayerPlan(plan, i)).ToList().AsReadOnly();
        }
    }
}
