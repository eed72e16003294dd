// The adaptations as functions on a conversation. Each changes what it finds, and records it.
#pragma once

#include "core/chat/turns.h"

namespace quire::chat {

// --- Calls (adapt_calls.cpp)

void arguments_as_object(History& history);
void arguments_as_text(History& history);
// Gives calls whose arguments are null, missing or an empty text an empty object.
void empty_arguments_as_object(History& history);
// Removes lists of calls that are empty: many templates only test whether there is a list.
void empty_calls_left_out(History& history);
void fill_call_types(History& history);
// Turns `function_call` into a list of one call, and the role function into tool.
void function_as_tool(History& history);
// Appends calls to the content as lines of JSON with `name` and `arguments`, and removes them.
void calls_as_text(History& history);

// --- Ids and order of calls and results (adapt_results.cpp)

// Gives calls without an id one of nine letters and digits, and results the id of the call that they answer.
void fill_call_ids(History& history);
// Replaces ids that are not nine letters and digits by nine digits of their SHA-256.
void short_call_ids(History& history);
// Gives results the name of the function that was called.
void fill_result_names(History& history);
void split_text_and_calls(History& history);
void split_parallel_calls(History& history);
// Turns results into messages of the user.
void tool_as_user(History& history);

// --- Roles (adapt_roles.cpp)

void developer_as_system(History& history);
// Puts system messages before the content of the user message that follows, or makes them user messages if
// none follows.
void system_as_user(History& history);
// Does so with system messages that are not at the beginning.
void late_system_as_user(History& history);
// Merges consecutive messages of a role.
void merge_role(History& history, std::string_view role, Adaptation adaptation);

// --- Contents (adapt_contents.cpp)

void reasoning_as_reasoning_content(History& history);
void typed_part_as_text(History& history);
void null_as_empty(History& history);
void null_result_as_empty(History& history);
void call_null_as_empty(History& history);
// Adds a content of null beside calls that have none; TemplateContext::keeps_null_call_content keeps it.
void call_null_kept(History& history);
// Gives calls a content of null if it is missing or blank.
void call_empty_as_null(History& history);
void text_as_parts(History& history, std::string_view role, Adaptation adaptation);
// Joins the texts of a list of text parts with line breaks. A list with other parts stays.
void parts_as_text(History& history, std::string_view role, Adaptation adaptation);

}  // namespace quire::chat
