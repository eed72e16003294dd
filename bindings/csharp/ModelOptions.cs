using System;
using Quire.Native;

namespace Quire
{
    public sealed unsafe partial class ModelOptions
    {
        /// <summary>A native object for the model of a directory, owned by the caller.</summary>
        internal ModelOptionsHandle ToNative(string path)
        {
            if (path == null) throw new ArgumentNullException("path");
            ModelOptionsHandle options = ToNative();
            try
            {
                Call.SetText(path, (byte* text, UIntPtr length, out IntPtr e) =>
                    QuireNative.quire_model_options_set_path(options, text, length, out e));
                return options;
            }
            catch
            {
                options.Dispose();
                throw;
            }
        }
    }
}
