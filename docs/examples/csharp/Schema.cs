using System;
using Quire;

/// <summary>Gets an answer that matches a JSON schema. The argument is the directory of a model.</summary>
internal static class Schema
{
    private const string Wanted = "{\"type\": \"object\", \"properties\": {\"city\": {\"enum\": [\"Oslo\", \"Rome\"]}, "
        + "\"degrees\": {\"type\": \"integer\", \"minimum\": -40, \"maximum\": 50}}, "
        + "\"required\": [\"city\", \"degrees\"], \"additionalProperties\": false}";
    private const string Messages = "[{\"role\": \"user\", \"content\": \"How warm is it in Rome?\"}]";

    public static void Main(string[] arguments)
    {
        using (var runtime = new Runtime())
        using (Model model = runtime.LoadModel(arguments[0]))
        using (Cache cache = model.CreateCache())
        using (Constraint constraint = model.CreateConstraint(ConstraintKind.JsonSchema, Wanted))
        using (Job job = cache.Submit(new Request
        {
            Parts = { PromptPart.OfMessages(Messages) }, Constraint = constraint, RandomSeed = true, MaxNewTokens = 100,
        }))
            for (Event piece = job.Next(); piece != null; piece = job.Next()) Console.Write(piece.Text);
        Console.WriteLine(); // complete: the constraint ends the answer
    }
}
