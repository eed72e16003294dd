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

// pack is a batch: the time in seconds, and the events as maps that have their names as type.
func pack(seconds float64, events []Event) []byte {
	out := packed(nil).list(2).real(seconds).list(len(events))
	for _, event := range events {
		switch event.Kind {
		case Stored:
			out = event.packStored(out)
		case Removed:
			out = out.fields(3).text("type").text("BlockRemoved").text("block_hashes").list(1).number(event.Hash)
			out = out.text("medium").text(string(event.Medium))
		case Cleared:
			out = out.fields(1).text("type").text("AllBlocksCleared")
		}
	}
	return out
}

// packStored has vLLM's fields; extra_keys, what tells equal tokens apart, is a list for each block.
func (e *Event) packStored(out packed) packed {
	fields := 8
	if e.Namespace != "" {
		fields++
	}
	out = out.fields(fields).text("type").text("BlockStored").text("block_hashes").list(1).number(e.Hash)
	out = out.text("parent_block_hash")
	if e.Parent == 0 {
		out = out.none()
	} else {
		out = out.number(e.Parent)
	}
	out = out.text("token_ids").list(len(e.Tokens))
	for _, token := range e.Tokens {
		out = out.number(uint64(token))
	}
	out = out.text("block_size").number(uint64(e.PageSize)).text("lora_id").none()
	out = out.text("medium").text(string(e.Medium)).text("lora_name").none()
	if e.Namespace != "" {
		out = out.text("extra_keys").list(1).list(1).text(e.Namespace)
	}
	return out
}
