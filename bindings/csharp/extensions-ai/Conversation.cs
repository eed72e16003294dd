namespace Quire.Extensions.AI
{
    /// <summary>What calls keep to though none is required.</summary>
    internal enum Calls
    {
        /// <summary>What the model has learned.</summary>
        Free,

        /// <summary>The schemas of their tools.</summary>
        Strict,

        /// <summary>The schema of its tool, and there is at most one; with a choice that requires a call, exactly
        /// one.</summary>
        Single,
    }

    /// <summary>What a model is to answer: texts in JSON as OpenAI has them, each null where there is none but the
    /// messages.</summary>
    internal sealed class Conversation
    {
        private const string None = "\"none\"";
        private const string Auto = "\"auto\"";

        /// <summary>A list of messages.</summary>
        public string Messages { get; }

        /// <summary>A list of tools.</summary>
        public string? Tools { get; set; }

        /// <summary>A text in quotes, or an object that names a function; null is "auto".</summary>
        public string? ToolChoice { get; set; }

        /// <summary>What the text has to be, an object with its type.</summary>
        public string? ResponseFormat { get; set; }

        public Calls Calls { get; set; }

        public Conversation(string messages)
        {
            Messages = messages;
        }

        /// <summary>Whether the model learns of tools: with "none" it does not.</summary>
        public bool HasTools => Tools != null && ToolChoice != None;

        private bool RequiresCall => ToolChoice != null && ToolChoice != None && ToolChoice != Auto;

        /// <summary>Tools alone ask for no constraint: a model calls them as it has learned to.</summary>
        public bool IsConstrained => ResponseFormat != null || RequiresCall || (Calls != Calls.Free && HasTools);

        /// <summary>The rules of a response constraint, which leave it to the request where reasoning begins.</summary>
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
