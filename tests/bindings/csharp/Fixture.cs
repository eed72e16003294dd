using System;
using System.IO;
using System.Text;
using System.Text.RegularExpressions;
using Quire;

/// <summary>Shared by the tests of the C# binding: the arguments, a cache for each case, and checks of
/// jobs.</summary>
internal sealed class Fixture
{
    public readonly Runtime Runtime;
    public readonly Model Model;
    public readonly Cache Cache;
    public readonly string Path;
    public readonly string Prompt;
    public readonly string Expected;

    private Fixture(string[] arguments)
    {
        Path = arguments[0];
        Prompt = File.ReadAllText(arguments[1]);
        Expected = File.ReadAllText(arguments[2]);
        Runtime = new Runtime(2);
        Model = Runtime.LoadModel(Path);
        Cache = Model.CreateCache(2048);
    }

    /// <summary>Runs cases until one fails, each with its own cache. Returns the exit code of the
    /// program.</summary>
    public static int Run(string[] arguments, params Action<Fixture>[] cases)
    {
        foreach (Action<Fixture> body in cases)
        {
            try
            {
                var with = new Fixture(arguments);
                body(with);
                with.Runtime.Dispose(); // from the root to the leaf, the wrong order
                with.Model.Dispose();
                with.Cache.Dispose();
                with.Runtime.Dispose();
                CheckNothingIsLeft();
            }
            catch (Exception failure)
            {
                Console.WriteLine(body.Method.Name + ": " + failure);
                return 1;
            }
            Console.WriteLine("ok: " + body.Method.Name);
        }
        return 0;
    }

    /// <summary>Checks that every handle was freed: those of a case, and those that the layer makes for a
    /// call. The dispatcher frees its own after it has noticed that no jobs are left.</summary>
    private static void CheckNothingIsLeft()
    {
        string handles = Handles();
        for (int tries = 0; IsLeft(handles) && tries < 1000; tries++)
        {
            System.Threading.Thread.Sleep(10);
            handles = Handles();
        }
        Check(handles.Contains("\"quire_event\":0") && !IsLeft(handles), handles);
    }

    private static string Handles()
    {
        string report = Quire.Runtime.Diagnose(DiagnoseFormat.Json);
        return report.Substring(report.IndexOf("\"live_handles\""));
    }

    private static bool IsLeft(string handles)
    {
        return Regex.IsMatch(handles, ":[1-9]");
    }

    public static void Check(bool holds, object what)
    {
        if (!holds) throw new Exception(what.ToString());
    }

    public static Request Greedy(string text, int maxNewTokens)
    {
        return new Request { Prompt = text, Temperature = 0, MaxNewTokens = maxNewTokens };
    }

    /// <summary>Takes all events and returns the text.</summary>
    public static string Drain(Job job, FinishReason finish)
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

    public static void Throws<T>(Action call) where T : Exception
    {
        try
        {
            call();
        }
        catch (T)
        {
            return;
        }
        throw new Exception("no " + typeof(T).Name);
    }

    /// <summary>Checks the error code and that the message is one line that contains the text.</summary>
    public static void Refused(ErrorCode code, string says, Action call)
    {
        try
        {
            call();
        }
        catch (QuireException refusal)
        {
            Check(refusal.Code == code, refusal.Code + ": " + refusal.Message);
            Check(refusal.Message.Contains(says) && refusal.Message != "" && !refusal.Message.Contains("\n"),
                refusal.Message);
            return;
        }
        throw new Exception("it was not refused; the error should contain " + says);
    }
}
