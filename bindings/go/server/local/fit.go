package local

import (
	"errors"
	"fmt"
	"strings"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// neverFits is the error of a model that needs more memory than its devices have, even if nothing else is loaded.
type neverFits struct {
	device        string
	needed, limit int64
}

func (e *neverFits) Error() string {
	return fmt.Sprintf("it needs %d bytes of %s, which has %d; choose fewer cache_tokens, a smaller kv_format, more devices "+
		"or a larger memory_budgets.%s", e.needed, e.device, e.limit, e.device)
}

// checkFit returns a neverFits if the model and its cache exceed the memory or the budget of a device. Other errors
// of the plan are those of the load.
func checkFit(runtime *quire.Runtime, name string, config server.ModelConfig, budgets map[string]int64) error {
	options, cache, err := loadOptions(name, config)
	if err != nil {
		return err
	}
	limits, err := deviceLimits(runtime, budgets)
	if err != nil {
		return err
	}
	plan, err := runtime.Plan(config.Path, options, cache)
	if errors.Is(err, quire.CodeOutOfMemory) && len(config.Devices) > 1 {
		return checkTotal(runtime, config, options, limits) // the split depends on memory that is free now
	}
	if err != nil {
		return err
	}
	for _, device := range plan.Devices {
		if limit := limits[device.Name]; limit > 0 && device.TotalBytes > limit {
			return &neverFits{device.Name, device.TotalBytes, limit}
		}
	}
	return nil
}

// checkTotal compares the bytes of a model on one device with the memory of all its devices, and of the host if that
// takes experts.
func checkTotal(runtime *quire.Runtime, config server.ModelConfig, options quire.ModelOptions, limits map[string]int64) error {
	devices := append([]string{}, config.Devices...)
	if options.HostExperts != "" && options.HostExperts != "none" && !strings.Contains(","+options.Device+",", ",cpu,") {
		devices = append(devices, "cpu")
	}
	options.Device, options.HostExperts = devices[0], ""
	plan, err := runtime.Plan(config.Path, options, *options.PlannedCache)
	if err != nil {
		return err
	}
	var total int64
	for _, device := range devices {
		total += limits[device]
	}
	if plan.TotalBytes > total {
		return &neverFits{strings.Join(devices, ","), plan.TotalBytes, total}
	}
	return nil
}

// deviceLimits returns the bytes that models may take on each device.
func deviceLimits(runtime *quire.Runtime, budgets map[string]int64) (map[string]int64, error) {
	devices, err := runtime.Devices()
	limits := map[string]int64{}
	for _, device := range devices {
		limits[device.Name] = device.MemoryBytes
		if budget := budgets[device.Name]; budget > 0 && (budget < device.MemoryBytes || device.MemoryBytes == 0) {
			limits[device.Name] = budget
		}
	}
	return limits, err
}
