"""What llama.cpp asserts of tokens, embeddings, documents, infills and keys."""
import base64
import struct

from llama_requests import KEY, PROMPT, assertion, chat, complete
from peers import Peer

DOCUMENTS = ["The king rode to the castle.", "The sea was calm.", "The king of the castle was old.", "A cat."]


@assertion
def tokens_become_the_text_again(m, _):
    text = "What is the capital of France ?"
    tokens = m.post("/tokenize", content=text)["tokens"]
    assert len(tokens) > 5 and m.post("/detokenize", tokens=tokens)["content"].strip() == text


@assertion
def the_beginning_of_sequence_is_added(m, _):
    assert m.post("/tokenize", content="What", add_special=True)["tokens"][0] == 0  # <|begin_of_text|>


@assertion
def tokens_have_pieces(m, _):
    for token in m.post("/tokenize", content="A test with unicode 媽 and emoji 🤗", with_pieces=True)["tokens"]:
        assert token["id"] > 0 and len(token["piece"]) > 0, token


def embed(m, inputs, **more):
    return m.post("/v1/embeddings", input=inputs, **more)


def vectors(m, inputs):
    return [each["embedding"] for each in embed(m, inputs)["data"]]


@assertion
def an_embedding_has_length_one(m, _):
    (vector,) = vectors(m, "I believe the meaning of life is")
    assert abs(sum(x * x for x in vector) - 1) < 1e-3


@assertion
def embeddings_of_several_texts(m, _):
    assert all(len(vector) > 1 for vector in vectors(m, ["a " * 253, "b " * 254, "This is a test", "d"]))


@assertion
def inputs_may_be_texts_tokens_and_objects(m, _):
    part = {"content": [{"type": "text", "text": "string"}]}
    for single in ("", "string", [12, 34, 56], [12, 34, "string", 56], {"prompt_string": "string"}, part):
        assert len(vectors(m, single)) == 1, single
    for several in (["a", "b"], ["a", [12, 34]], [[12, 34], [12, 34]], [[12, 34], [12, "string", 34]], ["a", {"prompt_string": "b"}, part]):
        assert len(vectors(m, several)) == len(several), several


@assertion
def parts_are_joined(m, _):
    first, second = vectors(m, ["hello world", {"content": [{"type": "text", "text": "hello "}, {"type": "text", "text": "world"}]}])
    assert first == second


@assertion
def invalid_inputs_are_refused(m, _):
    for value in ([], {"content": "string"}, {"content": [{"type": "input_audio", "input_audio": {}}]},
                  {"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}):
        m.refused("/v1/embeddings", input=value)


@assertion
def a_long_input_is_refused(m, _):
    error = m.refused("/v1/embeddings", input="This is a test " * 20000)
    assert "context" in error["message"] or "tokens" in error["message"], error


@assertion
def equal_inputs_have_equal_embeddings(m, _):
    first, *others = vectors(m, ["I believe"] * 5)
    assert all(abs(x - y) < 1e-3 for other in others for x, y in zip(first, other))


@assertion
def usage_of_embeddings(m, _):
    one = embed(m, "I believe")["usage"]
    two = embed(m, ["I believe", "I believe"])["usage"]
    assert one["prompt_tokens"] == one["total_tokens"] > 0 and two["prompt_tokens"] == 2 * one["prompt_tokens"]


@assertion
def embeddings_in_base64(m, _):
    coded = embed(m, "Test", encoding_format="base64")["data"][0]["embedding"]
    packed = base64.b64decode(coded)
    (vector,) = vectors(m, "Test")
    assert all(abs(x - y) < 1e-3 for x, y in zip(struct.unpack(f"{len(packed) // 4}f", packed), vector))


def rerank(m, **more):
    return m.post("/rerank", query=DOCUMENTS[2][4:], **more)


@assertion
def documents_are_ranked(m, _):
    results = rerank(m, documents=DOCUMENTS)["results"]
    scores = [result["relevance_score"] for result in results]
    assert len(results) == 4 and scores == sorted(scores, reverse=True) and scores[0] > scores[-1] and results[0]["index"] == 2


@assertion
def texts_are_ranked(m, _):
    results = rerank(m, texts=DOCUMENTS)
    scores = [result["score"] for result in results]
    assert len(results) == 4 and scores == sorted(scores, reverse=True) and results[0]["index"] == 2


@assertion
def invalid_documents_are_refused(m, _):
    for documents in ([], None, 123, [1, 2, 3]):
        m.refused("/rerank", query="castle", documents=documents)


@assertion
def usage_of_a_rerank(m, _):
    usage = rerank(m, documents=DOCUMENTS[:2])["usage"]
    assert usage["prompt_tokens"] == usage["total_tokens"] > 5, usage


@assertion
def the_first_documents(m, _):
    for top_n, count in ((2, 2), (4, 4), (99, 4)):
        assert len(rerank(m, documents=DOCUMENTS, top_n=top_n)["results"]) == count


@assertion
def the_first_texts(m, _):
    for top_n, count in ((2, 2), (4, 4), (99, 4)):
        assert len(rerank(m, texts=DOCUMENTS, top_n=top_n)) == count


@assertion
def invalid_files_of_an_infill_are_refused(m, _):
    for extra in ({"filename": 123}, {"filename": 123, "text": "abc"}, {"filename": 123, "text": 456}):
        m.refused("/infill", input_extra=[extra], input_prefix="a", prompt="b", input_suffix="c")


@assertion
def health_needs_no_key(_, keyed):
    assert Peer(keyed.base).get("/health").status == 200


@assertion
def the_list_of_models_needs_no_key(_, keyed):
    assert Peer(keyed.base).get("/models").status == 200


@assertion
def the_page_needs_no_key(_, keyed):
    assert Peer(keyed.base).get("/").status == 200


@assertion
def a_missing_key_is_refused(_, keyed):
    assert Peer(keyed.base).refused("/completion", 401, prompt=PROMPT)["code"] == "invalid_api_key"


@assertion
def a_wrong_key_is_an_error_of_authentication(_, keyed):
    error = Peer(keyed.base, "invalid").refused("/completion", 401, prompt=PROMPT)
    assert error["type"] == "authentication_error", error


@assertion
def a_key_is_accepted(_, keyed):
    assert complete(keyed)["content"]
    assert len(chat(keyed)["choices"]) == 1


@assertion
def a_key_in_anthropics_header_is_accepted(_, keyed):
    answer = Peer(keyed.base).send("POST", "/completion", {"prompt": PROMPT, "n_predict": 2}, {"X-Api-Key": KEY})
    assert answer.status == 200 and answer.body["content"]


@assertion
def a_preflight_is_answered(_, keyed):
    answer = Peer(keyed.base).send("OPTIONS", "/completion", None, {
        "Origin": "https://web.example.com", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "Authorization"})
    assert answer.status in (200, 204) and answer.headers["Access-Control-Allow-Origin"] == "https://web.example.com"
    assert "POST" in answer.headers["Access-Control-Allow-Methods"] and "uthorization" in answer.headers["Access-Control-Allow-Headers"]
