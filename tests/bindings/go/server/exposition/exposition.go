// Package exposition reads Prometheus' text format, version 0.0.4, as strictly as its specification: for tests.
package exposition

import (
	"fmt"
	"math"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// Page is the content of /metrics.
type Page struct {
	Types   map[string]string  // by family
	Samples map[string]float64 // by name and labels, as they are written
	Labels  map[string]bool    // names
}

var (
	head   = regexp.MustCompile(`^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)$`)
	sample = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(.*)\})? (\S+)$`)
	label  = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)`)
	kinds  = map[string]bool{"counter": true, "gauge": true, "histogram": true, "summary": true, "untyped": true}
)

// reader is the state between two lines.
type reader struct {
	page   *Page
	family string
	helped map[string]bool
	bounds map[string][]bucket // by name and labels without le
}

type bucket struct{ bound, count float64 }

// Parse checks a page: its syntax, that the samples of a family follow its TYPE and come together, that no sample
// appears twice, and that histograms are cumulative and end with +Inf.
func Parse(text string) (*Page, error) {
	r := &reader{page: &Page{Types: map[string]string{}, Samples: map[string]float64{}, Labels: map[string]bool{}}, helped: map[string]bool{},
		bounds: map[string][]bucket{}}
	if !strings.HasSuffix(text, "\n") {
		return nil, fmt.Errorf("the last line does not end")
	}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if err := r.line(line); err != nil {
			return nil, fmt.Errorf("line %d, %q: %w", i+1, line, err)
		}
	}
	return r.page, r.checkHistograms()
}

// Has reports whether a metric of a query is on the page: a family, or a part of a histogram.
func (p *Page) Has(metric string) bool {
	if p.Types[metric] != "" {
		return p.Types[metric] != "histogram" // its parts are queried
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if family := strings.TrimSuffix(metric, suffix); family != metric && p.Types[family] == "histogram" {
			return true
		}
	}
	return false
}

func (r *reader) line(line string) error {
	if parts := head.FindStringSubmatch(line); parts != nil {
		return r.head(parts[1], parts[2], parts[3])
	}
	parts := sample.FindStringSubmatch(line)
	if parts == nil {
		return fmt.Errorf("it is neither a head nor a sample")
	}
	name, labels := parts[1], parts[3]
	value, err := strconv.ParseFloat(parts[4], 64)
	if err != nil {
		return err
	}
	if _, twice := r.page.Samples[parts[1]+parts[2]]; twice {
		return fmt.Errorf("it appears twice")
	}
	r.page.Samples[parts[1]+parts[2]] = value
	if err := r.checkFamily(name, value); err != nil {
		return err
	}
	return r.labels(name, labels, value)
}

func (r *reader) head(what, family, rest string) error {
	if what == "HELP" {
		if r.helped[family] {
			return fmt.Errorf("the family appears twice")
		}
		r.helped[family], r.family = true, family
		return nil
	}
	if r.page.Types[family] != "" || r.family != family || !kinds[rest] {
		return fmt.Errorf("TYPE must follow HELP once, with a known type")
	}
	r.page.Types[family] = rest
	return nil
}

func (r *reader) checkFamily(name string, value float64) error {
	kind := r.page.Types[r.family]
	suffix := strings.TrimPrefix(name, r.family)
	switch {
	case kind == "":
		return fmt.Errorf("it has no TYPE")
	case kind == "histogram" && (suffix == "_bucket" || suffix == "_sum" || suffix == "_count"):
	case kind != "histogram" && suffix == "":
	default:
		return fmt.Errorf("it is not of the family %s before it", r.family)
	}
	if kind == "counter" && (value < 0 || math.IsNaN(value)) {
		return fmt.Errorf("a counter must not be negative")
	}
	return nil
}

func (r *reader) labels(name, text string, value float64) error {
	seen := map[string]bool{}
	others, bound := "", math.NaN()
	for text != "" {
		parts := label.FindStringSubmatch(text)
		if parts == nil || seen[parts[1]] {
			return fmt.Errorf("a label is malformed or appears twice: %q", text)
		}
		seen[parts[1]], r.page.Labels[parts[1]] = true, true
		text = text[len(parts[0]):]
		if parts[1] == "le" {
			bound, _ = strconv.ParseFloat(parts[2], 64)
		} else {
			others += parts[0]
		}
	}
	if base := strings.TrimSuffix(name, "_bucket"); base != name && r.page.Types[base] == "histogram" {
		key := base + "{" + strings.TrimSuffix(others, ",") + "}"
		r.bounds[key] = append(r.bounds[key], bucket{bound, value})
	}
	return nil
}

func (r *reader) checkHistograms() error {
	for name, buckets := range r.bounds {
		if !sort.SliceIsSorted(buckets, func(i, j int) bool { return buckets[i].bound < buckets[j].bound }) {
			return fmt.Errorf("%s: the bounds do not rise", name)
		}
		for i := 1; i < len(buckets); i++ {
			if buckets[i].count < buckets[i-1].count {
				return fmt.Errorf("%s: the counts do not accumulate", name)
			}
		}
		last := buckets[len(buckets)-1]
		count := strings.TrimSuffix(strings.Replace(name, "{", "_count{", 1), "{}")
		if !math.IsInf(last.bound, 1) || r.page.Samples[count] != last.count {
			return fmt.Errorf("%s: +Inf is missing or differs from the count", name)
		}
	}
	return nil
}
