using System;
using Quire;

/// <summary>Makes the model call a tool. The argument is the directory of a model.</summary>
internal static class ToolCall
{
    private const string Tools = "[{\"type\": \"function\", \"function\": {\"name\": \"temperature\", "
        + "\"parameters\": {\"type\": \"object\", \"properties\": {\"city\": {\"enum\": [\"Oslo\", \"Rome\"]}}, "
        + "\"required\": [\"city\"]}}}]";
    private const string Messages = "[{\"role\": \"user\", \"content\": \"How warm is it in Rome?\"}]";

    public static void Main(string[] arguments)
    {
        // One call, which matches the schema of its tool.
        string rules = "{\"dialect\": \"hermes\", \"tools\": " + Tools
            + ", \"tool_choice\": \"required\", \"parallel_tool_calls\": false}";
        string name = "", given = "";
        using (var runtime = new Runtime())
        using (Model model = runtime.LoadModel(arguments[0]))
        using (Cache cache = model.CreateCache())
        using (Constraint constraint = model.CreateResponseConstraint(rules))
        using (Job job = cache.Submit(new Request
        {
            Parts = { PromptPart.OfMessages(Messages) }, Tools = Tools, Constraint = constraint,
            ResponseDialect = "hermes", RandomSeed = true, MaxNewTokens = 100,
        }))
            for (Event piece = job.Next(); piece != null; piece = job.Next())
            {
                if (piece.ResponseKind == ResponseKind.CallBegin) name = piece.CallName;
                if (piece.ResponseKind == ResponseKind.Arguments) given += piece.ResponseText;
            }
        Console.WriteLine(name + " " + given);
        // The program runs its tool here, and submits the messages again with the call and its result.
    }
}
