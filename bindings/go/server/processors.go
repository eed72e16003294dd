package server

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// GrantedProcessors returns the number of processors that the control group of this process grants (cpu.max of
// version 2, on the group and those above it), rounded up; 0 if there is no limit. root is the root directory.
func GrantedProcessors(root fs.FS) int {
	group := "/"
	if text, err := fs.ReadFile(root, "proc/self/cgroup"); err == nil {
		for _, line := range strings.Split(string(text), "\n") {
			if own := strings.TrimPrefix(line, "0::"); own != line {
				group = own
			}
		}
	}
	granted := 0
	// In a container the path may be one of the host; its groups are then not there, but the root of the mount is ours.
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		if n := quota(root, path.Join("sys/fs/cgroup", group, "cpu.max")); n > 0 && (granted == 0 || n < granted) {
			granted = n
		}
		if group == "/" {
			return granted
		}
	}
}

// quota reads "QUOTA PERIOD", both in microseconds; QUOTA is max if there is no limit.
func quota(root fs.FS, file string) int {
	text, err := fs.ReadFile(root, file)
	fields := strings.Fields(string(text))
	if err != nil || len(fields) != 2 {
		return 0
	}
	granted, err := strconv.ParseInt(fields[0], 10, 64)
	period, failure := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || failure != nil || granted <= 0 || period <= 0 {
		return 0
	}
	return int((granted-1)/period) + 1
}
