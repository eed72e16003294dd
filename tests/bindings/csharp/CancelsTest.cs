using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Quire;
using static Fixture;

/// <summary>Each way to end a job or a wait works at every stage and leaves nothing behind.</summary>
internal static class CancelsTest
{
    private enum Stage { Queued, Prompt, Generating, LastEvent, AfterTheEnd }

    private static int Main(string[] arguments)
    {
        return Fixture.Run(arguments, ACancelEndsTheJobWithinAStep, ATokenOfASubmitEndsTheJob, ATokenEndsTheWait,
            RandomCancelsLeaveNothing);
    }

    private static Cache CacheOfOne(Fixture with)
    {
        return with.Model.CreateCache(new CacheOptions { MaxTokens = 2048, MaxBatchSize = 1, MaxChunkTokens = 4 });
    }

    private static Request Endless()
    {
        Request request = Greedy("Once", 1900);
        request.IgnoreEos = true;
        return request;
    }

    /// <summary>Returns a job at the stage. At Queued, another job runs first in a cache for one
    /// job.</summary>
    private static Job JobAt(Stage stage, Cache cache, List<Job> before, CancellationToken token)
    {
        if (stage == Stage.Queued)
        {
            Job holder = cache.Submit(Endless());
            holder.Next();
            before.Add(holder);
        }
        Request request = Endless();
        if (stage >= Stage.LastEvent) request.MaxNewTokens = 3;
        if (stage == Stage.Prompt)
        {
            request.Tokens = Enumerable.Repeat(7, 1900).ToArray();
            request.MaxNewTokens = 100;
            request.ProgressEvents = true;
        }
        Job job = cache.Submit(request, token);
        if (stage == Stage.Queued) Check(job.Info().State == JobState.Queued, job.Info().State);
        if (stage == Stage.Prompt) Check(job.Next().Kind == EventKind.Progress, "no progress");
        if (stage == Stage.Generating) job.Next();
        if (stage == Stage.LastEvent) job.Wait();
        if (stage == Stage.AfterTheEnd) Drain(job, FinishReason.Length);
        return job;
    }

    private static void AtEachStage(Fixture with, Action<Job, CancellationTokenSource> cancel)
    {
        foreach (Stage stage in Enum.GetValues(typeof(Stage)))
        {
            var before = new List<Job>();
            using (Cache cache = CacheOfOne(with))
            using (var source = new CancellationTokenSource())
            using (Job job = JobAt(stage, cache, before, source.Token))
            {
                cancel(job, source);
                long tokens = job.Info().NewTokens;
                job.Wait();
                JobInfo info = job.Info();
                FinishReason expected = stage >= Stage.LastEvent ? FinishReason.Length : FinishReason.Cancelled;
                Check(info.Finish == expected, stage + ": " + info.Finish);
                Check(info.NewTokens <= tokens + 1, stage + ": " + tokens + " tokens, then " + info.NewTokens);
                int taken = 0;
                for (Event piece = job.Next(); piece != null; piece = job.Next()) taken += piece.Tokens.Length;
                Check(stage != Stage.LastEvent || taken == 3, "an event is lost");
                foreach (Job one in before) one.Dispose();
                job.Dispose();
                AwaitIdle(cache);
            }
        }
    }

    private static void AwaitIdle(Cache cache)
    {
        for (Stats stats = cache.Stats(); stats.JobsRunning + stats.JobsQueued + stats.PagesReferenced > 0;
            stats = cache.Stats())
            Thread.Sleep(1); // until the step ends
    }

    private static void ACancelEndsTheJobWithinAStep(Fixture with)
    {
        AtEachStage(with, (job, source) => job.Cancel());
    }

    private static void ATokenOfASubmitEndsTheJob(Fixture with)
    {
        AtEachStage(with, (job, source) => source.Cancel());
    }

    private static void ATokenEndsTheWait(Fixture with)
    {
        foreach (Stage stage in new[] { Stage.Queued, Stage.Prompt, Stage.Generating })
        {
            var before = new List<Job>();
            using (Cache cache = CacheOfOne(with))
            using (var source = new CancellationTokenSource())
            using (Job job = JobAt(stage, cache, before, CancellationToken.None))
            {
                Task wait = job.WaitAsync(source.Token);
                source.Cancel();
                Throws<OperationCanceledException>(() => wait.GetAwaiter().GetResult());
                Throws<OperationCanceledException>(() => job.Next(source.Token));
                Check(job.Info().Finish == FinishReason.None, stage + ": " + job.Info().Finish);
                foreach (Job one in before) one.Dispose();
                job.Dispose();
                AwaitIdle(cache);
            }
        }
    }

    private static async Task ReadToTheEnd(Cache cache, int kind, int milliseconds)
    {
        using (var source = new CancellationTokenSource())
        {
            Job job = cache.Submit(Greedy("Once upon a time", 20), kind == 0 ? source.Token : CancellationToken.None);
            Task ending = End(job, source, kind, milliseconds);
            try
            {
                CancellationToken token = kind == 1 ? source.Token : CancellationToken.None;
                while (await job.NextAsync(token) != null) { }
            }
            catch (OperationCanceledException) { }
            catch (ObjectDisposedException) { }
            catch (QuireClosedException) { } // disposed during the call
            catch (QuireBadHandleException) { } // disposed between reading the job and the call
            await ending;
            job.Dispose();
        }
    }

    private static async Task End(Job job, CancellationTokenSource source, int kind, int milliseconds)
    {
        await Task.Delay(milliseconds);
        if (kind <= 1) source.Cancel();
        else if (kind == 2) job.Cancel();
        else job.Dispose();
    }

    private static void RandomCancelsLeaveNothing(Fixture with)
    {
        const int rounds = 10000;
        var random = new Random(1);
        using (Cache cache = with.Model.CreateCache(2048))
        {
            for (int done = 0; done < rounds; done += 50)
                Task.WaitAll(Enumerable.Range(0, 50)
                    .Select(i => ReadToTheEnd(cache, random.Next(4), random.Next(6))).ToArray());
            AwaitIdle(cache);
        }
    }
}
