package server

import (
	"io"
	"math"
	"strconv"
	"strings"
)

// exposition writes families of metrics in Prometheus' text format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats). docs/adr/0066 has the reason why this is not
// the usual library.
type exposition struct{ out io.Writer }

// family begins a family. All its samples must follow before the next.
func (e exposition) family(name, kind, help string) {
	_, _ = io.WriteString(e.out, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n")
}

// sample writes one sample; labels are pairs of name and value.
func (e exposition) sample(name string, value float64, labels ...string) {
	_, _ = io.WriteString(e.out, name+labelText(labels)+" "+number(value)+"\n")
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func labelText(labels []string) string {
	if len(labels) == 0 {
		return ""
	}
	pairs := make([]string, 0, len(labels)/2)
	for i := 0; i+1 < len(labels); i += 2 {
		pairs = append(pairs, labels[i]+`="`+escapes.Replace(strings.ToValidUTF8(labels[i+1], "?"))+`"`)
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

func number(value float64) string {
	switch {
	case math.IsInf(value, 1):
		return "+Inf"
	case math.IsInf(value, -1):
		return "-Inf"
	}
	return strconv.FormatFloat(value, 'g', -1, 64)
}

// single writes a family of one sample without labels.
func (e exposition) single(name, kind, help string, value float64) {
	e.family(name, kind, help)
	e.sample(name, value)
}

// histogram counts values by upper bounds.
type histogram struct {
	bounds []float64
	counts []int64 // by the first bound that is not below the value; the last is above all bounds
	sum    float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]int64, len(bounds)+1)}
}

func (h *histogram) observe(value float64) {
	i := 0
	for i < len(h.bounds) && value > h.bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += value
}

// histogram writes the samples of a histogram.
func (e exposition) histogram(name string, h *histogram, labels ...string) {
	var total int64
	for i, count := range h.counts {
		total += count
		bound := math.Inf(1)
		if i < len(h.bounds) {
			bound = h.bounds[i]
		}
		e.sample(name+"_bucket", float64(total), append(labels[:len(labels):len(labels)], "le", number(bound))...)
	}
	e.sample(name+"_sum", h.sum, labels...)
	e.sample(name+"_count", float64(total), labels...)
}
