using System;
using System.IO;
using System.Text;
using System.Threading;
using Quire;

/// <summary>
/// The C# binding on the embedded model: the same greedy text as the command, an emoji on the way in and out, a
/// cancelled job, an error that can be read, and handles closed in a wrong order. Arguments: the model, a file
/// with the prompt, a file with the expected text.
/// </summary>
public static class StoryTest
{
    private static string prompt;
    private static string expected;

    private delegate void Body(Runtime runtime, Model model, Cache cache);

    public static int Main(string[] arguments)
    {
        prompt = File.ReadAllText(arguments[1]);
        expected = File.ReadAllText(arguments[2]);
        try
        {
            Run(arguments[0], "streams the text of the command", Streams);
            Run(arguments[0], "text survives the tokenizer", TextSurvives);
            Run(arguments[0], "cancel ends a job and leaves its neighbour", Cancels);
            Run(arguments[0], "errors name what is at fault", Errors);
            Run(arguments[0], "dispose while another thread waits", DisposeWhileWaiting);
            Run(arguments[0], "disposed objects refuse", DisposedRefuses);
            return 0;
        }
        catch (Exception failure)
        {
            Console.WriteLine(failure);
            return 1;
        }
    }

    private static void Run(string path, string name, Body body)
    {
        var runtime = new Runtime(2);
        Model model = runtime.LoadModel(path);
        Cache cache = model.CreateCache(2048);
        body(runtime, model, cache);
        runtime.Dispose(); // from the root to the leaf, the wrong way round
        model.Dispose();
        cache.Dispose();
        runtime.Dispose();
        Console.WriteLine("ok: " + name);
    }

    private static void Check(bool holds, string what)
    {
        if (!holds) throw new Exception(what);
    }

    private static Request Greedy(string text, int maxNewTokens)
    {
        return new Request { Prompt = text, Temperature = 0, MaxNewTokens = maxNewTokens };
    }

    private static string Drain(Job job, FinishReason finish)
    {
        var text = new StringBuilder();
        var last = FinishReason.None;
        for (Event piece = job.Next(); piece != null; piece = job.Next())
        {
            text.Append(piece.Text);
            last = piece.Finish;
        }
        Check(last == finish, "finish reason " + last);
        return text.ToString();
    }

    private static void Streams(Runtime runtime, Model model, Cache cache)
    {
        using (Job job = cache.Submit(Greedy(prompt, 48)))
        {
            string text = Drain(job, FinishReason.Length);
            Check(text == expected, "expected \"" + expected + "\", got \"" + text + "\"");
        }
    }

    private static void TextSurvives(Runtime runtime, Model model, Cache cache)
    {
        foreach (string text in new[] { "", "a \U0001F642 b", "zero\0byte", prompt })
        {
            string decoded = model.Decode(model.Encode(text));
            Check(decoded == text, "\"" + text + "\" came back as \"" + decoded + "\"");
        }
    }

    private static void Cancels(Runtime runtime, Model model, Cache cache)
    {
        Job cancelled = cache.Submit(Greedy("Once upon a time", 1000));
        Job neighbour = cache.Submit(Greedy(prompt, 48));
        cancelled.Next();
        cancelled.Cancel();
        Drain(cancelled, FinishReason.Cancelled);
        Check(Drain(neighbour, FinishReason.Length) == expected, "the neighbour changed");
        cancelled.Dispose();
        neighbour.Dispose();
    }

    private static QuireException Refused(Action call)
    {
        try
        {
            call();
        }
        catch (QuireException refusal)
        {
            return refusal;
        }
        throw new Exception("it was not refused");
    }

    private static void Errors(Runtime runtime, Model model, Cache cache)
    {
        QuireException missing = Refused(() => runtime.LoadModel("/no/such/model"));
        Check(missing.Code == ErrorCode.NotFound, missing.Code.ToString());
        Check(missing.Message.Contains("/no/such/model"), missing.Message);
        QuireException range = Refused(() => cache.Submit(Greedy("a", -1)));
        Check(range.Code == ErrorCode.InvalidArgument, range.Code.ToString());
    }

    private static void DisposeWhileWaiting(Runtime runtime, Model model, Cache cache)
    {
        Job job = cache.Submit(Greedy("Once upon a time", 1000));
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

    private static void DisposedRefuses(Runtime runtime, Model model, Cache cache)
    {
        model.Dispose();
        model.Dispose();
        try
        {
            model.Encode("a");
        }
        catch (ObjectDisposedException)
        {
            return;
        }
        throw new Exception("a disposed model encodes");
    }
}
