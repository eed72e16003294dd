// Lets the model answer with JSON of a schema. The argument is the directory of a model.
#include "model.hpp"

constexpr const char* kSchema = R"({"type": "object", "required": ["name", "year"], "properties": {
    "name": {"type": "string", "maxLength": 30}, "year": {"type": "integer", "minimum": 1000, "maximum": 2100}}})";

int main(int argc, char** argv) {
  return run(argc, argv, [](const Opened& all) {
    const quire::Request request =
        request_of(all, R"({"role": "user", "content": "Who was the king, and when?"})", 200);
    const quire::Constraint constraint(
        quire::call(quire_constraint_create, all.model, QUIRE_CONSTRAINT_JSON_SCHEMA, kSchema));
    quire::call(quire_job_request_set_constraint, request, constraint);
    const quire::Job job(quire::call(quire_job_submit, all.cache, request));
    while (const quire::Event event = quire::next(job)) {
      quire::throw_if_failed(event);
      std::cout << quire::text_of(quire_event_text, event);
    }
    std::cout << "\n";
  });
}
