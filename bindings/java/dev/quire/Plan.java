package dev.quire;

import java.util.List;
import java.util.Map;

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
    private static Memory of(Map<?, ?> json) {
      return new Memory(number(json, "total_bytes"), number(json, "embedding_bytes"), number(json, "layer_bytes"),
          number(json, "head_bytes"), number(json, "kv_bytes"), number(json, "workspace_bytes"),
          number(json, "staging_bytes"));
    }
  }

  /**
   * The part of one device.
   *
   * @param usableBytes what it has free beside the reserve and within the split
   */
  public record Device(String name, int numLayers, long usableBytes, Memory memory) {
    private static Device of(Object json) {
      Map<?, ?> device = (Map<?, ?>) json;
      return new Device((String) device.get("name"), (int) number(device, "num_layers"),
          number(device, "usable_bytes"), Memory.of(device));
    }
  }

  /**
   * The part of one layer.
   *
   * @param device its place in {@link Plan#devices}
   * @param bytes weights and pages
   */
  public record Layer(int device, long bytes) {
    private static Layer of(Object json) {
      Map<?, ?> layer = (Map<?, ?>) json;
      return new Layer((int) number(layer, "device"), number(layer, "bytes"));
    }
  }

  /** From what quire_plan writes; members that a later library adds are passed over. */
  static Plan of(String text) {
    Map<?, ?> json = (Map<?, ?>) Json.parse(text);
    return new Plan(Memory.of(json), ((List<?>) json.get("devices")).stream().map(Device::of).toList(),
        ((List<?>) json.get("layers")).stream().map(Layer::of).toList());
  }

  private static long number(Map<?, ?> json, String name) {
    return (Long) json.get(name);
  }
}
