package dev.quire;

/**
 * A tensor as the files of a model have it; a quantized matrix is one.
 *
 * @param format "exl2", "gptq", "fp8", "f16", "bf16", "f32"
 * @param shape outermost first; of a matrix outputs, inputs
 * @param bytes on disk, scales and orders included
 * @param layer -1 where it belongs to none
 */
public record Tensor(String name, String format, long[] shape, long bytes, int layer) {
  static Tensor of(long model, int tensor) {
    return new Tensor(Results.text(out -> QuireNative.quire_model_tensor_name(model, tensor, out)),
        Results.text(out -> QuireNative.quire_model_tensor_format(model, tensor, out)),
        Results.longs(out -> QuireNative.quire_model_tensor_shape(model, tensor, out)),
        QuireNative.quire_model_tensor_bytes(model, tensor), QuireNative.quire_model_tensor_layer(model, tensor));
  }
}
