using System;
using System.Collections.Generic;
using System.Linq;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;
using Quire;
using static Fixture;

/// <summary>Answers parsed into text and calls, and models exchanged through an alias.</summary>
public static class ResponsesTest
{
    private const string Tools = "[{\"type\": \"function\", \"function\": {\"name\": \"say\", \"parameters\": " +
        "{\"type\": \"object\", \"properties\": {\"word\": {\"enum\": [\"once\", \"upon\"]}}, \"required\": [\"word\"], " +
        "\"additionalProperties\": false}}}]";

    public static int Main(string[] arguments)
    {
        return Fixture.Run(arguments, AnAnswerIsParsedIntoTextAndCalls, TheDialectFollowsFromTheTemplate,
            AJobIsConstrainedToACall, AModelIsExchangedWhileJobsRun, AnAliasUsesItsFallbackAndReportsWhy);
    }

    private static List<ResponseEvent> Read(ResponseParser parser, params string[] pieces)
    {
        var events = new List<ResponseEvent>();
        foreach (string piece in pieces)
        {
            parser.Feed(piece);
            while (parser.Next()) events.Add(parser.Event());
        }
        parser.Finish();
        while (parser.Next()) events.Add(parser.Event());
        return events;
    }

    /// <summary>Returns the joined text of the events of a kind.</summary>
    private static string Texts(List<ResponseEvent> events, ResponseKind kind)
    {
        return string.Concat(events.Where(piece => piece.Kind == kind).Select(piece => piece.Text));
    }

    private static void AnAnswerIsParsedIntoTextAndCalls(Fixture with)
    {
        const string answer = "<think>é?</think>Well.\n<tool_call>\n" +
            "{\"name\": \"say\", \"arguments\": {\"word\": \"upon\"}}\n</tool_call>";
        using (ResponseParser parser = ResponseParser.Create("hermes"))
        {
            parser.SetTools(Tools);
            List<ResponseEvent> events = Read(parser, answer.Substring(0, 20), answer.Substring(20, 31), answer.Substring(51));
            Check(Encoding.UTF8.GetString(events.SelectMany(piece => piece.Raw).ToArray()) == answer, "raw");
            Check(Texts(events, ResponseKind.Text) == "Well.", Texts(events, ResponseKind.Text));
            Check(Texts(events, ResponseKind.Reasoning) == "é?", Texts(events, ResponseKind.Reasoning));
            Check(Texts(events, ResponseKind.Arguments) == "{\"word\": \"upon\"}", Texts(events, ResponseKind.Arguments));
            ResponseEvent begin = events.First(piece => piece.Kind == ResponseKind.CallBegin);
            Check(begin.Name == "say" && begin.CallIndex == 0, begin.Name);
            Check(events.Count(piece => piece.Kind == ResponseKind.CallEnd) == 1, "ends");
            Refused(ErrorCode.InvalidArgument, "", () => parser.Feed("more"));
        }
        Refused(ErrorCode.NotFound, "hermes", () => ResponseParser.Create("nobody's"));
        Check(ResponseParser.Dialects().Split('\n').Length >= 10, ResponseParser.Dialects());
        using (ResponseParser open = ResponseParser.Create("hermes"))
        using (ResponseParser begun = ResponseParser.Create("hermes"))
        {
            open.SetReasoning(ReasoningStart.Open);
            begun.SetPrompt("<|im_start|>assistant\n<think>\n");
            foreach (ResponseParser parser in new[] { open, begun })
            {
                ResponseEvent first = Read(parser, "so</think>then")[0];
                Check(first.Kind == ResponseKind.Reasoning && first.Text == "so", first.Text);
            }
        }
    }

    private static void TheDialectFollowsFromTheTemplate(Fixture with)
    {
        using (ChatTemplate hermes = ChatTemplate.Create("{{ '<tool_call>{\"name\": ' }}"))
        using (ChatTemplate plain = ChatTemplate.Create("{{ messages }}"))
        {
            Check(hermes.Dialect(null) == "hermes" && plain.Dialect(null) == "plain", hermes.Dialect(null));
            Check(hermes.Dialect(with.Model) == "hermes", hermes.Dialect(with.Model));
        }
    }

    /// <summary>Checks that a parser of the same dialect reads the output of a constraint, and that the job
    /// itself does too.</summary>
    private static void AJobIsConstrainedToACall(Fixture with)
    {
        string rules = "{\"dialect\": \"hermes\", \"tools\": " + Tools +
            ", \"tool_choice\": \"required\", \"parallel_tool_calls\": false, \"reasoning\": \"off\"}";
        Request request = Greedy("Once", 200);
        request.ResponseDialect = "hermes";
        request.Reasoning = ReasoningStart.Off;
        using (request.Constraint = with.Model.CreateResponseConstraint(rules))
        using (Job job = with.Cache.Submit(request))
        using (ResponseParser parser = ResponseParser.Create("hermes"))
        {
            parser.SetReasoning(ReasoningStart.Off);
            var answer = new StringBuilder();
            var read = new List<Event>();
            for (Event piece = job.Next(); piece != null; piece = job.Next())
            {
                answer.Append(piece.Text);
                read.Add(piece);
            }
            List<ResponseEvent> events = Read(parser, answer.ToString());
            string arguments = Texts(events, ResponseKind.Arguments);
            CheckRead(read, arguments);
            Check(Regex.IsMatch(arguments, "^{\\s*\"word\"\\s*:\\s*\"(once|upon)\"\\s*}$"), answer);
            Check(events.Count(piece => piece.Kind == ResponseKind.CallEnd) == 1, answer);
        }
        Request brief = Greedy("Once", 30);
        brief.IgnoreEos = true;
        brief.ResponseDialect = "hermes";
        brief.Reasoning = ReasoningStart.Open;
        brief.ReasoningBudget = 0;
        using (Job job = with.Cache.Submit(brief))
        {
            string text = Drain(job, FinishReason.Length).Trim();
            Check(text.StartsWith("</think>"), text);
        }
        brief.ResponseDialect = "nobody's";
        Refused(ErrorCode.NotFound, "hermes", () => with.Cache.Submit(brief));
        Refused(ErrorCode.Unsupported, "plain",
            () => with.Model.CreateResponseConstraint("{\"dialect\": \"plain\", \"tools\": " + Tools + "}"));
    }

    private static void CheckRead(List<Event> events, string arguments)
    {
        foreach (Event piece in events)
        {
            bool isEdge = piece.ResponseKind == ResponseKind.CallBegin || piece.ResponseKind == ResponseKind.CallEnd;
            Check(piece.CallName == (isEdge ? "say" : "") && piece.CallId == "", piece.CallName);
            Check(piece.CallIndex == 0 || piece.ResponseKind == ResponseKind.Markup, piece.CallIndex);
        }
        Check(events.Count(piece => piece.ResponseKind == ResponseKind.CallBegin) == 1, "begins");
        Check(events.Count(piece => piece.ResponseKind == ResponseKind.CallEnd) == 1, "ends");
        Check(string.Concat(events.Where(piece => piece.ResponseKind == ResponseKind.Arguments)
            .Select(piece => piece.ResponseText)) == arguments, arguments);
    }

    private static Cache Load(Fixture with)
    {
        using (Model model = with.Runtime.LoadModel(with.Path)) return model.CreateCache(2048);
    }

    private static void AModelIsExchangedWhileJobsRun(Fixture with)
    {
        using (Alias alias = with.Runtime.CreateAlias("chat"))
        {
            Refused(ErrorCode.NotFound, "chat", () => alias.Submit(Greedy("a", 1)));
            Cache cache = Load(with);
            alias.SetCache(cache);
            Request endless = Greedy("Once upon a time", 1500);
            endless.IgnoreEos = true;
            Job running = alias.Submit(endless);
            running.Next();
            bool over = false;
            Exception failed = null;
            var submitters = new Thread[4];
            for (int i = 0; i < submitters.Length; i++)
            {
                submitters[i] = new Thread(() =>
                {
                    for (bool last = false; !last && failed == null;)
                    {
                        last = Volatile.Read(ref over);
                        try
                        {
                            using (Job job = alias.Submit(Greedy(with.Prompt, 8)))
                                Check(with.Expected.StartsWith(Drain(job, FinishReason.Length)), "another text");
                        }
                        catch (Exception failure)
                        {
                            failed = failure;
                        }
                    }
                });
                submitters[i].Start();
            }
            for (int i = 0; i < 3; i++)
            {
                Refused(ErrorCode.NotFound, "", () => with.Runtime.LoadModel("/no/such/model")); // changes nothing
                Cache next = Load(with);
                alias.SetCache(next);
                cache.Dispose();
                cache = next;
            }
            Volatile.Write(ref over, true);
            foreach (Thread submitter in submitters) submitter.Join();
            Check(failed == null && alias.NumSwaps == 3, failed);
            Check(running.Info().State != JobState.Finished, running.Info().State);
            cache.Dispose();
            alias.SetCache(null);
            running.Cancel();
            Drain(running, FinishReason.Cancelled);
            running.Dispose();
            Throws<ObjectDisposedException>(() => alias.SetCache(cache));
        }
    }

    private static void AnAliasUsesItsFallbackAndReportsWhy(Fixture with)
    {
        Alias alias = with.Runtime.CreateAlias("chat");
        using (Cache cache = with.Model.CreateCache(2048)) alias.AddFallback(cache);
        with.Model.Dispose();
        with.Runtime.Dispose();
        Job job = alias.Submit(Greedy(with.Prompt, 48)); // the alias keeps the objects that it needs
        Check(alias.NumFallbacks == 1 && alias.Reason() != "", alias.Reason());
        alias.ClearFallbacks();
        Refused(ErrorCode.NotFound, "", () => alias.Submit(Greedy("a", 1)));
        alias.Dispose();
        Check(Drain(job, FinishReason.Length) == with.Expected, "another text");
        job.Dispose();
    }
}
