using System;
using System.Threading;
using Quire;
using static Fixture;

/// <summary>
/// The C# binding on the embedded model: the same greedy text as the command, an emoji in input and output, a
/// cancelled job, an error message, and handles closed in the wrong order. Arguments: the model, a file with the
/// prompt, a file with the expected text.
/// </summary>
public static class StoryTest
{
    public static int Main(string[] arguments)
    {
        return Fixture.Run(arguments, Streams, TextSurvives, Cancels, Errors, AForgottenPromptIsRefused,
            ANamespaceIsUnicodeInEveryCall, DisposeEndsTheWaitOfAnotherThread, DisposedRefuses);
    }

    private static void Streams(Fixture with)
    {
        using (Job job = with.Cache.Submit(Greedy(with.Prompt, 48)))
        {
            string text = Drain(job, FinishReason.Length);
            Check(text == with.Expected, "expected \"" + with.Expected + "\", got \"" + text + "\"");
        }
    }

    private static void TextSurvives(Fixture with)
    {
        foreach (string text in new[] { "", "a \U0001F642 b", "zero\0byte", with.Prompt })
        {
            string decoded = with.Model.Decode(with.Model.Encode(text));
            Check(decoded == text, "\"" + text + "\" came back as \"" + decoded + "\"");
        }
    }

    private static void Cancels(Fixture with)
    {
        Job cancelled = with.Cache.Submit(Greedy("Once upon a time", 1000));
        Job neighbour = with.Cache.Submit(Greedy(with.Prompt, 48));
        cancelled.Next();
        cancelled.Cancel();
        Drain(cancelled, FinishReason.Cancelled);
        Check(Drain(neighbour, FinishReason.Length) == with.Expected, "the neighbour changed");
        cancelled.Dispose();
        neighbour.Dispose();
    }

    private static void Errors(Fixture with)
    {
        Refused(ErrorCode.NotFound, "/no/such/model", () => with.Runtime.LoadModel("/no/such/model"));
        Refused(ErrorCode.InvalidArgument, "max_new_tokens", () => with.Cache.Submit(Greedy("a", -1)));
        Refused(ErrorCode.Encoding, "surrogate", () => with.Model.Encode("a\ud800"));
        Refused(ErrorCode.Encoding, "surrogate", () => with.Cache.Submit(Greedy("\udc00", 1)));
    }

    private static void AForgottenPromptIsRefused(Fixture with)
    {
        Refused(ErrorCode.InvalidArgument, "prompt", () => with.Cache.Submit(new Request { MaxNewTokens = 1 }));
    }

    private static void ANamespaceIsUnicodeInEveryCall(Fixture with)
    {
        const string Broken = "caf\ud800";
        Request request = Greedy("a", 1);
        request.Namespace = Broken;
        Refused(ErrorCode.Encoding, "surrogate", () => with.Cache.Submit(request));
        foreach (var own in new[] { new NamespaceOptions { Weight = 2 }, new NamespaceOptions { Quotas = { { Quota.Pages, 1 } } } })
            Refused(ErrorCode.Encoding, "surrogate",
                () => with.Model.CreateCache(new CacheOptions { Namespaces = { { Broken, own } } }));
        Refused(ErrorCode.Encoding, "surrogate", () => with.Cache.SetNamespaceWeight(Broken, 2));
        Refused(ErrorCode.Encoding, "surrogate", () => with.Cache.SetNamespaceQuota(Broken, Quota.Pages, 1));
        request.Namespace = "café 🙂";
        using (Job job = with.Cache.Submit(request))
        {
            Drain(job, FinishReason.Length);
            Check(with.Cache.Stats().Namespaces[request.Namespace].JobsFinished == 1, "the name did not come back");
        }
    }

    private static void DisposeEndsTheWaitOfAnotherThread(Fixture with)
    {
        Job job = with.Cache.Submit(Greedy("Once upon a time", 1000));
        var reader = new Thread(() =>
        {
            try
            {
                while (job.Next() != null) { }
            }
            catch (ObjectDisposedException) { }
            catch (QuireException) { }
        });
        reader.Start();
        job.Dispose();
        Check(reader.Join(TimeSpan.FromSeconds(30)), "the reader was not woken");
    }

    private static void DisposedRefuses(Fixture with)
    {
        with.Model.Dispose();
        with.Model.Dispose();
        Throws<ObjectDisposedException>(() => with.Model.Encode("a"));
    }
}
