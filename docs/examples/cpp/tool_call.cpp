// Lets the model call a tool, whose call matches its schema. The argument is the directory of a model.
#include "model.hpp"

const std::string kTools = R"([{"type": "function", "function": {"name": "temperature", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}}}])";
const std::string kRules = R"({"dialect": "hermes", "reasoning": "off", "tool_choice": "required",
    "parallel_tool_calls": false, "tools": )" +
                           kTools + "}";

int main(int argc, char** argv) {
  return run(argc, argv, [](const Opened& all) {
    const quire::Request request =
        request_of(all, R"({"role": "user", "content": "How warm is it in Rome?"})", 100);
    const quire::Constraint rules(quire::call(quire_response_constraint_create, all.model, kRules));
    quire::call(quire_job_request_set_constraint, request, rules);
    quire::call(quire_job_request_set_tools, request, kTools);
    quire::call(quire_job_request_set_response_dialect, request, "hermes");
    quire::call(quire_job_request_set_reasoning, request, QUIRE_REASONING_OFF);
    const quire::Job job(quire::call(quire_job_submit, all.cache, request));
    std::string name;
    std::string arguments;
    while (const quire::Event event = quire::next(job)) {
      quire::throw_if_failed(event);
      const int32_t kind = quire::call(quire_event_response_kind, event);
      if (kind == QUIRE_RESPONSE_CALL_BEGIN) name = quire::text_of(quire_event_call_name, event);
      if (kind == QUIRE_RESPONSE_ARGUMENTS) arguments += quire::text_of(quire_event_response_text, event);
    }
    // Here the program runs its tool, and adds the call and its result to the messages.
    std::cout << name << " " << arguments << "\n";
  });
}
