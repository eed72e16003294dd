package server_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"quire.dev/quire/server"
)

func (f *fixture) store(input string) string {
	f.t.Helper()
	return "/v1/responses/" + f.post("/v1/responses", `{"model":"m","input":"`+input+`"}`)["id"].(string)
}

func (f *fixture) isStored(path string) bool {
	f.t.Helper()
	response, _ := f.do("GET", path, "")
	return response.StatusCode == 200
}

func heapBytes() uint64 {
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc
}

func TestStoredResponsesAreBoundedInBytes(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Limits.MaxStoredBytes = 1 << 20 })
	before := heapBytes()
	var paths []string
	for i := 0; i < 80; i++ {
		paths = append(paths, f.store("say "+strings.Repeat("x", 1<<15)))
	}
	if grown := int64(heapBytes()) - int64(before); grown > 4<<20 { // 80 responses take 8 MiB
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	expect(t, []bool{f.isStored(paths[0]), f.isStored(paths[79])}, []bool{false, true})
	param, _, _ := f.refusal("POST", "/v1/responses", `{"model":"m","input":"x","metadata":{"a":"`+strings.Repeat("x", 8<<20)+`"}}`, 400)
	expect(t, param, "metadata")
}

func TestCompactionIsRefusedByName(t *testing.T) {
	f := start(t, nil)
	_, _, message := f.refusal("POST", "/v1/responses/compact", `{"model":"m","input":"x"}`, 404)
	if !strings.Contains(message, "not compacted") || !strings.Contains(message, "truncation") {
		t.Error(message)
	}
	f.refusal("GET", "/v1/responses/compact", "", 404)
}

func TestAResponseOverTheLimitIsRefusedBeforeItIsComputed(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Limits.MaxStoredBytes = 10000 })
	long := strings.Repeat("x", 10000)
	_, _, message := f.refusal("POST", "/v1/responses", `{"model":"m","input":"`+long+`"}`, 413)
	if !strings.Contains(message, "10000") || !strings.Contains(message, "store false") {
		t.Error(message)
	}
	f.refusal("POST", "/v1/responses", `{"model":"m","background":true,"input":"`+long+`"}`, 413)
	f.refusal("POST", "/v1/conversations", `{"items":[{"role":"user","content":"`+long+`"}]}`, 413)
	if f.engine.Last() != nil {
		t.Error("it was computed")
	}
	f.post("/v1/responses", `{"model":"m","store":false,"input":"`+long+`"}`)
	id := f.post("/v1/conversations", `{}`)["id"].(string)
	f.refusal("POST", "/v1/conversations/"+id+"/items", `{"items":[{"role":"user","content":"`+long+`"}]}`, 413)
	expect(t, f.get("/v1/conversations/" + id + "/items")["data"], []int{})
}

func TestAnOwnerThatStoresMuchLosesItsOwn(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Limits.MaxStored = 6
		c.Keys = []server.Key{{SHA256: digest("k1"), Owner: "a"}, {SHA256: digest("k2"), Owner: "b"}}
	})
	f.key = "k1"
	small := []string{f.store("one"), f.store("two")}
	f.key = "k2"
	var many []string
	for i := 0; i < 20; i++ {
		many = append(many, f.store("more"))
	}
	expect(t, []bool{f.isStored(many[15]), f.isStored(many[16])}, []bool{false, true})
	f.key = "k1"
	expect(t, []bool{f.isStored(small[0]), f.isStored(small[1])}, []bool{true, true})
}

func TestStoredResponsesExpire(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Limits.StoredSeconds = 1 })
	path := f.store("hello")
	conversation := "/v1/conversations/" + f.post("/v1/conversations", `{}`)["id"].(string)
	running := "/v1/responses/" + f.post("/v1/responses", `{"model":"m","input":"wait","background":true}`)["id"].(string)
	expect(t, []bool{f.isStored(path), f.isStored(conversation), f.isStored(running)}, []bool{true, true, true})
	time.Sleep(1100 * time.Millisecond)
	expect(t, []bool{f.isStored(path), f.isStored(conversation), f.isStored(running)}, []bool{false, false, false})
	eventually(t, func() bool { return f.engine.Open_.Load() == 0 }) // its answer can no longer be read
}

func TestANewConfigurationShrinksWhatIsStored(t *testing.T) {
	f := start(t, nil)
	paths := []string{f.store("one"), f.store("two"), f.store("three")}
	config := &server.Config{Models: map[string]server.ModelConfig{"m": {Path: "x"}}, Limits: server.Limits{MaxStored: 1}}
	if err := config.Check(); err != nil {
		t.Fatal(err)
	}
	f.server.Configure(config)
	expect(t, []bool{f.isStored(paths[0]), f.isStored(paths[1]), f.isStored(paths[2])}, []bool{false, false, true})
}
