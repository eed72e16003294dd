"""What the headers do not say: how the languages call things, and which functions are reached by hand."""
from dataclasses import dataclass, field


@dataclass
class Enum:
    prefix: str  # of the constants
    name: str
    comment: str
    go: str  # before the names of Go, which share one space
    go_name: str = ""
    go_bare: tuple = ()  # items that need that prefix; all where empty


ENUMS = [
    Enum("QUIRE_ERROR_", "ErrorCode", "Why a call failed, in a way that a program can act on.", "Code", "Code", ("OK",)),
    Enum("QUIRE_LOG_", "LogLevel", "How much of the log is told; a level includes those before it.", "Log"),
    Enum("QUIRE_MODEL_SCOPE_", "ModelScope", "How much of a model is loaded.", "Scope"),
    Enum("QUIRE_MODEL_STATE_", "ModelState", "Where the weights of a model are. A later version may add states.", "Model"),
    Enum("QUIRE_MODEL_FIGURE_", "ModelFigure", "What is counted of the moves of a model's weights.", "Figure"),
    Enum("QUIRE_KV_", "KvFormat", "How keys and values are stored.", "KV", "KVFormat"),
    Enum("QUIRE_ACTIVATION_", "ActivationDtype", "As what the products of layers take their activations.",
         "Activation"),
    Enum("QUIRE_QUOTA_", "Quota", "What the jobs of one namespace may take of a cache.", "Quota", "QuotaKind"),
    Enum("QUIRE_JOB_KIND_", "JobKind", "What a job does.", "Kind"),
    Enum("QUIRE_POOLING_", "Pooling", "How an embedding is made of the states of a prompt.", "Pooling"),
    Enum("QUIRE_EVENTS_", "EventPolicy", "What happens to the events of a job when nobody takes them.", "Events"),
    Enum("QUIRE_JOB_STATE_", "JobState", "Where a job stands. A later version may add states.", "State"),
    Enum("QUIRE_EVENT_", "EventKind", "What an event tells. A later version may add kinds: skip what is not known.",
         "Event"),
    Enum("QUIRE_PAGE_", "PageChange", "What became of a page of a cache.", "Page"),
    Enum("QUIRE_MEDIUM_", "PageMedium", "Where a page is.", "Medium"),
    Enum("QUIRE_FINISH_", "FinishReason", "Why a job ended. A later version may add reasons.", "Finish",
         go_bare=("NONE", "CANCELLED", "ERROR")),
    Enum("QUIRE_HISTOGRAM_", "HistogramKind", "What is counted by size; times are in nanoseconds.", "Histogram"),
    Enum("QUIRE_TOKEN_", "TokenKind", "A token with a meaning of its own.", "Token"),
    Enum("QUIRE_DIAGNOSE_", "DiagnoseFormat", "A form of the report of a machine.", "Diagnose"),
    Enum("QUIRE_CONSTRAINT_", "ConstraintKind", "What the source of a constraint is.", "Constraint"),
    Enum("QUIRE_RESPONSE_", "ResponseKind", "What a part of an answer is.", "Response"),
    Enum("QUIRE_REASONING_", "ReasoningStart", "Where the reasoning of an answer begins.", "Reasoning"),
]
NO_ENUM = ("QUIRE_WAIT_", "QUIRE_ABI_", "QUIRE_VERSION_")

# Which enum an int32_t is, by its name, or by the start of the function and the name.
ENUM_OF = {"quota": "Quota", "kv_format": "KvFormat", "activation_dtype": "ActivationDtype", "level": "LogLevel", "log_level": "LogLevel",
           "scope": "ModelScope", "pooling": "Pooling", "event_policy": "EventPolicy", "histogram": "HistogramKind",
           "format": "DiagnoseFormat", "quire_model_evict.state": "ModelState", "quire_model_state": "ModelState",
           "figure": "ModelFigure", "state": "JobState", "finish_reason": "FinishReason",
           "error_code": "ErrorCode", "quire_event_type": "EventKind", "quire_event_page_change": "PageChange",
           "quire_event_page_medium": "PageMedium", "quire_event_response_kind": "ResponseKind",
           "quire_job_request_set_reasoning": "ReasoningStart", "quire_job_request_set_kind": "JobKind",
           "quire_chat_template_set_token.kind": "TokenKind", "quire_model_special_token.kind": "TokenKind",
           "quire_constraint_create.kind": "ConstraintKind", "quire_response_parser_kind": "ResponseKind",
           "quire_response_parser_set_reasoning": "ReasoningStart"}
# int32_t that the comments do not show to be a yes or no, and those that are ids of tokens.
BOOLS = {"add_special", "parse_special", "skip_special", "quire_matcher_accept", "quire_response_parser_next"}
TOKENS = {"token", "quire_model_special_token", "quire_model_find_token", "quire_job_stop_token",
          "quire_event_stop_token"}
OPTIONAL = {"quire_model_special_token", "quire_model_find_token"}  # -1 is none
BYTES = {"quire_matcher_forced_text", "quire_response_parser_raw"}  # text that may end inside of a character
NULLABLE = {"quire_response_detect.model", "quire_alias_set_cache.cache"}  # objects that may be left out


@dataclass
class Object:
    """A handle with its functions as methods."""
    ctype: str
    name: str
    comment: str = ""
    whole: bool = False  # has no part by hand
    go_name: str = ""
    by_hand: bool = False  # in Go and C#: how it is made, and what it consists of
    waits: bool = False  # knows the dispatcher of its runtime
    closing: str = "Frees it; what was made from it lives on."


OBJECTS = [
    Object("quire_runtime", "Runtime", "The devices that models are loaded on. Any thread may use it at any time.",
           waits=True, closing="Frees the runtime; models made with it stay usable."),
    Object("quire_model", "Model", "A loaded model with its tokenizer; it never changes. Any thread may use it at any "
           "time.", waits=True, closing="Frees the model; caches made for it stay usable."),
    Object("quire_cache", "Cache", "The key/value cache of a model with the scheduler that batches its jobs. Any thread may "
           "use it at any time.", waits=True, closing="Frees the cache; its jobs run on."),
    Object("quire_job", "Job", by_hand=True, waits=True, closing="Frees the job, and cancels it where it is not over. Never waits."),
    Object("quire_queue", "EventQueue", "One stream of the events of many jobs, those whose request names it: a service "
           "waits in one place and tells its jobs apart by quire_event_user_data or quire_event_job_id. Any thread may use "
           "it at any time; each event is given to one of those that wait. It keeps no job alive.", go_name="Queue",
           closing="Shuts the queue down and frees it. Never waits."),
    Object("quire_constraint", "Constraint", "What a text has to be, compiled for the vocabulary of a model. It never "
           "changes; any number of threads may use one.", True),
    Object("quire_matcher", "Matcher", "Follows one text through a constraint: tells which tokens may come next, takes "
           "the one that comes, and can take steps back. Two threads must not use one matcher at once.", True),
    Object("quire_chat_template", "ChatTemplate", "Turns a conversation into a prompt, as the model's directory says. A "
           "conversation is one JSON object with `messages` as OpenAI has them, and whatever else the template reads, "
           "such as `tools` and `add_generation_prompt`; docs/chat.md tells what templates can do. Special tokens come "
           "from the template's words alone: text of a message is text, whatever it contains.", True),
    Object("quire_alias", "Alias", "A name that jobs are submitted to, and the cache behind it, which can be exchanged while "
           "jobs run: new jobs go to the new cache, running ones finish on the old one. Close the old cache after the "
           "exchange, do not shut it down. Any thread may use it at any time.", waits=True,
           closing="Frees the alias; its jobs run on."),
    Object("quire_response_parser", "ResponseParser", "Follows one answer of a model, given in any pieces, and tells its "
           "parts: text, reasoning, and calls of tools, in the way that the model's family writes them. Two threads must "
           "not use one parser at once.", True),
]
# function: (class that has it or "", name in Go, in Java and C#): what makes an object of a class above.
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
# function: (class that has it in Java and C#, name in Go, name there): calls without an object.
STATICS = {
    "quire_diagnose": ("Runtime", "Diagnose", "Diagnose"),
    "quire_response_dialects": ("ResponseParser", "ResponseDialects", "Dialects"),
}
# Reached by hand: what waits, what has a shape of its own, and what makes objects with a part by hand.
BY_HAND = """quire_cache_create_queue
quire_job_submit_many quire_job_poll quire_job_drain quire_job_wait quire_queue_drain quire_queue_ready
quire_model_load quire_queue_poll quire_queue_fd quire_plan_create
quire_runtime_create quire_cache_stats quire_stats_namespace quire_stats_num_namespaces quire_stats_namespace_name
quire_runtime_options_set_log_level quire_runtime_options_set_log_sink quire_model_options_set_progress
quire_model_options_set_path quire_job_request_set_queue quire_event_error_code quire_event_error_message
quire_event_error_parameter""".split()
# Names that are not made of the function's own.
NAMES = {
    "quire_model_load": "load_model",
    "quire_queue_close": "shutdown",
    "quire_cache_close": "shutdown",
    "quire_job_request_add_stop_text": "stop_text",
    "quire_job_request_add_banned_text": "banned_text",
    "quire_job_request_add_logit_bias": "logit_bias",
    "quire_cache_required_bytes": "cache_bytes",
    "quire_response_detect": "dialect",
}
DEFAULTS = {"add_special": "true", "format": "DiagnoseFormat.Text", "parse_special": "false", "skip_special": "true"}  # of C#


@dataclass
class Submit:
    """A method that makes a job of a request."""
    owner: str
    name: str
    comment: str
    makes_queue: bool = False  # for the dispatcher, where nothing uses it yet


SUBMITS = {
    "quire_job_submit": Submit("Cache", "submit", "Hands a request over; everything that can be refused is refused here.",
                               True),
    "quire_alias_submit": Submit("Alias", "submit", "Hands a request to the cache behind the alias, else to the first of its "
                                 "fallbacks that takes it."),
    "quire_job_fork": Submit("Job", "fork", "A second job that goes on from the tokens of this one. Of the request count seed, "
                             "user data, queue and length."),
}


@dataclass
class Group:
    """Settings of Go and C# that belong to one of several by name: a class, and the field with all of them."""
    name: str
    comment: str
    field: str
    field_comment: str
    members: tuple  # (function, field, comment)


@dataclass
class Choice:
    """A class of Go and C# of which one field counts."""
    name: str
    comment: str
    members: tuple  # (function, field, comment): of Go the first that is set, the last one else


@dataclass
class Settings:
    ctype: str
    name: str
    comment: str
    by_hand: bool = False  # in Java: has a part by hand
    required: str = ""  # a text without which it is not used: its setter
    # Of Go and C#: fields that a part by hand fills, (name, type of Go, type of C#, comment).
    fields: tuple = ()
    has_rest: bool = False  # in Go and C#: that part is called when the object is filled
    groups: tuple = ()
    choices: tuple = ()


PROMPT = ("The prompt in parts, in order; where there are any, neither Prompt nor Tokens is read.")
SETTINGS = [
    Settings("quire_runtime_options", "RuntimeOptions", "Settings of a runtime."),
    Settings("quire_model_options", "ModelOptions", "Settings of a model.", True, "quire_model_options_set_path", (
        ("Progress", "func(doneBytes, totalBytes int64)", "Action<long, long>",
         "Called as a load goes on, by the thread that loads, in bytes of the files, the last time with all of them. "
         "In it, calls that wait, load, create or close fail with QUIRE_ERROR_REENTRANT. Where it throws or panics it "
         "is called no more, and the load does the same once it is over."),)),
    Settings("quire_cache_options", "CacheOptions", "Settings of a cache.", groups=(
        Group("NamespaceOptions", "What one namespace has of its own.", "Namespaces",
              "By name, those that have quotas or a weight of their own.", (
                  ("quire_cache_options_set_namespace_quota", "Quotas",
                   "In place of those of all namespaces; 0 is no limit."),
                  ("quire_cache_options_set_namespace_weight", "Weight",
                   "Its share where several have jobs that wait: twice the weight is twice the tokens. Default: 1.")),),)),
    Settings("quire_job_request", "Request", "What a job does.", True, fields=(
        ("Prompt", "string", "string", "The text to go on after."),
        ("Tokens", "[]int32", "int[]", "The prompt as ids of tokens; where set, Prompt is not read."),
        ("Parts", "[]PromptPart", "IList<PromptPart>", PROMPT),
        ("Queue", "*Queue", "EventQueue", "Takes the events of the job; without one they are taken from the job.")), has_rest=True,
        choices=(Choice("PromptPart", "One part of a prompt.", (
            ("quire_job_request_add_messages", "Messages",
             "A message, or a list of them, in JSON as OpenAI has them: the chat template makes them into tokens."),
            ("quire_job_request_add_prompt_special", "Special",
             'One special token, as the tokenizer\'s file spells it, such as "<|im_end|>".'),
            ("quire_job_request_add_prompt_tokens", "Tokens", "Ids of tokens, taken as they are."),
            ("quire_job_request_add_prompt_text", "Text", "Text, tokenized at submit, by itself."))),)),
]
# Methods in Java; in Go and C# what a part by hand fills.
FILLED_BY_HAND = {"quire_job_request_clear_prompt", "quire_job_request_add_prompt_text",
                  "quire_job_request_add_prompt_tokens", "quire_job_request_add_prompt_special",
                  "quire_job_request_add_messages",
                  "quire_cache_options_set_namespace_quota", "quire_cache_options_set_namespace_weight",
                  "quire_job_request_set_prompt_text", "quire_job_request_set_prompt_tokens",
                  "quire_job_request_set_logit_biases",
                  "quire_job_request_clear_logit_biases", "quire_job_request_clear_stop_texts",
                  "quire_job_request_clear_banned_texts"}
# Fields of Go and C# that hold several: function: (name, type of Go, type of C#).
COLLECTED = {
    "quire_cache_options_set_quota": ("Quotas", "map[QuotaKind]int", "IDictionary<Quota, int>"),
    "quire_runtime_options_set_memory_budget": ("MemoryBudgets", "map[string]int64", "IDictionary<string, long>"),
    "quire_job_request_add_logit_bias": ("LogitBias", "map[int32]float64", "IDictionary<int, double>"),
    "quire_job_request_add_stop_text": ("StopTexts", "[]string", "IList<string>"),
    "quire_job_request_add_banned_text": ("BannedTexts", "[]string", "IList<string>"),
}
# What a map of those is handed over with where all its keys have one value.
TOGETHER = {"quire_job_request_add_logit_bias": "quire_job_request_set_logit_biases"}
# Go has no null: a yes or no that is yes by default is asked for the other way round, a number whose 0 is not its
# default is a pointer, or takes a negative number for 0.
GO_NOT = {"quire_job_request_set_add_special": "NoSpecial", "quire_job_request_set_normalize": "Unnormalized",
          "quire_job_request_set_reuse_prefix": "NoReuse", "quire_job_request_set_publish_pages": "NoPublish"}
GO_POINTER = {"quire_job_request_set_temperature", "quire_job_request_set_guidance_scale", "quire_cache_options_set_step_stretch"}
GO_NEGATIVE = {"quire_cache_options_set_max_overtakes", "quire_cache_options_set_ageing_ns",
               "quire_cache_options_set_close_timeout_ns", "quire_job_request_set_reasoning_budget"}


@dataclass
class Part:
    """A field that is not one getter: of another class of figures, or several of it."""
    name: str
    of: str
    count: str = ""  # the getter that tells how many
    when: tuple = ()
    go_pointer: bool = False


@dataclass
class Figures:
    """A class that is read from getters and then stands alone."""
    name: str
    ctype: str
    comment: str
    getters: str = ""  # names after the prefix
    prefix: str = ""  # of the getters, after that of the type
    index: str = ""  # the parameter that says which of several
    base: str = ""
    parts: tuple = ()
    when: dict = field(default_factory=dict)  # of an event: {getters: kinds that have them, or READ}
    fixed: dict = field(default_factory=dict)  # {name: (getter, argument)}


LAST = ("FINISHED", "ERROR")
TEXT = ("TEXT",) + LAST
READ = ("RESPONSE",)  # no kind: events with a part of an answer
USAGE = "prompt_tokens cached_tokens new_tokens draft_tokens accepted_draft_tokens preemptions time_queued_ns " \
    "time_prompt_ns time_generate_ns"
MEMORY = "total_bytes embedding_bytes layer_bytes head_bytes kv_bytes workspace_bytes staging_bytes"
FIGURES = [
    Figures("JobInfo", "quire_job", "Where a job stands, what it took so far, and how it ended.",
            "state finish_reason stop_token stop_text error_code seed " + USAGE),
    Figures("ModelInfo", "quire_model", "What a model is.", "architecture vocab_size num_layers hidden_size num_heads "
            "num_kv_heads max_context bits_per_weight weight_bytes num_shards"),
    Figures("Tensor", "quire_model", "A tensor as the files of a model have it; a quantized matrix is one.",
            "name format shape bytes layer", "tensor_", "tensor_idx"),
    Figures("Device", "quire_runtime", "What a runtime knows of one device.",
            "name description refusal memory_bytes free_bytes", "device_", "device_idx"),
    Figures("MemoryPlan", "quire_plan", "What something takes of memory, in bytes by kind.", MEMORY),
    Figures("DevicePlan", "quire_plan", "The part of one device.", "name num_layers usable_bytes", "device_",
            "device_idx", "MemoryPlan"),
    Figures("LayerPlan", "quire_plan", "The part of one layer.", "layer_device bytes_of_layer", "", "layer_idx"),
    Figures("CacheGroupPlan", "quire_plan", "The pages of the layers that see back equally far.",
            "window num_pages num_layers bytes", "cache_group_", "group_idx"),
    Figures("Plan", "quire_plan", "What a model and its cache will take of memory, in all and on each device.",
            "model_path kv_format", base="MemoryPlan", parts=(Part("devices", "DevicePlan", "num_devices"),
                                      Part("layers", "LayerPlan", "num_layers"),
                                      Part("cache_groups", "CacheGroupPlan", "num_cache_groups"))),
    Figures("Histogram", "quire_stats", "The sizes of what was counted. A quantile is at most twice too high.",
            "count sum", "histogram_", "histogram",
            fixed={"p50": ("quantile", "0.5"), "p90": ("quantile", "0.9"), "p99": ("quantile", "0.99")}),
    Figures("ShardStats", "quire_stats", "The part of one shard.", "device_bytes", "shard_", "shard_idx"),
    Figures("Stats", "quire_stats", "The figures of a cache at one moment, consistent with each other.",
            "page_tokens pages_total pages_free pages_cached pages_referenced pages_pinned pages_evicted "
            "pages_deduplicated prefix_host_pages prefix_host_bytes prefix_file_pages prefix_file_bytes "
            "prefix_pages_restored prefix_files_refused jobs_queued jobs_running jobs_submitted jobs_finished jobs_failed jobs_cancelled "
            "preemptions steps prompt_tokens cached_tokens new_tokens draft_tokens accepted_draft_tokens device_bytes",
            parts=(Part("histograms", "Histogram", "HistogramKind"), Part("namespaces", "Stats", "num_namespaces"),
                   Part("shards", "ShardStats", "num_shards"))),
    Figures("Usage", "quire_event", "What a job took, and what ended it.", "stop_token stop_text " + USAGE),
    Figures("Event", "quire_event", "One piece of the result of a job, a line of the log, or what became of a page.",
            "type job_id index user_data progress_done progress_total text tokens first_token log_probs top_tokens "
            "top_log_probs response_kind response_text call_index call_name call_id kept_tokens kept_bytes log_level "
            "lost_lines page_change page_medium page_number page_hash page_parent page_namespace finish_reason",
            parts=(Part("usage", "Usage", when=LAST, go_pointer=True), Part("error", "failure", when=("ERROR",))),
            when={"progress_done progress_total": ("PROGRESS",), "text": TEXT + ("LOG",), "tokens": TEXT + ("PAGE",),
                  "page_change page_medium page_number page_hash page_parent page_namespace": ("PAGE",),
                  "first_token log_probs top_tokens top_log_probs": TEXT,
                  "response_kind": ("TEXT",), "response_text call_index call_name call_id": READ, "finish_reason": LAST,
                  "kept_tokens kept_bytes": ("REWIND",), "log_level lost_lines": ("LOG",)}),
    Figures("ResponseEvent", "quire_response_parser", "One part of an answer.", "kind call_index text raw name id"),
]
# Names of figures: (Go and C#, Java); the getter after its prefix where there is none.
FIGURE_NAMES = {"quire_job_finish_reason": ("finish", "finish_reason"),
                "quire_event_finish_reason": ("finish", "finish_reason"),
                "quire_event_type": ("kind", "kind"), "quire_plan_layer_device": ("device", "device"),
                "quire_plan_bytes_of_layer": ("bytes", "bytes")}
# Methods that read figures: (class, name, figures, getter that tells how many, or what makes a snapshot, or "").
READERS = [("Cache", "stats", "Stats", "quire_cache_stats"), ("Job", "info", "JobInfo", ""), ("Model", "info", "ModelInfo", ""),
           ("Model", "tensors", "Tensor", "quire_model_num_tensors"),
           ("Runtime", "devices", "Device", "quire_runtime_num_devices"),
           ("Runtime", "plan", "Plan", "quire_plan_create"),
           ("ResponseParser", "event", "ResponseEvent", "")]
READER_COMMENTS = {"stats": "The figures of this moment, those of each namespace included.",
                   "event": "The event that the parser went on to last.",
                   "info": "What is known of it now.",
                   "plan": "What a model directory and a cache will take, before a weight is read. Fails as a load does, and "
                   "with QUIRE_ERROR_OUT_OF_MEMORY where a split over several devices, automatic or by bytes, does not go.",
                   "tensors": "All tensors, in an order that does not change.",
                   "devices": "All devices, those that cannot be used included, in an order that does not change."}
