using System;
using Quire;

/// <summary>Prints an answer while it is generated. The argument is the directory of a model.</summary>
internal static class StreamedChat
{
    private const string Messages = "[{\"role\": \"system\", \"content\": \"Answer in one sentence.\"}, "
        + "{\"role\": \"user\", \"content\": \"Who was the king?\"}]";

    public static void Main(string[] arguments)
    {
        var request = new Request
        {
            Parts = { PromptPart.OfMessages(Messages) }, ResponseDialect = "auto", RandomSeed = true, MaxNewTokens = 60,
        };
        using (var runtime = new Runtime())
        using (Model model = runtime.LoadModel(arguments[0]))
        using (Cache cache = model.CreateCache())
        using (Job job = cache.Submit(request))
            for (Event piece = job.Next(); piece != null; piece = job.Next())
            {
                Console.Write(piece.ResponseText);
                if (piece.IsLast) Console.WriteLine("\n" + piece.Finish + ", " + piece.Usage.NewTokens + " tokens");
            }
    }
}
