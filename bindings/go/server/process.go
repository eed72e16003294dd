package server

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
)

// Metrics of the process and of Go's runtime, under the names that Prometheus' client libraries use.

// writeBuild writes the versions of the engine and of Go.
func (s *Server) writeBuild(e exposition) {
	version := ""
	if versioned, is := s.engine.(interface{ Version() string }); is {
		version = versioned.Version()
	}
	e.family("quire_build_info", "gauge", "Versions of the library and of Go; the value is 1.")
	e.sample("quire_build_info", 1, "version", version, "goversion", runtime.Version())
}

func writeProcess(e exposition) {
	writeRuntime(e)
	if stat, err := os.ReadFile("/proc/self/stat"); err == nil {
		writeStat(e, string(stat))
	}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		e.single("process_open_fds", "gauge", "Open file descriptors.", float64(len(files)))
	}
	if limits, err := os.ReadFile("/proc/self/limits"); err == nil {
		if limit, known := openFilesLimit(string(limits)); known {
			e.single("process_max_fds", "gauge", "Maximum number of open file descriptors.", limit)
		}
	}
}

// Indices in /proc/self/stat after the name of the process (man 5 proc_pid_stat).
const (
	statUserTime   = 11
	statSystemTime = 12
	statNumThreads = 17
	statStartTime  = 19
	statVirtual    = 20
	statResident   = 21
	ticksPerSecond = 100 // of the interface of Linux, on every machine
)

func writeStat(e exposition, text string) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) <= statResident {
		return
	}
	at := func(i int) float64 {
		value, _ := strconv.ParseFloat(fields[i], 64)
		return value
	}
	e.single("process_cpu_seconds_total", "counter", "User and system time of the process.",
		(at(statUserTime)+at(statSystemTime))/ticksPerSecond)
	e.single("process_threads", "gauge", "Threads of the process, with those of the library.", at(statNumThreads))
	e.single("process_virtual_memory_bytes", "gauge", "Virtual memory.", at(statVirtual))
	e.single("process_resident_memory_bytes", "gauge", "Resident memory.", at(statResident)*float64(os.Getpagesize()))
	if booted, known := bootTime(); known {
		e.single("process_start_time_seconds", "gauge", "Start of the process since the epoch.",
			booted+at(statStartTime)/ticksPerSecond)
	}
}

func bootTime() (seconds float64, known bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	for _, line := range strings.Split(string(text), "\n") {
		if value := strings.TrimPrefix(line, "btime "); value != line {
			seconds, err = strconv.ParseFloat(value, 64)
			return seconds, err == nil
		}
	}
	return 0, false
}

func openFilesLimit(text string) (limit float64, known bool) {
	for _, line := range strings.Split(text, "\n") {
		if rest := strings.TrimPrefix(line, "Max open files"); rest != line {
			if fields := strings.Fields(rest); len(fields) > 0 {
				value, err := strconv.ParseFloat(fields[0], 64)
				return value, err == nil
			}
		}
	}
	return 0, false
}

// runtimeFigures are figures of Go's runtime that can be read without stopping it.
var runtimeFigures = []struct{ source, name, kind, help string }{
	{"/sched/goroutines:goroutines", "go_goroutines", "gauge", "Goroutines."},
	{"/memory/classes/heap/objects:bytes", "go_memstats_alloc_bytes", "gauge", "Bytes of Go's objects."},
	{"/memory/classes/total:bytes", "go_memstats_sys_bytes", "gauge", "Bytes that Go has taken from the system."},
	{"/gc/cycles/total:gc-cycles", "go_gc_cycles_total_gc_cycles_total", "counter", "Garbage collections."},
}

func writeRuntime(e exposition) {
	samples := make([]metrics.Sample, len(runtimeFigures))
	for i, figure := range runtimeFigures {
		samples[i].Name = figure.source
	}
	metrics.Read(samples)
	for i, figure := range runtimeFigures {
		if samples[i].Value.Kind() == metrics.KindUint64 {
			e.single(figure.name, figure.kind, figure.help, float64(samples[i].Value.Uint64()))
		}
	}
	e.single("go_sched_gomaxprocs_threads", "gauge", "Threads that run Go code at the same time.",
		float64(runtime.GOMAXPROCS(0)))
	e.family("go_info", "gauge", "Version of Go; the value is 1.")
	e.sample("go_info", 1, "version", runtime.Version())
}
