using System;
using System.Threading;
using Quire;

/// <summary>Ends a long answer after its first tokens. The argument is the directory of a model.</summary>
internal static class Cancellation
{
    private const string Messages = "[{\"role\": \"user\", \"content\": \"Tell me a long story.\"}]";

    public static void Main(string[] arguments)
    {
        int events = 0;
        var request = new Request
        {
            Parts = { PromptPart.OfMessages(Messages) }, IgnoreEos = true, MaxNewTokens = int.MaxValue,
        };
        using (var source = new CancellationTokenSource())
        using (var runtime = new Runtime())
        using (Model model = runtime.LoadModel(arguments[0], null, source.Token))
        using (Cache cache = model.CreateCache())
        using (Job job = cache.Submit(request, source.Token))
            for (Event piece = job.Next(); piece != null; piece = job.Next())
            {
                Console.Write(piece.Text);
                if (++events == 8) source.Cancel(); // from any thread; the job ends within a step
                if (piece.IsLast) Console.WriteLine("\n" + piece.Finish);
            }
    }
}
