package server

import (
	"encoding/json"
	"strconv"
)

// Settings of llama.cpp and of ollama that the requests of this server do not have. A value that changes nothing is
// passed over, any other is refused: a constraint must never be ignored.

// neutralSettings holds the values of settings at which they are off.
var neutralSettings = map[string]string{"tfs_z": "1", "n_indent": "0", "min_keep": "0", "t_max_predict_ms": "0",
	"post_sampling_probs": "false", "return_progress": "false", "lora": "[]", "adaptive_target": "-1",
	"response_fields": "[]", "logits_all": "false", "vocab_only": "false", "return_tokens": "false", "samplers": "[]"}

// harmlessSettings holds settings without effect on the tokens: they concern memory, threads and reports, or only
// count beside a setting of neutralSettings.
var harmlessSettings = map[string]bool{"num_keep": true, "num_ctx": true, "num_batch": true, "num_gpu": true,
	"main_gpu": true, "low_vram": true, "f16_kv": true, "use_mmap": true, "use_mlock": true, "num_thread": true, "numa": true,
	"adaptive_decay": true, "n_keep": true, "n_discard": true, "n_cache_reuse": true, "cache_prompt": true, "id_slot": true,
	"timings_per_token": true, "sse_ping_interval": true}

// checkSettings refuses the first setting that would change the answer. Messages have `prefix` before its name.
func checkSettings(settings map[string]json.RawMessage, prefix string, all map[string]json.RawMessage) error {
	for name, value := range settings {
		if isAbsent(value) || harmlessSettings[name] || isNeutral(name, value, all) {
			continue
		}
		if off, known := neutralSettings[name]; known {
			return invalid(prefix+name, "%s%s is not supported; leave it out, or at %s, which is off", prefix, name, off)
		}
		return invalid(prefix+name, "%s%s is not supported; leave it out", prefix, name)
	}
	return nil
}

// isNeutral reports whether a setting changes nothing beside all others.
func isNeutral(name string, value json.RawMessage, all map[string]json.RawMessage) bool {
	switch name {
	case "penalize_newline", "penalize_nl": // they only count beside a penalty
		penalty := all["repeat_penalty"]
		return isAbsent(penalty) || equalNumbers(penalty, "1")
	case "dry_sequence_breakers":
		multiplier := all["dry_multiplier"]
		return string(value) == "[]" || isAbsent(multiplier) || equalNumbers(multiplier, "0")
	}
	off, known := neutralSettings[name]
	return known && (string(value) == off || equalNumbers(value, off))
}

func equalNumbers(value json.RawMessage, other string) bool {
	a, errA := strconv.ParseFloat(string(value), 64)
	b, errB := strconv.ParseFloat(other, 64)
	return errA == nil && errB == nil && a == b
}
