// Package quire runs large language models inside the process. Load a Model with a Runtime, create a Cache
// for it, Submit a Request, and take the events of the Job.
//
// Every type is safe for concurrent use. Objects may be closed in any order, also during calls on them. Close
// may be called again; objects that are never closed are freed by the garbage collector.
package quire
