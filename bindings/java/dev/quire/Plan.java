package dev.quire;

import java.util.List;
import java.util.stream.IntStream;

/** What a model and its cache will take of memory, in all and on each device. */
public record Plan(Memory memory, List<Device> devices, List<Layer> layers) {
  /**
   * Bytes by kind.
   *
   * @param total of the device: all that follows but staging
   * @param kv pages of keys and values
   * @param workspace activations, logits and scratch
   * @param staging host memory that copies need
   */
  public record Memory(
      long total, long embedding, long layers, long head, long kv, long workspace, long staging) {
    private static Memory of(long plan) {
      return new Memory(QuireNative.quire_plan_total_bytes(plan), QuireNative.quire_plan_embedding_bytes(plan),
          QuireNative.quire_plan_layer_bytes(plan), QuireNative.quire_plan_head_bytes(plan),
          QuireNative.quire_plan_kv_bytes(plan), QuireNative.quire_plan_workspace_bytes(plan),
          QuireNative.quire_plan_staging_bytes(plan));
    }

    private static Memory ofDevice(long plan, int device) {
      return new Memory(QuireNative.quire_plan_device_total_bytes(plan, device),
          QuireNative.quire_plan_device_embedding_bytes(plan, device),
          QuireNative.quire_plan_device_layer_bytes(plan, device),
          QuireNative.quire_plan_device_head_bytes(plan, device),
          QuireNative.quire_plan_device_kv_bytes(plan, device),
          QuireNative.quire_plan_device_workspace_bytes(plan, device),
          QuireNative.quire_plan_device_staging_bytes(plan, device));
    }
  }

  /**
   * The part of one device.
   *
   * @param usableBytes what it has free beside the reserve and within the split
   */
  public record Device(String name, int numLayers, long usableBytes, Memory memory) {
    private static Device of(long plan, int device) {
      return new Device(Results.text(out -> QuireNative.quire_plan_device_name(plan, device, out)),
          QuireNative.quire_plan_device_num_layers(plan, device),
          QuireNative.quire_plan_device_usable_bytes(plan, device), Memory.ofDevice(plan, device));
    }
  }

  /**
   * The part of one layer.
   *
   * @param device its place in {@link Plan#devices}
   * @param bytes weights and pages
   */
  public record Layer(int device, long bytes) {
    private static Layer of(long plan, int layer) {
      return new Layer(
          QuireNative.quire_plan_layer_device(plan, layer), QuireNative.quire_plan_bytes_of_layer(plan, layer));
    }
  }

  /** Copies a native plan and frees it. */
  static Plan take(long plan) {
    try {
      return new Plan(Memory.of(plan),
          IntStream.range(0, QuireNative.quire_plan_num_devices(plan)).mapToObj(i -> Device.of(plan, i)).toList(),
          IntStream.range(0, QuireNative.quire_plan_num_layers(plan)).mapToObj(i -> Layer.of(plan, i)).toList());
    } finally {
      QuireNative.quire_plan_free(plan);
    }
  }
}
