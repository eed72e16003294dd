package quire

import "quire.dev/quire/internal/native"

// RuntimeOptions are the settings of a Runtime; the zero value takes every default.
type RuntimeOptions struct {
	NumThreads int    // threads that compute; 0 is one per core
	Device     string // "cpu", "cuda:0"; empty is the CPU

	MemoryBudgets map[string]int64 // bytes of each device that models and caches may take; none is no budget
}

// Runtime holds the devices that models are loaded on.
type Runtime struct {
	handle     *handle[native.RuntimeHandle]
	dispatcher *dispatcher // of all jobs of its caches
}

// NewRuntime makes a runtime; it fails with Version where the library does not fit this package.
func NewRuntime(options RuntimeOptions) (*Runtime, error) {
	if _, err := call(func(e *native.ErrorHandle) int32 {
		return native.Quire_abi_check(native.QUIRE_ABI_MAJOR, native.QUIRE_ABI_MINOR, e)
	}); err != nil {
		return nil, err
	}
	owned, err := filled(native.Quire_runtime_options_create, native.Quire_runtime_options_free,
		func(s *settings[native.RuntimeOptionsHandle]) {
			s.int(native.Quire_runtime_options_set_num_threads, options.NumThreads)
			s.text(native.Quire_runtime_options_set_device, options.Device)
			for device, bytes := range options.MemoryBudgets {
				s.apply(func(target native.RuntimeOptionsHandle, e *native.ErrorHandle) int32 {
					return native.Quire_runtime_options_set_memory_budget(target, device, bytes, e)
				})
			}
		})
	if err != nil {
		return nil, err
	}
	defer owned.close()
	created, err := with(owned, native.Quire_runtime_create)
	if err != nil {
		return nil, err
	}
	return &Runtime{own(created, native.Quire_runtime_free), newDispatcher()}, nil
}

// Close frees the runtime; models made with it stay usable.
func (r *Runtime) Close() error { return r.handle.close() }

// Device is what a runtime knows of one device.
type Device struct {
	Name        string // by which options choose it
	Description string // model, instruction sets or compute capability
	Refusal     string // why it cannot be used; empty where it can
	MemoryBytes int64
	FreeBytes   int64 // at this moment
}

// Devices tells all devices, those that cannot be used included, in an order that does not change.
func (r *Runtime) Devices() ([]Device, error) {
	var devices []Device
	err := read(r.handle, func(f *figures[native.RuntimeHandle]) {
		for i, n := int32(0), get(f, native.Quire_runtime_num_devices); i < n && f.err == nil; i++ {
			devices = append(devices, Device{
				Name:        getText(f, indexed(native.Quire_runtime_device_name, i)),
				Description: getText(f, indexed(native.Quire_runtime_device_description, i)),
				Refusal:     getText(f, indexed(native.Quire_runtime_device_refusal, i)),
				MemoryBytes: get(f, numbered(native.Quire_runtime_device_memory_bytes, i)),
				FreeBytes:   get(f, numbered(native.Quire_runtime_device_free_bytes, i)),
			})
		}
	})
	return devices, err
}

// Metrics are counters and histograms of all caches, on one page in the Prometheus text format; the label "cache" is
// CacheOptions.Name.
func (r *Runtime) Metrics() (string, error) {
	text, err := measuredWith(r.handle, native.Quire_runtime_metrics)
	return string(text), err
}

// DiagnoseFormat is a form of the report of Diagnose.
type DiagnoseFormat int32

// The forms of the C interface (quire/diagnose.h).
const (
	DiagnoseText = DiagnoseFormat(native.QUIRE_DIAGNOSE_TEXT)
	DiagnoseJSON = DiagnoseFormat(native.QUIRE_DIAGNOSE_JSON)
)

// Diagnose reports what this machine offers and what the library found: the first thing to attach to a bug report.
func Diagnose(format DiagnoseFormat) (string, error) {
	text, err := measured(func(out []byte, e *native.ErrorHandle) int64 {
		return native.Quire_diagnose(int32(format), out, e)
	})
	return string(text), err
}

// LibraryVersion is the version of the library that is loaded, such as "0.1.0".
func LibraryVersion() string { return native.Quire_version_string() }
