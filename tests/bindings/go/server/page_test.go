package server_test

import (
	"io"
	"net/http"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	pageReferences = regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	pageImports    = regexp.MustCompile(`from "(\./[^"]+)"`)
)

// filesOfPage returns the text of every file that the page loads, by its path.
func filesOfPage(t *testing.T, f *fixture) map[string]string {
	_, page := f.do("GET", "/", "")
	files, waiting := map[string]string{"/": page}, []string{}
	for _, match := range pageReferences.FindAllStringSubmatch(page, -1) {
		waiting = append(waiting, "/"+match[1])
	}
	for ; len(waiting) > 0; waiting = waiting[1:] {
		name := waiting[0]
		if _, has := files[name]; has {
			continue
		}
		response, text := f.do("GET", name, "")
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", name, response.StatusCode)
		}
		files[name] = text
		for _, match := range pageImports.FindAllStringSubmatch(text, -1) {
			waiting = append(waiting, path.Join(path.Dir(name), match[1]))
		}
	}
	return files
}

func TestThePageLoadsOnlyFilesOfTheServer(t *testing.T) {
	files := filesOfPage(t, start(t, nil))
	if len(files) < 10 || files["/page/page.css"] == "" || files["/page/blocks.mjs"] == "" {
		t.Fatal("files are missing: ", len(files))
	}
	for name, text := range files {
		for _, forbidden := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "<script>",
			"<style", "@import", "url(", " style=\"", "onclick="} {
			if strings.Contains(text, forbidden) {
				t.Errorf("%s contains %s", name, forbidden)
			}
		}
	}
}

func TestThePolicyOfThePageAllowsOnlyItsOwnServer(t *testing.T) {
	f := start(t, nil)
	for name, kind := range map[string]string{"/": "text/html", "/page/main.mjs": "text/javascript", "/page/page.css": "text/css",
		"/page/icon.svg": "image/svg+xml"} {
		response, _ := f.do("GET", name, "")
		expect(t, response.Header.Get("Content-Type"), kind+"; charset=utf-8")
		expect(t, response.Header.Get("X-Content-Type-Options"), "nosniff")
		policy := response.Header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q lacks %s", name, policy, part)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %s", name, policy)
		}
	}
}

func TestAFileOfThePageIsSentAgainOnlyIfItHasChanged(t *testing.T) {
	f := start(t, nil)
	response, _ := f.do("GET", "/page/main.mjs", "")
	request, _ := http.NewRequest("GET", f.URL+"/page/main.mjs", nil)
	request.Header.Set("If-None-Match", response.Header.Get("ETag"))
	again, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Body.Close()
	text, _ := io.ReadAll(again.Body)
	expect(t, again.StatusCode, http.StatusNotModified)
	expect(t, len(text), 0)
}

func TestOtherPathsAndMethodsAreRefused(t *testing.T) {
	f := start(t, nil)
	for _, name := range []string{"/page", "/page/", "/page.html", "/page.go", "/page/nothing.mjs", "/page/%2e%2e/page.go",
		"/page/main.mjs/"} {
		response, _ := f.do("GET", name, "")
		expect(t, response.StatusCode, http.StatusNotFound)
	}
	for _, name := range []string{"/", "/page/main.mjs"} {
		response, text := f.do("POST", name, "{}")
		expect(t, response.StatusCode, http.StatusMethodNotAllowed)
		if !strings.Contains(text, "GET") {
			t.Error(text)
		}
	}
}
