// Package kvevents publishes what becomes of the pages of a cache as vLLM does: batches in msgpack over ZeroMQ, which
// routers read that send a prompt to where most of it is computed.
package kvevents

// Medium is where a page is, by vLLM's names.
type Medium string

// The media.
const (
	Device Medium = "GPU" // the device that computes, whatever it is
	Host   Medium = "CPU"
	File   Medium = "DISK"
)

// Event is one change; all fields but Kind are of one page.
type Event struct {
	Kind      Kind
	Hash      uint64
	Parent    uint64 // 0: the page is the first, or it is not known
	Tokens    []int32
	PageSize  int
	Medium    Medium
	Namespace string // prompts of others do not find the page
}

// Kind says what became of a page.
type Kind int

// The kinds.
const (
	Stored Kind = iota
	Removed
	Cleared // of all pages
)

// pack is a batch: the time in seconds, and the events as arrays that begin with their names.
func pack(seconds float64, events []Event) []byte {
	out := packed(nil).list(2).real(seconds).list(len(events))
	for _, event := range events {
		switch event.Kind {
		case Stored:
			out = event.packStored(out)
		case Removed:
			out = out.list(3).text("BlockRemoved").list(1).number(event.Hash).text(string(event.Medium))
		case Cleared:
			out = out.list(1).text("AllBlocksCleared")
		}
	}
	return out
}

// packStored has vLLM's fields: hashes, parent, tokens, size of a block, LoRA's id, medium, LoRA's name, and what tells
// equal tokens apart, a list for each block.
func (e *Event) packStored(out packed) packed {
	out = out.list(9).text("BlockStored").list(1).number(e.Hash)
	if e.Parent == 0 {
		out = out.none()
	} else {
		out = out.number(e.Parent)
	}
	out = out.list(len(e.Tokens))
	for _, token := range e.Tokens {
		out = out.number(uint64(token))
	}
	out = out.number(uint64(e.PageSize)).none().text(string(e.Medium)).none()
	if e.Namespace == "" {
		return out.none()
	}
	return out.list(1).list(1).text(e.Namespace)
}
