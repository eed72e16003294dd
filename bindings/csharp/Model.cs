using System;
using System.Collections.Generic;
using Quire.Native;

namespace Quire
{
    /// <summary>A token with a meaning of its own; the numbers of the C interface (quire/model.h).</summary>
    public enum TokenKind
    {
        Bos = QuireNative.QUIRE_TOKEN_BOS,

        /// <summary>The first one where there are several, see Model.EosTokens.</summary>
        Eos = QuireNative.QUIRE_TOKEN_EOS,

        Pad = QuireNative.QUIRE_TOKEN_PAD,
        Unk = QuireNative.QUIRE_TOKEN_UNK,
    }

    /// <summary>A loaded model with its tokenizer; it never changes. Any thread may use it at any time.</summary>
    public sealed unsafe class Model : IDisposable
    {
        private readonly ModelHandle handle;
        private readonly Dispatcher dispatcher;

        internal Model(ModelHandle handle, Dispatcher dispatcher)
        {
            this.handle = handle;
            this.dispatcher = dispatcher;
        }

        /// <summary>Text to token ids. parseSpecial reads the text of special tokens as those tokens: for
        /// templates, never for what users wrote.</summary>
        public int[] Encode(string text, bool addSpecial = true, bool parseSpecial = false)
        {
            using (var source = new Pinned(Utf8.Bytes(text)))
            {
                return Call.Fetch<int>((void* tokens, UIntPtr size, out IntPtr e) =>
                    QuireNative.quire_model_encode(handle, (byte*)source.Address, source.Length, addSpecial ? 1 : 0,
                        parseSpecial ? 1 : 0, (int*)tokens, size, out e));
            }
        }

        /// <summary>Token ids to text.</summary>
        public string Decode(int[] tokens, bool skipSpecial = true)
        {
            using (var source = new Pinned(tokens))
            {
                return Call.FetchText((void* text, UIntPtr size, out IntPtr e) =>
                    QuireNative.quire_model_decode(handle, (int*)source.Address, source.Length, skipSpecial ? 1 : 0,
                        (byte*)text, size, out e));
            }
        }

        /// <summary>The bytes that one token stands for; they may be a part of a character.</summary>
        public byte[] TokenBytes(int token)
        {
            return Call.Fetch<byte>((void* bytes, UIntPtr size, out IntPtr e) =>
                QuireNative.quire_model_token_bytes(handle, token, (byte*)bytes, size, out e));
        }

        /// <summary>The token that the tokenizer's file spells so, such as "&lt;|im_end|&gt;"; null where there is
        /// none.</summary>
        public int? FindToken(string text)
        {
            using (var source = new Pinned(Utf8.Bytes(text)))
            {
                return UnlessNegative(Call.Get((out IntPtr e) =>
                    QuireNative.quire_model_find_token(handle, (byte*)source.Address, source.Length, out e)));
            }
        }

        public bool IsSpecial(int token)
        {
            return Call.Get((out IntPtr e) => QuireNative.quire_model_is_special(handle, token, out e)) == 1;
        }

        /// <summary>The token of a kind; null where the model has none.</summary>
        public int? SpecialToken(TokenKind kind)
        {
            return UnlessNegative(Call.Get((out IntPtr e) =>
                QuireNative.quire_model_special_token(handle, (int)kind, out e)));
        }

        /// <summary>Every token that ends a text.</summary>
        public int[] EosTokens()
        {
            return Call.Fetch<int>((void* tokens, UIntPtr size, out IntPtr e) =>
                QuireNative.quire_model_eos_tokens(handle, (int*)tokens, size, out e));
        }

        /// <summary>How many ids the tokenizer knows.</summary>
        public int TokenizerSize
        {
            get { return Call.Get((out IntPtr e) => QuireNative.quire_model_tokenizer_size(handle, out e)); }
        }

        /// <summary>What the model is; ErrorCode.Unsupported for one that is a tokenizer alone.</summary>
        public ModelInfo Info()
        {
            return ModelInfo.Of(handle);
        }

        /// <summary>All tensors, in an order that does not change.</summary>
        public IList<Tensor> Tensors()
        {
            int count = Call.Get((out IntPtr e) => QuireNative.quire_model_num_tensors(handle, out e));
            var tensors = new List<Tensor>(count);
            for (int i = 0; i < count; i++) tensors.Add(Tensor.Of(handle, i));
            return tensors;
        }

        /// <summary>Takes the memory of a cache and starts its scheduler. maxTokens is room for all jobs
        /// together; 0 is one job of full length.</summary>
        public Cache CreateCache(long maxTokens = 0)
        {
            return CreateCache(new CacheOptions { MaxTokens = maxTokens });
        }

        /// <summary>Takes the memory of a cache and starts its scheduler.</summary>
        public Cache CreateCache(CacheOptions options)
        {
            using (CacheOptionsHandle filled = options.ToNative())
            {
                return new Cache(new CacheHandle(
                    Call.Get((out IntPtr e) => QuireNative.quire_cache_create(handle, filled, out e))), dispatcher);
            }
        }

        /// <summary>How many bytes CreateCache would take on the device of the model.</summary>
        public long CacheBytes(CacheOptions options)
        {
            using (CacheOptionsHandle filled = options.ToNative())
            {
                return Call.Get((out IntPtr e) =>
                    QuireNative.quire_cache_required_bytes(handle, filled, out e));
            }
        }

        private static int? UnlessNegative(int token)
        {
            return token < 0 ? (int?)null : token;
        }

        /// <summary>Frees the model; caches made for it stay usable.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }
    }
}
