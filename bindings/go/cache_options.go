package quire

import "quire.dev/quire/internal/native"

// NamespaceOptions are what one namespace has of its own.
type NamespaceOptions struct {
	Quotas map[QuotaKind]int // in place of those of all namespaces; 0 is no limit
	Weight float64           // share where several have jobs that wait: twice the weight, twice the tokens; 0 is 1
}

func (o *CacheOptions) fillRest(s *settings[native.CacheOptionsHandle]) {
	for name, options := range o.Namespaces {
		for quota, limit := range options.Quotas {
			s.apply(func(cache native.CacheOptionsHandle, e *native.ErrorHandle) int32 {
				return native.Quire_cache_options_set_namespace_quota(cache, name, int32(quota), narrow(limit), e)
			})
		}
		set(s, func(cache native.CacheOptionsHandle, weight float64, e *native.ErrorHandle) int32 {
			return native.Quire_cache_options_set_namespace_weight(cache, name, weight, e)
		}, options.Weight)
	}
}
