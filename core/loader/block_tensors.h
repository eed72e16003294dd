// Matrices of blocks, as a GGUF file stores them: each tensor has a block type of its own.
#pragma once

#include "core/loader/layer_tensors.h"
#include "core/loader/load_linear.h"
#include "core/loader/synthetic_values.h"

namespace quire {

bool has_blocks(const LayerTensors& layer);
LinearWeight load_blocks(WeightReader& reader, const LinearRequest& request,
                         const QuantizationConfig& quantization);
// Generates blocks of the types that llama.cpp's mixture Q4_K_M has: Q6_K for the head, and in every second
// layer for values and the projection down; otherwise Q4_K.
LinearWeight synthesize_blocks(const SyntheticRequest& request, SyntheticValues& values);

// Reads an embedding table [rows, columns] of blocks.
HostTensor load_block_table(WeightReader& reader, const WeightDirectory::Entry& stored, int32_t rows,
                            int32_t columns, ReadBy by);

// Makes an error of blocks with a scale that is infinite or not a number, also if a device reads them later.
// `where` begins the message.
void require_finite_scales(HostTensor& rows, std::string where);

}  // namespace quire
