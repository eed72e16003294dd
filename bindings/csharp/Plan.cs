using System.Collections.Generic;
using System.Linq;

namespace Quire
{
    /// <summary>What something takes of memory, in bytes by kind.</summary>
    public class MemoryPlan
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

        internal MemoryPlan(IDictionary<string, object> json)
        {
            TotalBytes = (long)json["total_bytes"];
            EmbeddingBytes = (long)json["embedding_bytes"];
            LayerBytes = (long)json["layer_bytes"];
            HeadBytes = (long)json["head_bytes"];
            KvBytes = (long)json["kv_bytes"];
            WorkspaceBytes = (long)json["workspace_bytes"];
            StagingBytes = (long)json["staging_bytes"];
        }
    }

    /// <summary>The part of one device.</summary>
    public sealed class DevicePlan : MemoryPlan
    {
        public string Name { get; private set; }
        public int NumLayers { get; private set; }

        /// <summary>What it has free beside the reserve and within the split.</summary>
        public long UsableBytes { get; private set; }

        internal DevicePlan(IDictionary<string, object> json) : base(json)
        {
            Name = (string)json["name"];
            NumLayers = checked((int)(long)json["num_layers"]);
            UsableBytes = (long)json["usable_bytes"];
        }
    }

    /// <summary>The part of one layer.</summary>
    public sealed class LayerPlan
    {
        /// <summary>Its place in Plan.Devices.</summary>
        public int Device { get; private set; }

        /// <summary>Weights and pages.</summary>
        public long Bytes { get; private set; }

        internal LayerPlan(IDictionary<string, object> json)
        {
            Device = checked((int)(long)json["device"]);
            Bytes = (long)json["bytes"];
        }
    }

    /// <summary>What a model and its cache will take of memory, in all, on each device and of each
    /// layer.</summary>
    public sealed class Plan : MemoryPlan
    {
        public IList<DevicePlan> Devices { get; private set; }
        public IList<LayerPlan> Layers { get; private set; }

        /// <summary>From what quire_plan writes; members that a later library adds are passed over.</summary>
        internal static Plan Of(string text)
        {
            return new Plan((IDictionary<string, object>)Json.Parse(text));
        }

        private Plan(IDictionary<string, object> json) : base(json)
        {
            Devices = Elements(json["devices"]).Select(device => new DevicePlan(device)).ToList().AsReadOnly();
            Layers = Elements(json["layers"]).Select(layer => new LayerPlan(layer)).ToList().AsReadOnly();
        }

        private static IEnumerable<IDictionary<string, object>> Elements(object list)
        {
            return ((List<object>)list).Cast<IDictionary<string, object>>();
        }
    }
}
