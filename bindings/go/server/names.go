package server

// fillModel sets a missing name to the only model that the key of the call may use: clients of llama.cpp and vLLM send
// none. If there are several, the name stays missing, and open refuses it.
func (s *Server) fillModel(c *call, name *string) {
	if *name != "" {
		return
	}
	if only := onlyModel(c.config, c.key); only != "" {
		*name = only
	}
}

// onlyModel returns the model that a key may use if it is the only one, otherwise "".
func onlyModel(config *Config, key Key) string {
	only := ""
	for name := range config.Models {
		if !key.mayUse(name) {
			continue
		}
		if only != "" {
			return ""
		}
		only = name
	}
	return only
}

// target returns the model that a name of the list refers to.
func (c *Config) target(name string) string {
	if target, is := c.Aliases[name]; is {
		return target
	}
	return name
}
