using System;
using Quire.Native;

namespace Quire
{
    /// <summary>What a model is.</summary>
    public sealed unsafe class ModelInfo
    {
        /// <summary>As config.json names it.</summary>
        public string Architecture { get; private set; }

        /// <summary>Logits that the model computes; may exceed the size of the tokenizer.</summary>
        public int VocabSize { get; private set; }

        public int NumLayers { get; private set; }
        public int HiddenSize { get; private set; }
        public int NumHeads { get; private set; }
        public int NumKvHeads { get; private set; }

        /// <summary>Tokens that the model was made to see at once.</summary>
        public long MaxContext { get; private set; }

        public double BitsPerWeight { get; private set; }

        /// <summary>On the device where the weights are loaded, else on disk.</summary>
        public long WeightBytes { get; private set; }

        internal static ModelInfo Of(ModelHandle model)
        {
            return new ModelInfo
            {
                Architecture = Call.FetchText((void* text, UIntPtr size, out IntPtr e) =>
                    QuireNative.quire_model_architecture(model, (byte*)text, size, out e)),
                VocabSize = Call.Get((out IntPtr e) => QuireNative.quire_model_vocab_size(model, out e)),
                NumLayers = Call.Get((out IntPtr e) => QuireNative.quire_model_num_layers(model, out e)),
                HiddenSize = Call.Get((out IntPtr e) => QuireNative.quire_model_hidden_size(model, out e)),
                NumHeads = Call.Get((out IntPtr e) => QuireNative.quire_model_num_heads(model, out e)),
                NumKvHeads = Call.Get((out IntPtr e) => QuireNative.quire_model_num_kv_heads(model, out e)),
                MaxContext = Call.Get((out IntPtr e) => QuireNative.quire_model_max_context(model, out e)),
                BitsPerWeight = Call.Get((out IntPtr e) => QuireNative.quire_model_bits_per_weight(model, out e)),
                WeightBytes = Call.Get((out IntPtr e) => QuireNative.quire_model_weight_bytes(model, out e)),
            };
        }
    }

    /// <summary>A tensor as the files of a model have it; a quantized matrix is one.</summary>
    public sealed unsafe class Tensor
    {
        public string Name { get; private set; }

        /// <summary>"exl2", "gptq", "fp8", "f16", "bf16", "f32".</summary>
        public string Format { get; private set; }

        /// <summary>Outermost first; of a matrix outputs, inputs.</summary>
        public long[] Shape { get; private set; }

        /// <summary>On disk, scales and orders included.</summary>
        public long Bytes { get; private set; }

        /// <summary>-1 where it belongs to none.</summary>
        public int Layer { get; private set; }

        internal static Tensor Of(ModelHandle model, int tensor)
        {
            return new Tensor
            {
                Name = Call.FetchText((void* text, UIntPtr size, out IntPtr e) =>
                    QuireNative.quire_model_tensor_name(model, tensor, (byte*)text, size, out e)),
                Format = Call.FetchText((void* text, UIntPtr size, out IntPtr e) =>
                    QuireNative.quire_model_tensor_format(model, tensor, (byte*)text, size, out e)),
                Shape = Call.Fetch<long>((void* sizes, UIntPtr size, out IntPtr e) =>
                    QuireNative.quire_model_tensor_shape(model, tensor, (long*)sizes, size, out e)),
                Bytes = Call.Get((out IntPtr e) => QuireNative.quire_model_tensor_bytes(model, tensor, out e)),
                Layer = Call.Get((out IntPtr e) => QuireNative.quire_model_tensor_layer(model, tensor, out e)),
            };
        }
    }
}
