// load measures a server as `quire bench --workload 128/128 --rate 0` measures the library: JOBS streams at
// once, each with its own prompt of 128 tokens and 128 new tokens. usage: load URL MODEL JOBS ROUNDS
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"math/rand"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

const promptTokens, newTokens = 128, 128

// job runs one stream and returns the time to its first piece.
func job(client *http.Client, url, model string, seed int64) time.Duration {
	random := rand.New(rand.NewSource(seed))
	prompt := make([]int, promptTokens)
	for i := range prompt {
		prompt[i] = 10 + random.Intn(6000)
	}
	body, _ := json.Marshal(map[string]interface{}{"model": model, "prompt": prompt, "max_tokens": newTokens,
		"temperature": 0, "stream": true, "ignore_eos": true, "stream_options": map[string]bool{"include_usage": true}})
	began := time.Now()
	response, err := client.Post(url+"/v1/completions", "application/json", strings.NewReader(string(body)))
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	var first time.Duration
	whole := false
	for lines.Scan() {
		if first == 0 && strings.HasPrefix(lines.Text(), "data: ") {
			first = time.Since(began)
		}
		whole = whole || strings.Contains(lines.Text(), fmt.Sprintf(`"completion_tokens":%d,`, newTokens))
	}
	if !whole || lines.Err() != nil {
		log.Fatalf("%d: the stream is not whole: %v", response.StatusCode, lines.Err())
	}
	return first
}

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: load URL MODEL JOBS ROUNDS")
	}
	jobs, _ := strconv.Atoi(os.Args[3])
	rounds, _ := strconv.Atoi(os.Args[4])
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: jobs, MaxConnsPerHost: jobs}}
	job(client, os.Args[1], os.Args[2], -1)
	for round := 0; round < rounds; round++ {
		firsts := make([]time.Duration, jobs)
		var running sync.WaitGroup
		began := time.Now()
		for i := range firsts {
			running.Add(1)
			go func(i int) {
				defer running.Done()
				firsts[i] = job(client, os.Args[1], os.Args[2], int64(round*jobs+i))
			}(i)
		}
		running.Wait()
		took := time.Since(began)
		sort.Slice(firsts, func(i, j int) bool { return firsts[i] < firsts[j] })
		fmt.Printf("%.1f tokens/s, first token after %.1f ms (median), %.1f ms (last)\n",
			float64(jobs*newTokens)/took.Seconds(), firsts[jobs/2].Seconds()*1000, firsts[jobs-1].Seconds()*1000)
	}
}
