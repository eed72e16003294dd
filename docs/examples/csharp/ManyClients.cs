using System;
using System.Linq;
using System.Threading.Tasks;
using Quire;

/// <summary>Serves many clients from one cache, which computes their tokens together; no client holds a thread. The
/// argument is the directory of a model.</summary>
internal static class ManyClients
{
    private const int Clients = 16;

    public static void Main(string[] arguments)
    {
        using (var runtime = new Runtime())
        using (Model model = runtime.LoadModel(arguments[0]))
        using (Cache cache = model.CreateCache(Clients * 256))
        {
            long[] tokens = Task.WhenAll(Enumerable.Range(0, Clients).Select(client => Tokens(cache, client))).Result;
            Console.WriteLine(Clients + " answers, " + tokens.Sum() + " tokens");
        }
    }

    private static async Task<long> Tokens(Cache cache, int client)
    {
        string messages = "[{\"role\": \"user\", \"content\": \"Tell me of king number " + client + ".\"}]";
        var request = new Request { Parts = { PromptPart.OfMessages(messages) }, RandomSeed = true, MaxNewTokens = 32 };
        using (Job job = cache.Submit(request))
        {
            long tokens = 0;
            for (Event piece = await job.NextAsync(); piece != null; piece = await job.NextAsync())
                tokens += piece.IsLast ? piece.Usage.NewTokens : 0;
            return tokens;
        }
    }
}
