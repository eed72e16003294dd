// Package quire runs large language models inside the process: load a Model with a Runtime, make a Cache for
// it, Submit a Request, and take the events of the Job.
//
// Every type may be used from many goroutines at once, and objects may be closed in any order, also while
// calls on them are under way. Close may be called again; what is forgotten is freed with the garbage.
package quire
