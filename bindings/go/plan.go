package quire

import (
	"encoding/json"
	"fmt"

	"quire.dev/quire/internal/native"
)

// MemoryPlan is what a model and its cache will take, by kind, in bytes.
type MemoryPlan struct {
	TotalBytes     int64 `json:"total_bytes"` // of the device: all that follows but staging
	EmbeddingBytes int64 `json:"embedding_bytes"`
	LayerBytes     int64 `json:"layer_bytes"`
	HeadBytes      int64 `json:"head_bytes"`
	KVBytes        int64 `json:"kv_bytes"`        // pages of keys and values
	WorkspaceBytes int64 `json:"workspace_bytes"` // activations, logits and scratch
	StagingBytes   int64 `json:"staging_bytes"`   // host memory that copies need
}

// DevicePlan is the part of one device.
type DevicePlan struct {
	MemoryPlan
	Name        string `json:"name"`
	NumLayers   int    `json:"num_layers"`
	UsableBytes int64  `json:"usable_bytes"` // free beside the reserve and within the split
}

// LayerPlan is the part of one layer.
type LayerPlan struct {
	Device int   `json:"device"` // index of Plan.Devices
	Bytes  int64 `json:"bytes"`  // weights and pages
}

// Plan tells the memory of a model and a cache by kind, device and layer.
type Plan struct {
	MemoryPlan
	Devices []DevicePlan `json:"devices"`
	Layers  []LayerPlan  `json:"layers"`
}

// Plan tells what a model directory and a cache will take, before a weight is read. It fails as a load does, and
// with OutOfMemory where an automatic split does not go.
func (r *Runtime) Plan(path string, model ModelOptions, cache CacheOptions) (*Plan, error) {
	modelOptions, err := model.native(path)
	if err != nil {
		return nil, err
	}
	defer modelOptions.close()
	cacheOptions, err := cache.native()
	if err != nil {
		return nil, err
	}
	defer cacheOptions.close()
	text, err := measuredWith(r.handle, func(runtime native.RuntimeHandle, out []byte, e *native.ErrorHandle) int64 {
		return native.Quire_plan(runtime, modelOptions.get(), cacheOptions.get(), out, e)
	})
	if err != nil {
		return nil, err
	}
	plan := new(Plan)
	if err := json.Unmarshal(text, plan); err != nil {
		return nil, &Error{Internal, fmt.Sprintf("the plan of the library cannot be read: %v", err)}
	}
	return plan, nil
}
