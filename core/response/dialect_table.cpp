// Long file: one table of data, a row for each dialect.
//
// Sources: the chat templates of the families (../shared/golden/templates), and outputs of their models
// (../shared/golden/tool_calls). Fields that a row omits have their declared defaults.
#include "core/response/dialect_table.h"

#include <string>

#include "core/base/error.h"

namespace quire {
namespace {

using Calls = CallsInReasoning;

constexpr ReasoningSyntax kThink = {.opens = {"<think>"}, .closes = {"</think>"}};
constexpr ReasoningSyntax kThinkUntilCall = {
    .opens = {"<think>"}, .closes = {"</think>"}, .calls = Calls::end_it};

constexpr CallForm object_form(Marks opens, Marks closes) {
  return {.opens = opens, .closes = closes};
}

constexpr CallForm list_form(Marks opens, Marks closes) {
  return {.opens = opens, .closes = closes, .list = true};
}

constexpr Dialect kHermes = {
    .name = "hermes",
    .tells = {{"<tool_call>"}},
    .reasoning = kThink,
    .forms = {{.opens = {"<tool_call>"}, .closes = {"</tool_call>"}, .one_per_section = true}}};

constexpr CallForm function_tags(std::string_view open, std::string_view close) {
  return {.body = CallBody::tagged,
          .opens = {open},
          .closes = {close},
          .one_per_section = true,
          .arguments = ArgumentSyntax::parameters,
          .tagged = {.begin = "<function=",
                     .body_begins = {">"},
                     .parameter = {.begin = "<parameter=",
                                   .key_end = ">",
                                   .value_end = "</parameter>",
                                   .lines = true,
                                   .python = true},
                     .ends = {"</function>"}}};
}

constexpr Dialect kQwen3Coder = {.name = "qwen3_coder",
                                 .tells = {{"<function=", "<parameter=", "<tool_call>"}},
                                 .reasoning = kThinkUntilCall,
                                 .forms = {function_tags("<tool_call>", "</tool_call>")}};

constexpr Dialect kSeedOss = {
    .name = "seed_oss",
    .tells = {{"seed:tool_call"}, {"<seed:think>"}},
    .reasoning = {.opens = {"<seed:think>"}, .closes = {"</seed:think>"}, .calls = Calls::end_it},
    .forms = {function_tags("<seed:tool_call>", "</seed:tool_call>")},
    .noise = {"<seed:eos>"}};

constexpr Dialect kGlm = {.name = "glm",
                          .tells = {{"<arg_key>", "<arg_value>"}},
                          .reasoning = kThinkUntilCall,
                          .forms = {{.body = CallBody::tagged,
                                     .opens = {"<tool_call>"},
                                     .one_per_section = true,
                                     .arguments = ArgumentSyntax::parameters,
                                     .tagged = {.parameter = {.begin = "<arg_key>",
                                                              .key_end = "</arg_key>",
                                                              .value_begin = "<arg_value>",
                                                              .value_end = "</arg_value>"},
                                                .ends = {"</tool_call>"}}}},
                          .noise = {"<|role_end|>", "<|observation|>", "<|user|>", "</assistant>"}};

constexpr Dialect deepseek(std::string_view name, std::string_view begin, Marks body_begins, Marks tells) {
  return {
      .name = name,
      .tells = {tells},
      .reasoning = kThink,
      .forms = {{.body = CallBody::tagged,
                 .opens = {"<｜tool▁calls▁begin｜>", "<｜tool_calls_begin｜>"},
                 .closes = {"<｜tool▁calls▁end｜>", "<｜tool_calls_end｜>"},
                 .separators = {"```"},
                 .tagged = {.begin = begin, .body_begins = body_begins, .ends = {"<｜tool▁call▁end｜>"}}}},
      .noise = {"<｜end▁of▁sentence｜>"}};
}

constexpr Dialect kDeepSeekV3 = deepseek("deepseek_v3", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                                         {"\n```json\n", "```json"}, {"<｜tool▁calls▁begin｜>", "```json"});
constexpr Dialect kDeepSeekV31 = deepseek("deepseek_v31", "<｜tool▁call▁begin｜>", {"<｜tool▁sep｜>"},
                                          {"<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"});

constexpr CallForm dsml(Marks opens, Marks closes) {
  return {.body = CallBody::tagged,
          .opens = opens,
          .closes = closes,
          .arguments = ArgumentSyntax::parameters,
          .tagged = {.begin = "<｜DSML｜invoke name=\"",
                     .body_begins = {"\">"},
                     .parameter = {.begin = "<｜DSML｜parameter name=\"",
                                   .key_end = "\" string=\"",
                                   .value_begin = "\">",
                                   .value_end = "</｜DSML｜parameter>",
                                   .string_hint = "true"},
                     .ends = {"</｜DSML｜invoke>"}}};
}

constexpr Dialect kDeepSeekV32 = {.name = "deepseek_v32",
                                  .tells = {{"DSML", "function_calls"}},
                                  .reasoning = kThink,
                                  .forms = {dsml({"<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"},
                                                 {"</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"})},
                                  .noise = {"<｜end▁of▁sentence｜>"}};
constexpr Dialect kDeepSeekV4 = {.name = "deepseek_v4",
                                 .tells = {{"DSML", "tool_calls"}},
                                 .reasoning = kThink,
                                 .forms = {dsml({"<｜DSML｜tool_calls>", "<｜DSML｜function_calls>"},
                                                {"</｜DSML｜tool_calls>", "</｜DSML｜function_calls>"})},
                                 .noise = {"<｜end▁of▁sentence｜>"}};

constexpr Dialect kKimiK2 = {
    .name = "kimi_k2",
    .tells = {{"<|tool_calls_section_begin|>"}},
    .reasoning = kThinkUntilCall,
    .forms = {{.body = CallBody::tagged,
               .opens = {"<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"},
               .closes = {"<|tool_calls_section_end|>", "<|tool_call_section_end|>"},
               .tagged = {.begin = "<|tool_call_begin|>",
                          .name_prefix = "functions.",
                          .index_sign = ':',
                          .body_begins = {"<|tool_call_argument_begin|>"},
                          .ends = {"<|tool_call_end|>"}}}},
    .noise = {"<|im_end|>"}};

constexpr Dialect kKimiK3 = {.name = "kimi_k3",
                             .tells = {{"<|open|>", "<|sep|>"}},
                             .reasoning = {.opens = {"<|open|>think<|sep|>"},
                                           .closes = {"<|close|>think<|sep|>", "<|open|>response<|sep|>"},
                                           .calls = Calls::end_it},
                             .forms = {{.body = CallBody::tagged,
                                        .opens = {"<|open|>tools<|sep|>"},
                                        .closes = {"<|close|>tools<|sep|>"},
                                        .arguments = ArgumentSyntax::parameters,
                                        .tagged = {.begin = "<|open|>call tool=\"",
                                                   .id_begin = "\" index=\"",
                                                   .body_begins = {"\"<|sep|>"},
                                                   .parameter = {.begin = "<|open|>argument key=\"",
                                                                 .key_end = "\" type=\"",
                                                                 .value_begin = "\"<|sep|>",
                                                                 .value_end = "<|close|>argument<|sep|>",
                                                                 .string_hint = "string"},
                                                   .ends = {"<|close|>call<|sep|>"}}}},
                             .noise = {"<|open|>response<|sep|>", "<|close|>response<|sep|>",
                                       "<|close|>message<|sep|>", "<|end_of_msg|>"}};

constexpr CallForm kMistralList = list_form({"[TOOL_CALLS]"}, {});

constexpr CallForm mistral_names(std::string_view id_begin, Marks body_begins) {
  return {.body = CallBody::tagged,
          .opens = {"[TOOL_CALLS]"},
          .one_per_section = true,
          .object = {.id = "id"},
          .tagged = {.id_begin = id_begin, .body_begins = body_begins}};
}

constexpr ReasoningSyntax kMistralThink = {.opens = {"[THINK]"}, .closes = {"[/THINK]"}};

constexpr Dialect kMistralIds = {.name = "mistral_v13",
                                 .tells = {{"[TOOL_CALLS]", "[CALL_ID]"}},
                                 .reasoning = kMistralThink,
                                 .forms = {mistral_names("[CALL_ID]", {"[ARGS]"}), kMistralList},
                                 .noise = {"</s>"}};
constexpr Dialect kMistralNames = {.name = "mistral_v11",
                                   .tells = {{"[TOOL_CALLS]", "[ARGS]"}},
                                   .reasoning = kMistralThink,
                                   .forms = {mistral_names("[CALL_ID]", {"[ARGS]"}), kMistralList},
                                   .noise = {"</s>"}};
constexpr Dialect kMistral = {.name = "mistral",
                              .tells = {{"[TOOL_CALLS]"}},
                              .reasoning = kMistralThink,
                              .forms = {kMistralList, mistral_names("[CALL_ID]", {"[ARGS]"})},
                              .noise = {"</s>"}};

constexpr Dialect kLlama3 = {
    .name = "llama3_json",
    .tells = {{"\"parameters\": ", "<|start_header_id|>"}, {"\"parameters\": ", "<|header_start|>"}},
    .forms = {{.opens = {"{"}, .bare = true, .one_per_section = true, .object = {.arguments = "parameters"}}},
    .noise = {"<|python_tag|>", "<|eom_id|>", "<|eot_id|>", "<|eot|>", "<|python_start|>", "<|python_end|>"}};

constexpr CallForm python_form(Marks opens, Marks closes) {
  return {.body = CallBody::python,
          .opens = opens,
          .closes = closes,
          .list = true,
          .arguments = ArgumentSyntax::python};
}

constexpr Dialect kPythonic = {.name = "pythonic",
                               .tells = {{"[func_name1("}},
                               .forms = {{.body = CallBody::python,
                                          .opens = {"["},
                                          .closes = {"]"},
                                          .bare = true,
                                          .list = true,
                                          .arguments = ArgumentSyntax::python}},
                               .noise = {"<|python_start|>", "<|python_end|>", "<|eot|>", "<|eom|>"}};

constexpr Dialect kMiniCpm3 = {
    .name = "minicpm3",
    .tells = {{"<|tool_call_start|>", "```python"}},
    .reasoning = {.opens = {"<|thought_start|>"}, .closes = {"<|thought_end|>"}},
    .forms = {{.body = CallBody::python,
               .opens = {"<|tool_call_start|>\n```python\n", "<|tool_call_start|>"},
               .closes = {"\n```\n<|tool_call_end|>", "<|tool_call_end|>"},
               .separators = {"```python", "```", "\n"},
               .arguments = ArgumentSyntax::python}}};

constexpr Dialect kLfm2 = {.name = "lfm2",
                           .tells = {{"<|tool_call_start|>"}},
                           .reasoning = kThink,
                           .forms = {python_form({"<|tool_call_start|>"}, {"<|tool_call_end|>"})}};

constexpr Dialect kOlmo3 = {.name = "olmo3",
                            .tells = {{"<function_calls>"}},
                            .reasoning = kThink,
                            .forms = {{.body = CallBody::python,
                                       .opens = {"<function_calls>"},
                                       .closes = {"</function_calls>"},
                                       .separators = {"\n"},
                                       .arguments = ArgumentSyntax::python}}};

constexpr Dialect kGemma4 = {
    .name = "gemma4",
    .tells = {{"<|tool_call>"}},
    .reasoning = {.opens = {"<|channel>thought\n", "<|channel>"}, .closes = {"<channel|>"}},
    .forms = {{.body = CallBody::tagged,
               .one_per_section = true,
               .arguments = ArgumentSyntax::loose,
               .tagged = {.begin = "<|tool_call>call:",
                          .body_begins = {"{"},
                          .parameter = {.begin = "<|\"|>"},
                          .ends = {"<tool_call|>"}}}},
    .noise = {"<|tool_response>", "<turn|>"}};

constexpr Dialect kGranite = {.name = "granite",
                              .tells = {{"<|tool_call|>", "<|start_of_role|>"}},
                              .reasoning = {.opens = {"<think>", "Here is my thought process:"},
                                            .closes = {"</think>", "Here is my response:"}},
                              .forms = {list_form({"<|tool_call|>", "<tool_call>"}, {"</tool_call>"})},
                              .noise = {"<|end_of_text|>"}};
constexpr Dialect kGranite20b = {.name = "granite_20b_fc",
                                 .tells = {{"<function_call>"}},
                                 .forms = {object_form({"<function_call>"}, {})}};

constexpr Dialect kInternLm = {
    .name = "internlm2",
    .tells = {{"<|action_start|>", "<|plugin|>"}},
    .reasoning = kThink,
    .forms = {{.opens = {"<|action_start|><|plugin|>\n", "<|action_start|><|plugin|>",
                         "<|action_start|> <|plugin|>"},
               .closes = {"<|action_end|>"},
               .one_per_section = true}},
    .noise = {"<|im_end|>"}};

constexpr CallForm kToolCalls = list_form({"<tool_calls>"}, {"</tool_calls>"});

constexpr Dialect kApriel = {.name = "apriel",
                             .tells = {{"[BEGIN FINAL RESPONSE]"}, {"<tool_calls>", "<|assistant|>"}},
                             .reasoning = {.opens = {"Here are my reasoning steps:\n"},
                                           .closes = {"[BEGIN FINAL RESPONSE]"},
                                           .calls = Calls::end_it},
                             .forms = {kToolCalls},
                             .noise = {"[END FINAL RESPONSE]", "<|end|>"}};
constexpr Dialect kHunyuan = {.name = "hunyuan",
                              .tells = {{"<tool_calls>", "<answer>"}},
                              .reasoning = kThink,
                              .forms = {kToolCalls},
                              .noise = {"<answer>", "</answer>", "<|eos|>"}};
constexpr Dialect kMiniMaxM1 = {
    .name = "minimax_m1",
    .tells = {{"<tool_calls>", "<beginning_of_sentence>"}},
    .reasoning = kThink,
    .forms = {object_form({"<tool_calls>\n", "<tool_calls>"}, {"\n</tool_calls>", "</tool_calls>"})},
    .noise = {"<end_of_sentence>"}};
constexpr Dialect kJamba = {
    .name = "jamba", .tells = {{"<tool_calls>"}}, .reasoning = kThink, .forms = {kToolCalls}};

constexpr CallForm invoke_tags(std::string_view open, std::string_view close) {
  return {
      .body = CallBody::tagged,
      .opens = {open},
      .closes = {close},
      .arguments = ArgumentSyntax::parameters,
      .tagged = {.begin = "<invoke name=\"",
                 .body_begins = {"\">"},
                 .parameter = {.begin = "<parameter name=\"", .key_end = "\">", .value_end = "</parameter>"},
                 .ends = {"</invoke>"}}};
}

constexpr Dialect kMiniMaxM2 = {.name = "minimax_m2",
                                .tells = {{"minimax:tool_call"}},
                                .reasoning = kThinkUntilCall,
                                .forms = {invoke_tags("<minimax:tool_call>", "</minimax:tool_call>")},
                                .noise = {"[e~["}};

constexpr Dialect kMiniMaxM3 = {
    .name = "minimax_m3",
    .tells = {{"<mm:think>"}, {"]<]minimax[>["}},
    .reasoning = {.opens = {"<mm:think>"}, .closes = {"</mm:think>"}, .calls = Calls::end_it},
    .forms = {{.body = CallBody::tagged,
               .opens = {"]<]minimax[>[<tool_call>"},
               .closes = {"]<]minimax[>[</tool_call>"},
               .arguments = ArgumentSyntax::parameters,
               .tagged = {.begin = "]<]minimax[>[<invoke name=\"",
                          .body_begins = {"\">"},
                          .parameter = {.begin = "]<]minimax[>[<",
                                        .key_end = ">",
                                        .value_end = "]<]minimax[>[</\x01>",
                                        .elements = true},
                          .ends = {"]<]minimax[>[</invoke>"}}}},
    .noise = {"[e~["}};

constexpr ObjectSyntax kCohereObject = {.name = "tool_name", .arguments = "parameters", .id = "tool_call_id"};

constexpr Dialect kCommandR7b = {
    .name = "command_r7b",
    .tells = {{"<|START_ACTION|>"}},
    .reasoning = {.opens = {"<|START_THINKING|>"}, .closes = {"<|END_THINKING|>"}, .calls = Calls::end_it},
    .forms = {{.opens = {"<|START_ACTION|>"},
               .closes = {"<|END_ACTION|>"},
               .list = true,
               .object = kCohereObject}},
    .noise = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"}};
constexpr Dialect kCommandR = {
    .name = "command_r",
    .tells = {{"Action:", "```json", "tool_name"}},
    .forms = {{.opens = {"Action:\n```json\n", "Action:```json\n", "Action: ```json\n"},
               .closes = {"\n```", "```"},
               .list = true,
               .object = {.name = "tool_name", .arguments = "parameters"}}}};

constexpr Dialect kApertus = {.name = "apertus",
                              .tells = {{"<|tools_prefix|>"}},
                              .reasoning = {.opens = {"<|inner_prefix|>"}, .closes = {"<|inner_suffix|>"}},
                              .forms = {{.opens = {"<|tools_prefix|>"},
                                         .closes = {"<|tools_suffix|>"},
                                         .list = true,
                                         .object = {.name_is_key = true}}},
                              .noise = {"<|assistant_end|>"}};

constexpr Dialect kNemotronV2 = {.name = "nemotron_v2",
                                 .tells = {{"<TOOLCALL>"}},
                                 .reasoning = kThink,
                                 .forms = {list_form({"<TOOLCALL>"}, {"</TOOLCALL>"})}};

constexpr Dialect kFunctionary31 = {
    .name = "functionary_v31",
    .tells = {{"<function="}},
    .forms = {{.body = CallBody::tagged,
               .one_per_section = true,
               .tagged = {.begin = "<function=", .body_begins = {">"}, .ends = {"</function>"}}}},
    .noise = {"<|eom_id|>", "<|eot_id|>"}};

constexpr Dialect kFunctionary32 = {
    .name = "functionary_v32",
    .tells = {{">>>all"}, {"'>>>'"}},
    .forms = {{.body = CallBody::tagged}},
    .noise = {"<|eot_id|>"},
    .messages = {.header_begins = {">>>"},
                 .header_end = "\n",
                 .rules = {{"all", HeaderMeaning::text}, {"", HeaderMeaning::call}},
                 .write_text = "all\n",
                 .write_call = "\x01\n",
                 .write_next = ">>>"}};

constexpr Dialect kFunctools = {.name = "functools",
                                .tells = {{"functools["}, {"functools"}},
                                .forms = {list_form({"functools"}, {})},
                                .noise = {"<|tool_call|>", "<|/tool_call|>"}};

constexpr Dialect kGigaChat = {
    .name = "gigachat",
    .tells = {{"<|function_call|>"},
              {"<|message_sep|>", "<|role_sep|>"},
              {"<|message_sep|>", "function call"}},
    .forms = {{.opens = {"<|message_sep|>\n\nfunction call<|role_sep|>\n", "function call<|role_sep|>\n",
                         "<|function_call|>"},
               .one_per_section = true},
              {.opens = {"function call{"}, .bare = true, .one_per_section = true}},
    .noise = {"</s>", "<|message_sep|>"}};

constexpr Dialect kLongCat = {.name = "longcat",
                              .tells = {{"<longcat_tool_call>"}},
                              .reasoning = {.opens = {"<longcat_think>"}, .closes = {"</longcat_think>"}},
                              .forms = {{.opens = {"<longcat_tool_call>"},
                                         .closes = {"</longcat_tool_call>"},
                                         .one_per_section = true}},
                              .noise = {"</longcat_s>"}};

constexpr Dialect kXlam = {
    .name = "xlam",
    .tells = {},
    .reasoning = kThink,
    .forms = {{.opens = {"[", "{", "```json\n[", "```json\n{", "```\n[", "<tool_call>[", "<tool_call>\n[",
                         "[TOOL_CALLS] [", "[TOOL_CALLS][", "<tool_call>{"},
               .closes = {"```", "</tool_call>"},
               .bare = true,
               .list = true}}};

constexpr Dialect kStep3 = {.name = "step3",
                            .tells = {{"<steptml:invoke"}, {"steptml:invoke"}},
                            .reasoning = kThink,
                            .forms = {{.body = CallBody::tagged,
                                       .opens = {"<｜tool_calls_begin｜>", "<｜tool_call_begin｜>"},
                                       .closes = {"<｜tool_calls_end｜>"},
                                       .separators = {"<｜tool_call_begin｜>", "<｜tool_call_end｜>",
                                                      "<｜tool_sep｜>", "function<｜tool_sep｜>"},
                                       .arguments = ArgumentSyntax::parameters,
                                       .tagged = {.begin = "<steptml:invoke name=\"",
                                                  .body_begins = {"\">"},
                                                  .parameter = {.begin = "<steptml:parameter name=\"",
                                                                .key_end = "\">",
                                                                .value_end = "</steptml:parameter>"},
                                                  .ends = {"</steptml:invoke>"}}}}};

constexpr Dialect kSolar = {
    .name = "solar_open",
    .tells = {{"<|tool_call:begin|>"}},
    .reasoning = {.opens = {"<|think|>"}, .closes = {"<|end|>"}, .calls = Calls::end_it},
    .forms = {{.body = CallBody::tagged,
               .opens = {"<|tool_calls|>"},
               .closes = {"<|calls|>"},
               .tagged = {.begin = "<|tool_call:begin|>",
                          .id_end = "<|tool_call:name|>",
                          .body_begins = {"<|tool_call:args|>"},
                          .ends = {"<|tool_call:end|>"}}}},
    .noise = {"<|content|>", "<|begin|>assistant", "<|flush|>"}};

constexpr Dialect kMuse = {.name = "muse",
                           .tells = {{"atem:function_calls"}},
                           .forms = {{.body = CallBody::tagged,
                                      .opens = {"<atem:function_calls>"},
                                      .closes = {"</atem:function_calls>"},
                                      .arguments = ArgumentSyntax::parameters,
                                      .tagged = {.begin = "<atem:invoke name=\"",
                                                 .body_begins = {"\">"},
                                                 .parameter = {.begin = "<atem:parameter name=\"",
                                                               .key_end = "\">",
                                                               .value_end = "</atem:parameter>"},
                                                 .ends = {"</atem:invoke>"}}}},
                           .messages = {.header_begins = {"<|start|>"},
                                        .header_starts = {" to=", "<|message|>", "<|eom|>"},
                                        .header_end = "<|message|>",
                                        .body_ends = {"<|eom|>", "<|eot|>"},
                                        .rules = {{"to=self", HeaderMeaning::reasoning},
                                                  {"to=user", HeaderMeaning::text},
                                                  {"to=", HeaderMeaning::announcement},
                                                  {"", HeaderMeaning::text}},
                                        .write_reasoning = " to=self<|message|>",
                                        .write_text = " to=user<|message|>",
                                        .write_call = " to=\x01<|message|>",
                                        .write_next = "<|eom|><|start|>assistant"}};

constexpr Dialect kHarmony = {
    .name = "gpt_oss",
    .tells = {{"<|channel|>", "<|message|>", "<|start|>"}},
    .forms = {{.body = CallBody::tagged}},
    .messages = {
        .header_begins = {"<|start|>"},
        .header_starts = {"<|channel|>", " to=", "<|start|>", "<|message|>", "<|end|>", "<|constrain|>"},
        .header_end = "<|message|>",
        .body_ends = {"<|end|>", "<|call|>", "<|return|>"},
        .rules = {{"<|channel|>final", HeaderMeaning::text},
                  {"to=functions.", HeaderMeaning::call},
                  {"to=", HeaderMeaning::nothing},
                  {"<|channel|>analysis", HeaderMeaning::reasoning},
                  {"", HeaderMeaning::text}},
        .write_reasoning = "<|channel|>analysis<|message|>",
        .write_text = "<|channel|>final<|message|>",
        .write_call = "<|channel|>commentary to=functions.\x01 <|constrain|>json<|message|>",
        .write_next = "<|end|><|start|>assistant",
        .single_call = true}};

constexpr Dialect kMiniCpm5 = {.name = "minicpm5",
                               .tells = {{"<function name=\"", "<param name=\""}},
                               .reasoning = kThinkUntilCall,
                               .forms = {{.body = CallBody::tagged,
                                          .one_per_section = true,
                                          .arguments = ArgumentSyntax::parameters,
                                          .tagged = {.begin = "<function name=\"",
                                                     .body_begins = {"\">"},
                                                     .parameter = {.begin = "<param name=\"",
                                                                   .key_end = "\">",
                                                                   .value_end = "</param>",
                                                                   .python = true},
                                                     .ends = {"</function>"}}}}};

constexpr Dialect kPlain = {.name = "plain", .reasoning = kThink};

constexpr const Dialect* kTable[] = {
    &kSeedOss,    &kKimiK3,     &kKimiK2,        &kMiniMaxM2,     &kMiniMaxM3,  &kMuse,        &kHarmony,
    &kSolar,      &kStep3,      &kDeepSeekV32,   &kDeepSeekV4,    &kDeepSeekV3, &kDeepSeekV31, &kGlm,
    &kQwen3Coder, &kMiniCpm5,   &kMiniCpm3,      &kLfm2,          &kGemma4,     &kMistralIds,  &kMistralNames,
    &kMistral,    &kCommandR7b, &kCommandR,      &kApertus,       &kNemotronV2, &kInternLm,    &kLongCat,
    &kGigaChat,   &kApriel,     &kHunyuan,       &kMiniMaxM1,     &kJamba,      &kOlmo3,       &kFunctools,
    &kGranite20b, &kGranite,    &kFunctionary32, &kFunctionary31, &kPythonic,   &kHermes,      &kLlama3,
    &kXlam,       &kPlain};

bool has_all(std::string_view text, const Marks& marks) {
  for (const std::string_view mark : marks) {
    if (text.find(mark) == std::string_view::npos) return false;
  }
  return true;
}

}  // namespace

gsl::span<const Dialect* const> all_dialects() {
  return kTable;
}

const Dialect& find_dialect(std::string_view name) {
  std::string names;
  for (const Dialect* dialect : kTable) {
    if (dialect->name == name) return *dialect;
    names += names.empty() ? "" : ", ";
    names += dialect->name;
  }
  throw Error(ErrorCode::not_found, "there is no dialect \"{}\"; available: {}", printable(name), names);
}

const Dialect& detect_dialect(std::string_view template_source) {
  for (const Dialect* dialect : kTable) {
    for (const Marks& tells : dialect->tells) {
      if (has_all(template_source, tells)) return *dialect;
    }
  }
  return kPlain;
}

}  // namespace quire
