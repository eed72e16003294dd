using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using Quire;

/// <summary>The cost of waiting, and the ways to end a wait.</summary>
internal static class WaitsTest
{
    private static int Main(string[] arguments)
    {
        return Fixture.Run(arguments, AThousandWaitsBlockNoThread, ATokenOfASubmitEndsTheJob, AsyncGeneratesTheSameText,
            AQueueIsAwaited, ATokenEndsAWaitInAQueue);
    }

    private static int NumThreads()
    {
        return Directory.GetDirectories("/proc/self/task").Length;
    }

    /// <summary>Returns how often the threads of the library and of this layer were woken so far. Threads of
    /// the .NET runtime do not count.</summary>
    private static long Wakeups()
    {
        long sum = 0;
        foreach (string task in Directory.GetDirectories("/proc/self/task"))
        {
            string[] lines = Status(task);
            if (lines.Length == 0 || !lines[0].StartsWith("Name:\tquire")) continue;
            foreach (string line in lines)
                if (line.StartsWith("voluntary_ctxt_switches:")) sum += long.Parse(line.Split(':')[1].Trim());
        }
        return sum;
    }

    /// <summary>Returns an empty array for a thread that has ended in the meantime.</summary>
    private static string[] Status(string task)
    {
        try
        {
            return File.ReadAllLines(task + "/status");
        }
        catch (IOException)
        {
            return new string[0];
        }
    }

    private static void AThousandWaitsBlockNoThread(Fixture with)
    {
        const int count = 1000;
        Request endless = Fixture.Greedy("Once", 1900);
        endless.IgnoreEos = true;
        int before = NumThreads();
        using (Cache cache = with.Model.CreateCache(new CacheOptions { MaxTokens = 2048, MaxQueue = 2 * count }))
        {
            // A paused job yields its turn to others, so the cache is idle only if all jobs are paused.
            Job[] jobs = Enumerable.Range(0, count).Select(i => cache.Submit(endless)).ToArray();
            foreach (Job job in jobs) job.Pause();
            Task[] waits = jobs.Select(job => job.WaitAsync()).ToArray();
            Thread.Sleep(1000);
            int more = NumThreads() - before;
            Fixture.Check(more <= 8, more + " threads more");
            long steps = cache.Stats().Steps, wakeups = Wakeups();
            TimeSpan cpu = System.Diagnostics.Process.GetCurrentProcess().TotalProcessorTime;
            Thread.Sleep(1000);
            cpu = System.Diagnostics.Process.GetCurrentProcess().TotalProcessorTime - cpu;
            wakeups = Wakeups() - wakeups;
            Console.WriteLine(more + " threads more, " + wakeups + " wakeups, " + cpu.TotalMilliseconds / 10 +
                " % of a core");
            Fixture.Check(cache.Stats().Steps == steps, "steps while all jobs are paused");
            Fixture.Check(wakeups < 50, wakeups + " wakeups while nothing happens");
            foreach (Job job in jobs) job.Cancel();
            Task.WaitAll(waits);
            foreach (Job job in jobs) job.Dispose();
        }
    }

    private static void AQueueIsAwaited(Fixture with)
    {
        using (EventQueue queue = with.Runtime.CreateQueue())
        {
            Request request = Fixture.Greedy(with.Prompt, 24);
            request.Queue = queue;
            var text = new StringBuilder();
            Task reader = Read(queue, text);
            using (Job job = with.Cache.Submit(request)) // its events end with it
            {
                job.Wait();
                queue.Shutdown();
                reader.Wait();
            }
            using (Job alone = with.Cache.Submit(Fixture.Greedy(with.Prompt, 24)))
                Fixture.Check(Fixture.Drain(alone, FinishReason.Length) == text.ToString(), text);
        }
    }

    private static async Task Read(EventQueue queue, StringBuilder text)
    {
        IAsyncEnumerator<Event> events = queue.Events().GetAsyncEnumerator(CancellationToken.None);
        while (await events.MoveNextAsync()) text.Append(events.Current.Text);
    }

    private static void ATokenEndsAWaitInAQueue(Fixture with)
    {
        using (EventQueue queue = with.Runtime.CreateQueue())
        using (var ending = new CancellationTokenSource())
        {
            Task<Event>[] waits = Enumerable.Range(0, 100).Select(i => queue.NextAsync(ending.Token)).ToArray();
            ending.Cancel();
            foreach (Task<Event> wait in waits)
                Fixture.Throws<OperationCanceledException>(() => wait.GetAwaiter().GetResult());
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

    private static void AsyncGeneratesTheSameText(Fixture with)
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
