"""Facts about the interface that the headers do not contain: names in the languages, and functions bound by manual
code."""
from dataclasses import dataclass, field


@dataclass
class Enum:
    prefix: str  # prefix of the constants
    name: str
    comment: str
    go: str  # prefix of the names in Go, which share one namespace
    go_name: str = ""
    go_unset: tuple = ()  # (item, comment) of a zero value in Go that leaves the setting at its default


ENUMS = [
    Enum("QUIRE_ERROR_", "ErrorCode", "The reason why a call failed, for a program to act on.", "Code", "Code"),
    Enum("QUIRE_LOG_", "LogLevel", "The level of a log line; a level includes those before it.", "Log"),
    Enum("QUIRE_MODEL_SCOPE_", "ModelScope", "The set of parts of a model that are loaded.", "Scope"),
    Enum("QUIRE_MODEL_STATE_", "ModelState", "The place where the weights of a model are. A later version may add states.", "Model"),
    Enum("QUIRE_MODEL_FIGURE_", "ModelFigure", "A counter of the movements of a model's weights.", "Figure"),
    Enum("QUIRE_KV_", "KvFormat", "The storage format of keys and values.", "KV", "KVFormat"),
    Enum("QUIRE_ACTIVATION_", "ActivationDtype", "The format in which the matrix products of layers take their activations.",
         "Activation"),
    Enum("QUIRE_QUOTA_", "Quota", "A quota of one namespace in a cache.", "Quota", "QuotaKind"),
    Enum("QUIRE_JOB_KIND_", "JobKind", "The kind of a job.", "Kind"),
    Enum("QUIRE_POOLING_", "Pooling", "The way to compute an embedding from the hidden states of a prompt.", "Pooling",
         go_unset=("OF_MODEL", "The pooling that the model's modules.json declares, otherwise the mean.")),
    Enum("QUIRE_EVENTS_", "EventPolicy", "The policy for the events of a job that are not taken.", "Events"),
    Enum("QUIRE_JSON_ORDER_", "JsonOrder", "The order of the members of an object in constrained JSON.", "JSONOrder", "JSONOrder"),
    Enum("QUIRE_JSON_SPACE_", "JsonSpace", "The white space in constrained JSON.", "JSONSpace", "JSONSpace"),
    Enum("QUIRE_DRAFTER_", "Drafter", "A drafter of speculative decoding; none changes an answer.", "Drafter"),
    Enum("QUIRE_JOB_STATE_", "JobState", "The state of a job. A later version may add states.", "State"),
    Enum("QUIRE_EVENT_", "EventKind", "The kind of an event. A later version may add kinds: skip unknown ones.",
         "Event"),
    Enum("QUIRE_PAGE_", "PageChange", "The change of a page of a cache.", "Page"),
    Enum("QUIRE_MEDIUM_", "PageMedium", "The medium that holds a page.", "Medium"),
    Enum("QUIRE_FINISH_", "FinishReason", "The reason why a job ended. A later version may add reasons.", "Finish"),
    Enum("QUIRE_HISTOGRAM_", "HistogramKind", "The quantity of a histogram; times are in nanoseconds.", "Histogram"),
    Enum("QUIRE_TOKEN_", "TokenKind", "A special token that a tokenizer may define.", "Token"),
    Enum("QUIRE_DIAGNOSE_", "DiagnoseFormat", "A format of the diagnostic report.", "Diagnose"),
    Enum("QUIRE_CONSTRAINT_", "ConstraintKind", "The kind of a constraint's source.", "Constraint"),
    Enum("QUIRE_RESPONSE_", "ResponseKind", "The kind of a part of an answer.", "Response"),
    Enum("QUIRE_REASONING_", "ReasoningStart", "The place where the reasoning of an answer begins.", "Reasoning",
         go_unset=("OF_PROMPT", "As the prompt has left it: open if it has opened reasoning, otherwise closed.")),
]
NO_ENUM = ("QUIRE_WAIT_", "QUIRE_ABI_", "QUIRE_VERSION_")

# Enum of an int32_t, by parameter name, by function, or by "function.parameter".
ENUM_OF = {"quota": "Quota", "kv_format": "KvFormat", "drafter": "Drafter", "activation_dtype": "ActivationDtype", "level": "LogLevel", "log_level": "LogLevel",
           "scope": "ModelScope", "pooling": "Pooling", "event_policy": "EventPolicy", "json_order": "JsonOrder", "json_space": "JsonSpace",
           "histogram": "HistogramKind",
           "format": "DiagnoseFormat", "quire_model_evict.state": "ModelState", "quire_model_state": "ModelState",
           "figure": "ModelFigure", "state": "JobState", "finish_reason": "FinishReason",
           "error_code": "ErrorCode", "quire_event_type": "EventKind", "quire_event_page_change": "PageChange",
           "quire_event_page_medium": "PageMedium", "quire_event_response_kind": "ResponseKind",
           "quire_job_request_set_reasoning": "ReasoningStart", "quire_job_request_set_kind": "JobKind",
           "quire_chat_template_set_token.kind": "TokenKind", "quire_model_special_token.kind": "TokenKind",
           "quire_constraint_create.kind": "ConstraintKind", "quire_response_parser_kind": "ResponseKind",
           "quire_response_parser_set_reasoning": "ReasoningStart"}
# Yes-or-no int32_t values that the comments do not reveal, and int32_t values that are token ids.
BOOLS = {"adapts", "add_special", "parse_special", "skip_special", "quire_matcher_accept", "quire_response_parser_next"}
TOKENS = {"token", "quire_model_special_token", "quire_model_find_token", "quire_job_stop_token",
          "quire_event_stop_token"}
OPTIONAL = {"quire_model_special_token", "quire_model_find_token"}  # -1 means none
BYTES = {"quire_matcher_forced_text", "quire_response_parser_raw"}  # text that may end inside a character
NULLABLE = {"quire_response_detect.model", "quire_alias_set_cache.cache"}  # objects that may be null
# Objects and settings whose null means the default. In Go settings are structs, which are never nil.
NULL_IS_DEFAULT = {"quire_cache_create.options", "quire_cache_required_bytes.options", "quire_model_options_set_planned_cache.cache",
                   "quire_job_request_set_chat_template.chat", "quire_job_request_set_constraint.constraint", "quire_plan_create.cache"}


@dataclass
class Object:
    """Handle type whose functions become methods."""
    ctype: str
    name: str
    comment: str = ""
    whole: bool = False  # has no manual part
    go_name: str = ""
    by_hand: bool = False  # in Go and C#: creation and fields are manual code
    waits: bool = False  # holds the dispatcher of its runtime
    closing: str = "Frees the object; objects created from it stay usable."


OBJECTS = [
    Object("quire_runtime", "Runtime", "The owner of the devices that models are loaded on. Safe for concurrent use.",
           waits=True, closing="Frees the runtime; models loaded with it stay usable."),
    Object("quire_model", "Model", "A loaded model with its tokenizer; it never changes. Safe for concurrent use.",
           waits=True, closing="Frees the model; caches created for it stay usable."),
    Object("quire_cache", "Cache", "The KV cache of a model with the scheduler that batches its jobs. Safe for concurrent use.",
           waits=True, closing="Frees the cache; its jobs continue."),
    Object("quire_job", "Job", by_hand=True, waits=True, closing="Frees the job, and cancels it if it has not ended. Never waits."),
    Object("quire_queue", "EventQueue", "A stream of the events of many jobs, those whose request names it. A service "
           "waits in one place and distinguishes its jobs by quire_event_user_data or quire_event_job_id. Safe for "
           "concurrent use; each event is delivered to one waiting thread. It keeps no job alive.", go_name="Queue",
           closing="Shuts the queue down and frees it. Never waits."),
    Object("quire_constraint", "Constraint", "A schema, pattern or grammar that text must match, compiled for the vocabulary of a model. "
           "It never changes. Safe for concurrent use.", True),
    Object("quire_matcher", "Matcher", "Follows one text through a constraint: computes the tokens that may come next, accepts "
           "tokens, and can roll back. Two threads must not use one matcher at once.", True),
    Object("quire_chat_template", "ChatTemplate", "Turns a conversation into a prompt, as the files of the model define. A "
           "conversation is one JSON object with `messages` in the format of OpenAI, and any other variable that the template "
           "reads, such as `tools` and `add_generation_prompt`; docs/chat.md describes the supported features. Special tokens "
           "come only from the template's own text: the text of a message stays text, whatever it contains.", True),
    Object("quire_alias", "Alias", "A name that jobs are submitted to, with a cache that can be exchanged while "
           "jobs run: new jobs go to the new cache, running ones finish on the old one. Close the old cache after the "
           "exchange, but do not shut it down. Safe for concurrent use.", waits=True,
           closing="Frees the alias; its jobs continue."),
    Object("quire_response_parser", "ResponseParser", "Parses one answer of a model, fed in pieces of any size, into its "
           "parts: text, reasoning and tool calls, in the dialect of the model's family. Two threads must "
           "not use one parser at once.", True),
]
# Functions that create an object of a class above: (class with the method or "", name in Go, name in Java and C#).
CREATORS = {
    "quire_cache_create": ("Model", "NewCache", "CreateCache"),
    "quire_queue_create": ("Runtime", "NewQueue", "CreateQueue"),
    "quire_constraint_create": ("Model", "NewConstraint", "CreateConstraint"),
    "quire_response_constraint_create": ("Model", "NewResponseConstraint", "CreateResponseConstraint"),
    "quire_response_parser_create": ("", "NewResponseParser", "Create"),
    "quire_matcher_create": ("Constraint", "NewMatcher", "CreateMatcher"),
    "quire_chat_template_create": ("", "NewChatTemplate", "Create"),
    "quire_chat_template_open": ("", "OpenChatTemplate", "Open"),
}
# Functions without an object: (class in Java and C#, name in Go, name in Java and C#).
STATICS = {
    "quire_diagnose": ("Runtime", "Diagnose", "Diagnose"),
    "quire_response_dialects": ("ResponseParser", "ResponseDialects", "Dialects"),
}
# Functions bound by manual code: waits, unusual signatures, and creators of objects with a manual part.
BY_HAND = """quire_cache_create_queue
quire_job_submit_many quire_job_poll quire_job_drain quire_job_wait quire_queue_drain quire_queue_ready
quire_model_load quire_queue_poll quire_queue_fd quire_plan_create
quire_runtime_create quire_cache_stats quire_stats_namespace quire_stats_num_namespaces quire_stats_namespace_name
quire_runtime_options_set_log_level quire_runtime_options_set_log_sink quire_model_options_set_progress
quire_model_options_set_path quire_job_request_set_queue quire_event_error_code quire_event_error_message
quire_event_error_parameter""".split()
# Names that do not follow from the name of the function.
NAMES = {
    "quire_model_load": "load_model",
    "quire_plan_create": "plan",
    "quire_queue_close": "shutdown",
    "quire_cache_close": "shutdown",
    "quire_job_request_add_stop_text": "stop_text",
    "quire_job_request_add_banned_text": "banned_text",
    "quire_job_request_add_logit_bias": "logit_bias",
    "quire_cache_required_bytes": "cache_bytes",
    "quire_response_detect": "dialect",
    "quire_job_submit_many": "submit_many",
}
DEFAULTS = {"add_special": "true", "format": "DiagnoseFormat.Text", "parse_special": "false", "skip_special": "true"}  # default arguments in C#


@dataclass
class Submit:
    """Method that creates a job from a request."""
    owner: str
    name: str
    comment: str
    makes_queue: bool = False  # creates the dispatcher's queue if there is none yet


SUBMITS = {
    "quire_job_submit": Submit("Cache", "submit", "Submits a request; everything that can be checked in advance is checked here.",
                               True),
    "quire_alias_submit": Submit("Alias", "submit", "Submits a request to the cache of the alias, or to the first of its "
                                 "fallbacks that accepts it."),
    "quire_job_fork": Submit("Job", "fork", "Creates a second job that continues from the tokens of this one. The request may set only "
                             "the seed, user data, queue and length."),
}


@dataclass
class Group:
    """Settings that belong to one of several names, in Go and C#: a class, and the field with all of its objects."""
    name: str
    comment: str
    field: str
    field_comment: str
    members: tuple  # (function, field, comment)


@dataclass
class Choice:
    """Class in Go and C# of which one field is set."""
    name: str
    comment: str
    members: tuple  # (function, field, comment); in Go the first field that is set applies, the last one by default


@dataclass
class Settings:
    ctype: str
    name: str
    comment: str
    by_hand: bool = False  # in Java: has a manual part
    required: str = ""  # setter of a required text
    # Fields in Go and C# that manual code applies: (name, type in Go, type in C#, comment).
    fields: tuple = ()
    has_rest: bool = False  # in Go and C#: manual code runs when the object is filled
    groups: tuple = ()
    choices: tuple = ()


PROMPT = "The prompt in parts, in order. A request with parts has neither Prompt nor Tokens."
SETTINGS = [
    Settings("quire_runtime_options", "RuntimeOptions", "Holds the settings of a runtime."),
    Settings("quire_model_options", "ModelOptions", "Holds the settings of a model.", True, "quire_model_options_set_path", (
        ("Progress", "func(doneBytes, totalBytes int64)", "Action<long, long>",
         "Receives the progress of a load in bytes of the files, on the thread that loads. In the last call both numbers are "
         "equal. Inside it, calls that wait, load, create or close fail with QUIRE_ERROR_REENTRANT. If it throws or panics, "
         "it is not called again, and the load throws or panics likewise once it has ended."),)),
    Settings("quire_cache_options", "CacheOptions", "Holds the settings of a cache.", groups=(
        Group("NamespaceOptions", "Holds the settings of one namespace.", "Namespaces",
              "Namespaces with quotas or a weight of their own, by name.", (
                  ("quire_cache_options_set_namespace_quota", "Quotas",
                   "Quotas that replace those of all namespaces; 0 means no limit."),
                  ("quire_cache_options_set_namespace_weight", "Weight",
                   "Share while several namespaces have waiting jobs: twice the weight gets twice the tokens. Default: 1.")),),)),
    Settings("quire_job_request", "Request", "Describes a job.", True, fields=(
        ("Prompt", "string", "string", "The text that the job continues."),
        ("Tokens", "[]int32", "int[]", "The prompt as token ids. A request with tokens has no Prompt."),
        ("Parts", "[]PromptPart", "IList<PromptPart>", PROMPT),
        ("Queue", "*Queue", "EventQueue", "Receives the events of the job; without a queue they are taken from the job.")), has_rest=True,
        choices=(Choice("PromptPart", "A part of a prompt.", (
            ("quire_job_request_add_messages", "Messages",
             "A message, or a list of them, as JSON in the format of OpenAI. The chat template converts them to tokens."),
            ("quire_job_request_add_prompt_special", "Special",
             'One special token, as spelled in the tokenizer\'s file, such as "<|im_end|>".'),
            ("quire_job_request_add_prompt_tokens", "Tokens", "Token ids, taken as they are."),
            ("quire_job_request_add_prompt_text", "Text", "Text that submit tokenizes separately from other parts."))),)),
]
# Setters that are methods in Java, and that manual code calls in Go and C#.
FILLED_BY_HAND = {"quire_job_request_clear_prompt", "quire_job_request_add_prompt_text",
                  "quire_job_request_add_prompt_tokens", "quire_job_request_add_prompt_special",
                  "quire_job_request_add_messages",
                  "quire_cache_options_set_namespace_quota", "quire_cache_options_set_namespace_weight",
                  "quire_job_request_set_prompt_text", "quire_job_request_set_prompt_tokens",
                  "quire_job_request_set_logit_biases",
                  "quire_job_request_clear_logit_biases", "quire_job_request_clear_stop_texts",
                  "quire_job_request_clear_banned_texts"}
# Fields in Go and C# that hold several values: (name, type in Go, type in C#).
COLLECTED = {
    "quire_cache_options_set_quota": ("Quotas", "map[QuotaKind]int", "IDictionary<Quota, int>"),
    "quire_runtime_options_set_memory_budget": ("MemoryBudgets", "map[string]int64", "IDictionary<string, long>"),
    "quire_job_request_add_logit_bias": ("LogitBias", "map[int32]float64", "IDictionary<int, double>"),
    "quire_job_request_add_stop_text": ("StopTexts", "[]string", "IList<string>"),
    "quire_job_request_add_banned_text": ("BannedTexts", "[]string", "IList<string>"),
}
# Setters that take all keys of such a map at once if all values are equal.
TOGETHER = {"quire_job_request_add_logit_bias": "quire_job_request_set_logit_biases"}
# Go has no null. A bool that is true by default becomes its negation. A number whose default is not 0 becomes a
# pointer, or takes a negative number for 0.
GO_NOT = {"quire_job_request_set_add_special": "NoSpecial", "quire_job_request_set_json_closed": "JSONOpen",
          "quire_job_request_set_json_plain_integers": "JSONAnyIntegers", "quire_job_request_set_normalize": "Unnormalized",
          "quire_job_request_set_reuse_prefix": "NoReuse", "quire_job_request_set_publish_pages": "NoPublish"}
GO_POINTER = {"quire_job_request_set_seed", "quire_job_request_set_max_drafts", "quire_job_request_set_temperature", "quire_job_request_set_guidance_scale", "quire_cache_options_set_step_stretch"}
GO_NEGATIVE = {"quire_cache_options_set_max_overtakes", "quire_cache_options_set_ageing_ns",
               "quire_cache_options_set_close_timeout_ns", "quire_job_request_set_reasoning_budget"}


@dataclass
class Part:
    """Field that holds figures of another class, or a list of them."""
    name: str
    of: str
    count: str = ""  # getter that returns their number
    when: tuple = ()
    go_pointer: bool = False


@dataclass
class Figures:
    """Class whose fields are copied from getters."""
    name: str
    ctype: str
    comment: str
    getters: str = ""  # names of the getters without prefix
    prefix: str = ""  # prefix of the getters after that of the type
    index: str = ""  # name of the index parameter
    base: str = ""
    parts: tuple = ()
    when: dict = field(default_factory=dict)  # for events: {getters: kinds that have them, or READ}
    fixed: dict = field(default_factory=dict)  # {name: (getter, argument)}


LAST = ("FINISHED", "ERROR")
TEXT = ("TEXT",) + LAST
READ = ("RESPONSE",)  # any event with a part of an answer
USAGE = "prompt_tokens cached_tokens new_tokens draft_tokens accepted_draft_tokens accepted_by_position preemptions time_queued_ns " \
    "time_prompt_ns time_generate_ns"
MEMORY = "total_bytes embedding_bytes layer_bytes head_bytes drafter_bytes kv_bytes workspace_bytes staging_bytes"
FIGURES = [
    Figures("JobInfo", "quire_job", "The state of a job, its usage so far, and how it ended.",
            "state finish_reason stop_token stop_text error_code seed " + USAGE),
    Figures("ModelInfo", "quire_model", "The description of a model.", "architecture vocab_size num_layers hidden_size num_heads "
            "num_kv_heads max_context bits_per_weight weight_bytes drafter drafter_bytes num_shards"),
    Figures("Tensor", "quire_model", "A tensor as stored in the files of a model; a quantized matrix is one tensor.",
            "name format shape bytes layer", "tensor_", "tensor_idx"),
    Figures("Device", "quire_runtime", "The description of one device.",
            "name description refusal memory_bytes free_bytes", "device_", "device_idx"),
    Figures("MemoryPlan", "quire_plan", "The memory that something takes, in bytes by kind.", MEMORY),
    Figures("DevicePlan", "quire_plan", "The part of a plan for one device.", "name num_layers num_host_experts usable_bytes step_bytes", "device_",
            "device_idx", "MemoryPlan"),
    Figures("LayerPlan", "quire_plan", "The part of a plan for one layer.", "layer_device layer_experts_device bytes_of_layer", "", "layer_idx"),
    Figures("CacheGroupPlan", "quire_plan", "The page group of the layers with the same attention window.",
            "window num_pages num_layers bytes", "cache_group_", "group_idx"),
    Figures("Plan", "quire_plan", "The memory that a model and its cache will take, in total and on each device.",
            "model_path kv_format drafter", base="MemoryPlan", parts=(Part("devices", "DevicePlan", "num_devices"),
                                      Part("layers", "LayerPlan", "num_layers"),
                                      Part("cache_groups", "CacheGroupPlan", "num_cache_groups"))),
    Figures("Histogram", "quire_stats", "The distribution of a quantity. A quantile is at most twice too high.",
            "count sum", "histogram_", "histogram",
            fixed={"p50": ("quantile", "0.5"), "p90": ("quantile", "0.9"), "p99": ("quantile", "0.99")}),
    Figures("ShardStats", "quire_stats", "Holds the statistics of one shard.", "device_bytes", "shard_", "shard_idx"),
    Figures("Stats", "quire_stats", "Holds the statistics of a cache at one moment, consistent with each other.",
            "page_tokens pages_total pages_free pages_cached pages_referenced pages_pinned pages_evicted "
            "pages_deduplicated prefix_host_pages prefix_host_bytes prefix_file_pages prefix_file_bytes "
            "prefix_pages_restored prefix_files_refused jobs_queued jobs_running jobs_submitted jobs_finished jobs_failed jobs_cancelled "
            "preemptions steps card_expert_hits card_expert_misses prompt_tokens cached_tokens new_tokens draft_tokens accepted_draft_tokens accepted_by_position device_bytes",
            parts=(Part("histograms", "Histogram", "HistogramKind"), Part("namespaces", "Stats", "num_namespaces"),
                   Part("shards", "ShardStats", "num_shards"))),
    Figures("Usage", "quire_event", "The usage of a job, and what ended it.", "stop_token stop_text " + USAGE),
    Figures("Event", "quire_event", "A piece of the result of a job, a log line, or a change of a page.",
            "type job_id index user_data progress_done progress_total text tokens first_token log_probs top_tokens "
            "top_log_probs response_kind response_text call_index call_name call_id kept_tokens kept_bytes log_level "
            "lost_lines page_change page_medium page_number page_hash page_parent page_namespace finish_reason",
            parts=(Part("usage", "Usage", when=LAST, go_pointer=True), Part("error", "failure", when=("ERROR",))),
            when={"progress_done progress_total": ("PROGRESS",), "text": TEXT + ("LOG",), "tokens": TEXT + ("PAGE",),
                  "page_change page_medium page_number page_hash page_parent page_namespace": ("PAGE",),
                  "first_token log_probs top_tokens top_log_probs": TEXT,
                  "response_kind": ("TEXT",), "response_text call_index call_name call_id": READ, "finish_reason": LAST,
                  "kept_tokens kept_bytes": ("REWIND",), "log_level lost_lines": ("LOG",)}),
    Figures("ResponseEvent", "quire_response_parser", "A part of an answer.", "kind call_index text raw name id"),
]
# Names of figures in (Go and C#, Java) that differ from the getter without its prefix.
FIGURE_NAMES = {"quire_job_finish_reason": ("finish", "finish_reason"),
                "quire_event_finish_reason": ("finish", "finish_reason"),
                "quire_event_type": ("kind", "kind"), "quire_plan_layer_device": ("device", "device"),
                "quire_plan_layer_experts_device": ("experts_device", "experts_device"),
                "quire_plan_bytes_of_layer": ("bytes", "bytes")}
# Methods that read figures: (class, name, figures, getter of their number or function that creates a snapshot, or
# "").
READERS = [("Cache", "stats", "Stats", "quire_cache_stats"), ("Job", "info", "JobInfo", ""), ("Model", "info", "ModelInfo", ""),
           ("Model", "tensors", "Tensor", "quire_model_num_tensors"),
           ("Runtime", "devices", "Device", "quire_runtime_num_devices"),
           ("Runtime", "plan", "Plan", "quire_plan_create"),
           ("ResponseParser", "event", "ResponseEvent", "")]
READER_COMMENTS = {"stats": "Returns the statistics of this moment, including those of each namespace.",
                   "event": "Returns the event that the parser advanced to last.",
                   "info": "Returns a description of the current state.",
                   "plan": "Returns the memory that a model directory and a cache will take, before any weight is read. Fails like a load, and "
                   "with QUIRE_ERROR_OUT_OF_MEMORY if a split over several devices, automatic or by bytes, does not fit.",
                   "tensors": "Returns all tensors, in an order that does not change.",
                   "devices": "Returns all devices, including those that cannot be used, in an order that does not change."}
