package quire

import "quire.dev/quire/internal/native"

// ModelInfo describes a model.
type ModelInfo struct {
	Architecture  string // as config.json names it
	VocabSize     int    // logits that the model computes; may exceed the size of the tokenizer
	NumLayers     int
	HiddenSize    int
	NumHeads      int
	NumKVHeads    int
	MaxContext    int64 // tokens that the model was made to see at once
	BitsPerWeight float64
	WeightBytes   int64 // on the device where the weights are loaded, else on disk
}

// Info describes the model; Unsupported for one that is a tokenizer alone.
func (m *Model) Info() (ModelInfo, error) {
	var info ModelInfo
	err := read(m.handle, func(f *figures[native.ModelHandle]) {
		info = ModelInfo{
			Architecture:  getText(f, native.Quire_model_architecture),
			VocabSize:     int(get(f, native.Quire_model_vocab_size)),
			NumLayers:     int(get(f, native.Quire_model_num_layers)),
			HiddenSize:    int(get(f, native.Quire_model_hidden_size)),
			NumHeads:      int(get(f, native.Quire_model_num_heads)),
			NumKVHeads:    int(get(f, native.Quire_model_num_kv_heads)),
			MaxContext:    get(f, native.Quire_model_max_context),
			BitsPerWeight: get(f, native.Quire_model_bits_per_weight),
			WeightBytes:   get(f, native.Quire_model_weight_bytes),
		}
	})
	return info, err
}

// Tensor is a tensor as the files of the model have it; a quantized matrix is one.
type Tensor struct {
	Name   string
	Format string  // "exl2", "gptq", "fp8", "f16", "bf16", "f32"
	Shape  []int64 // outermost first; of a matrix outputs, inputs
	Bytes  int64   // on disk, scales and orders included
	Layer  int     // -1 where it belongs to none
}

// Tensors tells all tensors, in an order that does not change.
func (m *Model) Tensors() ([]Tensor, error) {
	var tensors []Tensor
	err := read(m.handle, func(f *figures[native.ModelHandle]) {
		for i, n := int32(0), get(f, native.Quire_model_num_tensors); i < n && f.err == nil; i++ {
			tensors = append(tensors, Tensor{
				Name:   getText(f, indexed(native.Quire_model_tensor_name, i)),
				Format: getText(f, indexed(native.Quire_model_tensor_format, i)),
				Shape:  getAll(f, indexed(native.Quire_model_tensor_shape, i)),
				Bytes:  get(f, numbered(native.Quire_model_tensor_bytes, i)),
				Layer:  int(get(f, numbered(native.Quire_model_tensor_layer, i))),
			})
		}
	})
	return tensors, err
}
