namespace Quire.Extensions.AI
{
    /// <summary>Constraint on calls if none is required.</summary>
    internal enum Calls
    {
        /// <summary>No constraint: the model calls as it was trained to.</summary>
        Free,

        /// <summary>Calls must match the schemas of their tools.</summary>
        Strict,

        /// <summary>At most one call, which must match its schema; exactly one if the choice requires a
        /// call.</summary>
        Single,
    }

    /// <summary>A conversation as JSON texts in OpenAI's format. All but the messages may be null.</summary>
    internal sealed class Conversation
    {
        private const string None = "\"none\"";
        private const string Auto = "\"auto\"";

        /// <summary>A list of messages.</summary>
        public string Messages { get; }

        /// <summary>A list of tools.</summary>
        public string? Tools { get; set; }

        /// <summary>A text in quotes, or an object that names a function; null means "auto".</summary>
        public string? ToolChoice { get; set; }

        /// <summary>The format of the text, an object with its type.</summary>
        public string? ResponseFormat { get; set; }

        public Calls Calls { get; set; }

        public Conversation(string messages)
        {
            Messages = messages;
        }

        /// <summary>True if the prompt contains the tools; with "none" it does not.</summary>
        public bool HasTools => Tools != null && ToolChoice != None;

        private bool RequiresCall => ToolChoice != null && ToolChoice != None && ToolChoice != Auto;

        /// <summary>True if the answer needs a constraint. Tools alone need none: a model calls them as it
        /// was trained to.</summary>
        public bool IsConstrained => ResponseFormat != null || RequiresCall || (Calls != Calls.Free && HasTools);

        /// <summary>Returns the rules of a response constraint. The request decides where reasoning
        /// begins.</summary>
        public string Rules(string dialect)
        {
            string rules = "{\"dialect\": \"" + dialect + "\"";
            if (HasTools) rules += ", \"tools\": " + Tools;
            if (HasTools || RequiresCall) rules += ", \"tool_choice\": " + (ToolChoice ?? Auto);
            if (Calls == Calls.Single) rules += ", \"parallel_tool_calls\": false";
            if (ResponseFormat != null) rules += ", \"response_format\": " + ResponseFormat;
            return rules + "}";
        }
    }
}
