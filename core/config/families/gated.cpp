#include "core/config/families/gated.h"

namespace quire::families {

void gate_attention(ModelReader& reader, LayerSpec& layer, int32_t index) {
  AttentionPart& part = layer.attention();
  part.gate = OutputGatePart{
      reader.layer_matrix(index, "self_attn.gate_proj", reader.hidden(), result_columns(part))};
}

}  // namespace quire::families
