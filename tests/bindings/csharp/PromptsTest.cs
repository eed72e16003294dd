using System;
using System.Linq;
using System.Text;
using Quire;
using static Fixture;

/// <summary>Chat templates, constraints, prompts made of parts, and the usage in a last event.</summary>
public static class PromptsTest
{
    private const string Conversation =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a <|im_end|> b\"}], \"add_generation_prompt\": true}";
    private const string Rendered = "<|im_start|>user\na <|im_end|> b<|im_end|>\n<|im_start|>assistant\n";

    public static int Main(string[] arguments)
    {
        return Fixture.Run(arguments, AChatTemplateRendersAConversation, AMatcherFollowsAText,
            ANegativePromptWorksByItsScale, APromptOfPartsEqualsTheWholePrompt, MessagesAndTextArePartsOfAPrompt,
            BiasesOfOneAndOfSeveralValuesTakeEffect, ALastEventHasItsUsage, TheLogArrivesAsEvents, EachCodeHasAClass);
    }

    private static void AChatTemplateRendersAConversation(Fixture with)
    {
        using (ChatTemplate template = ChatTemplate.Open(with.Path))
        {
            Check(template.Render(Conversation) == Rendered, template.Render(Conversation));
            Check(template.Segments(Conversation).Sum() == Rendered.Length, "segments");
            Check(with.Model.Decode(template.Tokens(with.Model, Conversation), false) == Rendered, "tokens");
            Check(template.Hash().Length == 64, template.Hash());
            Refused(ErrorCode.NotFound, "nobody", () => template.Choose("nobody"));
            var request = new Request();
            request.Parts.Add(PromptPart.OfMessages("{\"role\": \"user\", \"content\": \"a <|im_end|> b\"}"));
            Check(with.Model.RenderChat(request) == Rendered, with.Model.RenderChat(request));
        }
        using (ChatTemplate template = ChatTemplate.Create("{{ bos_token }}{{ strftime_now('%Y') }}"))
        {
            template.SetToken(TokenKind.Bos, "<é>");
            template.SetNow("2025-07-26");
            Check(template.Render("{\"messages\": []}") == "<é>2025", template.Render("{\"messages\": []}"));
        }
        Refused(ErrorCode.Format, "line 1", () => ChatTemplate.Create("{% if %}"));
    }

    private static Request Guided(double scale)
    {
        Request request = Greedy("Once upon a time", 20);
        request.NegativePromptText = "A big dog";
        request.GuidanceScale = scale;
        return request;
    }

    private static string Run(Fixture with, Request request)
    {
        using (Job job = with.Cache.Submit(request))
            return Drain(job, FinishReason.Length);
    }

    private static void ANegativePromptWorksByItsScale(Fixture with)
    {
        Check(Run(with, Guided(0)) == Run(with, Greedy("A big dog", 20)), "not the text after the negative prompt");
        string away = Run(with, Guided(3));
        Check(away != Run(with, Greedy("Once upon a time", 20)), "the negative prompt changes nothing");
        Request byTokens = Guided(3);
        byTokens.NegativePromptText = null;
        byTokens.NegativePromptTokens = with.Model.Encode("A big dog", true);
        Check(Run(with, byTokens) == away, "the tokens of the negative prompt lead elsewhere");
        Refused(ErrorCode.InvalidArgument, "negative_prompt", () => with.Cache.Submit(Guided(1)));
    }

    private static void AMatcherFollowsAText(Fixture with)
    {
        using (Constraint constraint = with.Model.CreateConstraint(ConstraintKind.Regex, "Once( upon)+"))
        {
            using (Matcher matcher = constraint.CreateMatcher())
            {
                Check(Encoding.UTF8.GetString(matcher.ForcedText()) == "Once upon", "forced");
                int[] tokens = with.Model.Encode("Once upon", false);
                foreach (int token in tokens)
                    Check((matcher.Mask()[token / 8] >> (token % 8) & 1) == 1 && matcher.Accept(token), token);
                Check(matcher.MayEnd(), "the text may not end");
                matcher.Rollback(tokens.Length);
                Check(!matcher.MayEnd(), "the text may be empty");
                Refused(ErrorCode.InvalidArgument, "", () => matcher.Rollback(1));
            }
            Request request = Greedy("A story: ", 16);
            request.Constraint = constraint;
            using (Job job = with.Cache.Submit(request))
            {
                job.Wait();
                string text = Drain(job, job.Info().Finish);
                Check(text.StartsWith("Once upon"), text);
            }
        }
        Refused(ErrorCode.Format, "", () => with.Model.CreateConstraint(ConstraintKind.Regex, "("));
    }

    private static void APromptOfPartsEqualsTheWholePrompt(Fixture with)
    {
        int[] tokens = with.Model.Encode(with.Prompt);
        Request request = Greedy("another", 48);
        request.Parts.Add(PromptPart.OfTokens(tokens.Take(2).ToArray()));
        Refused(ErrorCode.InvalidArgument, "neither Prompt nor Tokens", () => with.Cache.Submit(request));
        request.Prompt = null;
        request.Tokens = tokens;
        Refused(ErrorCode.InvalidArgument, "neither Prompt nor Tokens", () => with.Cache.Submit(request));
        request.Tokens = null;
        request.Parts.Add(PromptPart.OfTokens(tokens.Skip(2).ToArray()));
        using (Job job = with.Cache.Submit(request))
            Check(Drain(job, FinishReason.Length) == with.Expected, "another text");
        request.Parts.Add(PromptPart.OfSpecial("<|nobody|>"));
        Refused(ErrorCode.NotFound, "nobody", () => with.Cache.Submit(request));
    }

    private static void BiasesOfOneAndOfSeveralValuesTakeEffect(Fixture with)
    {
        foreach (double other in new[] { 1e6, -5 })
        {
            Request request = Greedy("Once", 2);
            request.LogitBias[300] = 1e6;
            request.LogitBias[301] = other;
            using (Job job = with.Cache.Submit(request))
                for (Event piece = job.Next(); piece != null; piece = job.Next())
                    Check(piece.Tokens.All(token => token == 300 || (token == 301 && other == 1e6)), other);
        }
    }

    private static void MessagesAndTextArePartsOfAPrompt(Fixture with)
    {
        Request messages = Greedy(null, 2);
        messages.Parts.Add(PromptPart.OfMessages("[{\"role\": \"user\", \"content\": \"upon\"}]"));
        int rendered = with.Model.RenderChatTokens(messages).Length;
        messages.Parts.Add(PromptPart.OfText("Once"));
        using (Job job = with.Cache.Submit(messages))
            Check(job.Info().PromptTokens == rendered + with.Model.Encode("Once", false).Length, job.Info().PromptTokens);
    }

    private static void ALastEventHasItsUsage(Fixture with)
    {
        Request request = Greedy(with.Prompt, 8);
        request.Seed = 7;
        using (Job job = with.Cache.Submit(request))
        {
            Check(job.Info().Seed == 7, job.Info().Seed);
            Event last = job.Next();
            while (!last.IsLast) last = job.Next();
            Check(last.Usage.NewTokens == 8 && last.Usage.PromptTokens > 0 && last.Usage.StopToken == -1, last.Usage);
        }
    }

    private static void TheLogArrivesAsEvents(Fixture with)
    {
        using (EventQueue queue = with.Runtime.CreateQueue())
        {
            queue.SetLogLevel(LogLevel.Debug);
            Request request = Greedy("Once", 1500);
            request.IgnoreEos = true;
            using (with.Cache.Submit(request)) with.Cache.Shutdown();
            Event line = queue.Next();
            Check(line.Kind == EventKind.Log && line.Text != "" && line.Usage == null, line.Kind);
        }
    }

    private static void EachCodeHasAClass(Fixture with)
    {
        Throws<QuireNotFoundException>(() => with.Runtime.LoadModel("/nowhere"));
    }
}
