package quire

import "quire.dev/quire/internal/native"

// MemoryPlan is what a model and its cache will take, by kind, in bytes.
type MemoryPlan struct {
	TotalBytes     int64 // of the device: all that follows but staging
	EmbeddingBytes int64
	LayerBytes     int64
	HeadBytes      int64
	KVBytes        int64 // pages of keys and values
	WorkspaceBytes int64 // activations, logits and scratch
	StagingBytes   int64 // host memory that copies need
}

// DevicePlan is the part of one device.
type DevicePlan struct {
	MemoryPlan
	Name        string
	NumLayers   int
	UsableBytes int64 // free beside the reserve and within the split
}

// LayerPlan is the part of one layer.
type LayerPlan struct {
	Device int   // index of Plan.Devices
	Bytes  int64 // weights and pages
}

// Plan tells the memory of a model and a cache by kind, device and layer.
type Plan struct {
	MemoryPlan
	Devices []DevicePlan
	Layers  []LayerPlan
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
	made, err := with(r.handle, func(runtime native.RuntimeHandle, e *native.ErrorHandle) native.PlanHandle {
		return native.Quire_plan_create(runtime, modelOptions.get(), cacheOptions.get(), e)
	})
	if err != nil {
		return nil, err
	}
	defer native.Quire_plan_free(made, nil)
	return readPlan(made)
}

func readPlan(made native.PlanHandle) (*Plan, error) {
	f := &figures[native.PlanHandle]{source: made}
	plan := &Plan{MemoryPlan: MemoryPlan{
		TotalBytes:     get(f, native.Quire_plan_total_bytes),
		EmbeddingBytes: get(f, native.Quire_plan_embedding_bytes),
		LayerBytes:     get(f, native.Quire_plan_layer_bytes),
		HeadBytes:      get(f, native.Quire_plan_head_bytes),
		KVBytes:        get(f, native.Quire_plan_kv_bytes),
		WorkspaceBytes: get(f, native.Quire_plan_workspace_bytes),
		StagingBytes:   get(f, native.Quire_plan_staging_bytes),
	}}
	for i, n := int32(0), get(f, native.Quire_plan_num_devices); i < n && f.err == nil; i++ {
		plan.Devices = append(plan.Devices, readDevicePlan(f, i))
	}
	for i, n := int32(0), get(f, native.Quire_plan_num_layers); i < n && f.err == nil; i++ {
		plan.Layers = append(plan.Layers, LayerPlan{
			Device: int(get(f, numbered(native.Quire_plan_layer_device, i))),
			Bytes:  get(f, numbered(native.Quire_plan_bytes_of_layer, i)),
		})
	}
	return plan, f.err
}

func readDevicePlan(f *figures[native.PlanHandle], i int32) DevicePlan {
	return DevicePlan{
		MemoryPlan: MemoryPlan{
			TotalBytes:     get(f, numbered(native.Quire_plan_device_total_bytes, i)),
			EmbeddingBytes: get(f, numbered(native.Quire_plan_device_embedding_bytes, i)),
			LayerBytes:     get(f, numbered(native.Quire_plan_device_layer_bytes, i)),
			HeadBytes:      get(f, numbered(native.Quire_plan_device_head_bytes, i)),
			KVBytes:        get(f, numbered(native.Quire_plan_device_kv_bytes, i)),
			WorkspaceBytes: get(f, numbered(native.Quire_plan_device_workspace_bytes, i)),
			StagingBytes:   get(f, numbered(native.Quire_plan_device_staging_bytes, i)),
		},
		Name:        getText(f, indexed(native.Quire_plan_device_name, i)),
		NumLayers:   int(get(f, numbered(native.Quire_plan_device_num_layers, i))),
		UsableBytes: get(f, numbered(native.Quire_plan_device_usable_bytes, i)),
	}
}
