package server_test

import (
	"strings"
	"testing"

	"quire.dev/quire/server"
)

func (f *fixture) delete(path string) map[string]interface{} {
	f.t.Helper()
	response, text := f.do("DELETE", path, "")
	if response.StatusCode != 200 {
		f.t.Fatalf("%s: %d %s", path, response.StatusCode, text)
	}
	return f.object(text)
}

func TestAConversationIsContinuedByItsResponses(t *testing.T) {
	f := start(t, nil)
	made := f.post("/v1/conversations", `{"metadata":{"topic":"kings"},"items":[{"role":"user","content":"hello"}]}`)
	expect(t, []interface{}{made["object"], at(made, "metadata", "topic")}, []string{"conversation", "kings"})
	id := made["id"].(string)
	path := "/v1/conversations/" + id
	body := f.post("/v1/responses", `{"model":"m","input":"again","instructions":"be kind","conversation":"`+id+`"}`)
	expect(t, f.messages(), []string{"system: be kind", "user: hello", "user: again"})
	expect(t, at(body, "conversation", "id"), id)
	f.post("/v1/responses", `{"model":"m","input":"more","store":false,"conversation":{"id":"`+id+`"}}`)
	expect(t, f.messages(), []string{"user: hello", "user: again", "assistant: again", "user: more"})
	f.stream("/v1/responses", `{"model":"m","input":"last","stream":true,"conversation":"`+id+`"}`)
	items := f.get(path + "/items?order=asc")["data"].([]interface{})
	expect(t, len(items), 7)
	expect(t, at(items, 6, "content", 0, "text"), "last")
	f.post("/v1/responses", `{"model":"m","input":"later","background":true,"conversation":"`+id+`"}`)
	eventually(t, func() bool { return len(f.get(path + "/items?order=asc")["data"].([]interface{})) == 9 })
	items = f.get(path + "/items")["data"].([]interface{})
	expect(t, at(items, 0, "role"), "assistant")
	expect(t, at(items, 0, "content", 0, "text"), "later")
	param, code, _ := f.refusal("POST", "/v1/responses", `{"model":"m","input":"x","conversation":"conv_0"}`, 404)
	expect(t, []string{param, code}, []string{"", "conversation_not_found"})
}

func TestConversationsAreChangedAndDeleted(t *testing.T) {
	f := start(t, nil)
	path := "/v1/conversations/" + f.post("/v1/conversations", `{}`)["id"].(string)
	expect(t, f.get(path)["metadata"], map[string]string{})
	expect(t, at(f.post(path, `{"metadata":{"a":"b"}}`), "metadata", "a"), "b")
	expect(t, at(f.get(path), "metadata", "a"), "b")
	added := f.post(path+"/items", `{"items":[{"role":"user","content":"one"},{"type":"message","role":"assistant","content":[
		{"type":"output_text","text":"two","annotations":[]}]}]}`)
	expect(t, len(added["data"].([]interface{})), 2)
	item := path + "/items/" + added["first_id"].(string)
	expect(t, at(f.get(item), "content", 0, "text"), "one")
	expect(t, f.delete(item)["object"], "conversation")
	f.refusal("GET", item, "", 404)
	f.refusal("DELETE", item, "", 404)
	expect(t, len(f.get(path + "/items")["data"].([]interface{})), 1)
	expect(t, f.delete(path)["object"], "conversation.deleted")
	for _, each := range []string{"GET " + path, "DELETE " + path, "GET " + path + "/items"} {
		method, at, _ := strings.Cut(each, " ")
		f.refusal(method, at, "", 404)
	}
	f.refusal("POST", path, `{"metadata":{}}`, 404)
	f.refusal("POST", path+"/items", `{"items":[{"role":"user","content":"x"}]}`, 404)
}

func TestRequestsAboutConversationsNameTheirFault(t *testing.T) {
	f := start(t, nil)
	path := "/v1/conversations/" + f.post("/v1/conversations", `{}`)["id"].(string)
	for _, each := range []struct{ path, body, param string }{
		{"/v1/conversations", `{"name":"x"}`, "name"},
		{"/v1/conversations", `{"metadata":{"a":"` + strings.Repeat("b", 600) + `"}}`, "metadata"},
		{"/v1/conversations", `{"items":"hello"}`, "items"},
		{"/v1/conversations", `{"items":[{"role":"user","content":[{"type":"input_file"}]}]}`, "items"},
		{"/v1/conversations", `[]`, ""},
		{path, `{"items":[{"role":"user","content":"x"}]}`, "items"},
		{path + "/items", `{"items":[]}`, "items"},
		{path + "/items", `{}`, "items"},
	} {
		param, _, message := f.refusal("POST", each.path, each.body, 400)
		if param != each.param {
			t.Errorf("%s %s: the fault is at %q: %s", each.path, each.body, param, message)
		}
	}
	f.refusal("GET", "/v1/conversations", "", 405)
	f.refusal("PUT", path, "", 405)
	f.refusal("DELETE", path+"/items", "", 405)
	f.refusal("POST", path+"/items/x", "", 405)
	f.refusal("GET", path+"/nothing", "", 404)
	response := f.post("/v1/responses", `{"model":"m","input":"x"}`)["id"].(string)
	f.refusal("GET", "/v1/conversations/"+response, "", 404)
	f.refusal("DELETE", "/v1/conversations/"+response, "", 404)
	f.refusal("POST", "/v1/conversations/"+response, `{"metadata":{}}`, 404)
	f.refusal("DELETE", "/v1/responses/"+strings.TrimPrefix(path, "/v1/conversations/"), "", 404)
	f.refusal("POST", "/v1/responses/"+strings.TrimPrefix(path, "/v1/conversations/")+"/cancel", "", 404)
	f.get(path)
}

func TestAConversationIsOnlyItsOwners(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Keys = []server.Key{{SHA256: digest("k1"), Owner: "a"}, {SHA256: digest("k2"), Owner: "b"}}
	})
	f.key = "k1"
	made := f.post("/v1/conversations", `{"items":[{"role":"user","id":"msg_secret","content":"secret"}]}`)
	path := "/v1/conversations/" + made["id"].(string)
	f.key = "k2"
	f.refusal("GET", path, "", 404)
	f.refusal("GET", path+"/items", "", 404)
	f.refusal("POST", path, `{"metadata":{}}`, 404)
	f.refusal("DELETE", path, "", 404)
	f.refusal("POST", "/v1/responses", `{"model":"m","input":"x","conversation":"`+made["id"].(string)+`"}`, 404)
	f.refusal("POST", "/v1/responses", `{"model":"m","input":[{"type":"item_reference","id":"msg_secret"}]}`, 400)
	f.key = ""
	f.refusal("GET", path, "", 401)
	f.refusal("POST", "/v1/conversations", `{}`, 401)
}
