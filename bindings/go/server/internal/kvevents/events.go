// Package kvevents publishes changes of the pages of a cache in the format of vLLM: batches in msgpack over
// ZeroMQ. Routers read them to send a prompt to the server that has most of it cached.
package kvevents

// Medium is the medium that holds a page, by vLLM's names.
type Medium string

// Media of pages.
const (
	Device Medium = "GPU" // any device that computes
	Host   Medium = "CPU"
	File   Medium = "DISK"
)

// Event is one change. All fields but Kind describe one page.
type Event struct {
	Kind      Kind
	Hash      uint64
	Parent    uint64 // 0 if the page is the first or the parent is unknown
	Tokens    []int32
	PageSize  int
	Medium    Medium
	Namespace string // prompts of other namespaces do not find the page
}

// Kind is the kind of a change.
type Kind int

// Kinds of changes.
const (
	Stored Kind = iota
	Removed
	Cleared // all pages are gone
)

// pack encodes a batch: the time in seconds, and the events as maps with their name as "type".
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

// packStored encodes vLLM's fields. extra_keys distinguishes pages with equal tokens; it has a list for each
// block.
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
