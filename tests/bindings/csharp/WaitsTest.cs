using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using Quire;

/// <summary>What waiting costs, and what ends it.</summary>
internal static class WaitsTest
{
    private static int Main(string[] arguments)
    {
        return Fixture.Run(arguments, AThousandWaitsHoldNoThread, ATokenOfASubmitEndsTheJob, AsyncTellsTheSameStory);
    }

    private static int NumThreads()
    {
        return Directory.GetDirectories("/proc/self/task").Length;
    }

    private static void AThousandWaitsHoldNoThread(Fixture with)
    {
        const int count = 1000;
        using (Cache cache = with.Model.CreateCache(
            new CacheOptions { MaxTokens = 2048, MaxBatchSize = 1, MaxQueue = 2 * count }))
        {
            Request endless = Fixture.Greedy("Once", 1900);
            endless.IgnoreEos = true;
            var jobs = new List<Job> { cache.Submit(endless) };
            jobs[0].Next();
            jobs[0].Pause();
            while (jobs.Count < count) jobs.Add(cache.Submit(Fixture.Greedy("Once", 5)));
            int before = NumThreads();
            Task[] waits = jobs.Skip(1).Select(job => job.WaitAsync()).ToArray();
            Thread.Sleep(300);
            int more = NumThreads() - before;
            Fixture.Check(more <= 8, more + " threads more");
            TimeSpan cpu = System.Diagnostics.Process.GetCurrentProcess().TotalProcessorTime;
            Thread.Sleep(500);
            cpu = System.Diagnostics.Process.GetCurrentProcess().TotalProcessorTime - cpu;
            Console.WriteLine(more + " threads more, " + cpu.TotalMilliseconds / 5 + " % of a core");
            foreach (Job job in jobs) job.Cancel();
            Task.WaitAll(waits);
            foreach (Job job in jobs) job.Dispose();
        }
    }

    private static void ATokenOfASubmitEndsTheJob(Fixture with)
    {
        Request endless = Fixture.Greedy("Once", 1900);
        endless.IgnoreEos = true;
        using (var ending = new CancellationTokenSource())
        using (Job job = with.Cache.Submit(endless, ending.Token))
        {
            job.Next();
            ending.Cancel();
            job.Wait();
            Fixture.Check(job.Info().Finish == FinishReason.Cancelled, job.Info().Finish);
        }
    }

    private static void AsyncTellsTheSameStory(Fixture with)
    {
        var text = new StringBuilder();
        using (Job job = with.Cache.Submit(Fixture.Greedy(with.Prompt, 24)))
        {
            Read(job, text).Wait();
        }
        using (Job job = with.Cache.Submit(Fixture.Greedy(with.Prompt, 24)))
        {
            Fixture.Check(Fixture.Drain(job, FinishReason.Length) == text.ToString(), text);
        }
    }

    private static async Task Read(Job job, StringBuilder text)
    {
        IAsyncEnumerator<Event> events = job.Events().GetAsyncEnumerator(CancellationToken.None);
        while (await events.MoveNextAsync()) text.Append(events.Current.Text);
    }
}
