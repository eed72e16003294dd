// Package hubcache finds models in the cache that quire pull and huggingface_hub fill. It makes no requests.
package hubcache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

const (
	maxRepositoryBytes = 96
	maxPathBytes       = 1024
	maxReferenceBytes  = 256
	maxFiles           = 100000 // of a snapshot
)

var (
	repositoryPart = regexp.MustCompile(`^[0-9A-Za-z_]([0-9A-Za-z_.-]*[0-9A-Za-z_])?$`)
	commitName     = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// Name is the name of a model on a hub: ORG/NAME[:CHOICE][@REVISION].
type Name struct {
	Repository string
	Choice     string // file, folder or quantization
	Revision   string
}

// Parse reads a name.
func Parse(text string) (Name, error) {
	name := Name{Revision: "main"}
	rest := text
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		name.Revision, rest = rest[at+1:], rest[:at]
		if !safePath(name.Revision) || strings.ContainsAny(name.Revision, " ~^:?*[") {
			return Name{}, fmt.Errorf("%q: no branch, tag or commit", name.Revision)
		}
	}
	repository, choice, hasChoice := strings.Cut(rest, ":")
	if hasChoice && !safePath(choice) {
		return Name{}, fmt.Errorf("%q: neither a file nor a quantization", choice)
	}
	if !isRepository(repository) {
		return Name{}, fmt.Errorf("%q: no repository of a hub; a model's name is ORG/NAME", repository)
	}
	name.Repository, name.Choice = repository, choice
	return name, nil
}

func isRepository(text string) bool {
	parts := strings.Split(text, "/")
	if len(text) > maxRepositoryBytes || len(parts) > 2 {
		return false
	}
	for _, part := range parts {
		if !repositoryPart.MatchString(part) || strings.Contains(part, "--") || strings.Contains(part, "..") {
			return false
		}
	}
	return true
}

// safePath reports whether a path of a repository stays below its folder.
func safePath(path string) bool {
	if path == "" || len(path) > maxPathBytes || strings.ContainsAny(path, "\\\x7f") {
		return false
	}
	for _, letter := range []byte(path) {
		if letter < 0x20 {
			return false
		}
	}
	for _, part := range strings.Split(path, "/") {
		if part == "" || part == "." || part == ".." || len(part) > 200 {
			return false
		}
	}
	return true
}

// Resolve returns the path of a model: the given one if it exists or is no name with an owner, otherwise that of the
// model in the cache.
func Resolve(path string) (string, error) {
	if _, err := os.Lstat(path); err == nil {
		return path, nil
	}
	name, err := Parse(path)
	if err != nil || !strings.Contains(name.Repository, "/") {
		return path, nil //nolint:nilerr // the loader reports a path that does not exist
	}
	found, err := Find(Folder(os.Getenv), name)
	if err != nil {
		return "", fmt.Errorf("%s: no such file or directory; as a model of a hub: %w; bring it with: quire pull %s", path, err, path)
	}
	return found, nil
}

// Folder returns the folder of the cache, as the environment sets it.
func Folder(getenv func(string) string) string {
	home := func(path string) string {
		if path == "~" || strings.HasPrefix(path, "~/") {
			return getenv("HOME") + path[1:]
		}
		return path
	}
	for _, name := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"} {
		if cache := getenv(name); cache != "" {
			return home(cache)
		}
	}
	if hub := getenv("HF_HOME"); hub != "" {
		return filepath.Join(home(hub), "hub")
	}
	if cache := getenv("XDG_CACHE_HOME"); cache != "" {
		return filepath.Join(home(cache), "huggingface", "hub")
	}
	return filepath.Join(home("~/.cache/huggingface"), "hub")
}

// Find returns the path of a model in a cache.
func Find(cache string, name Name) (string, error) {
	root := filepath.Join(cache, "models--"+strings.ReplaceAll(name.Repository, "/", "--"))
	commit := name.Revision
	if !commitName.MatchString(commit) {
		text, err := readReference(filepath.Join(root, "refs", filepath.FromSlash(name.Revision)))
		if err != nil {
			return "", fmt.Errorf("it is not in the cache %s", cache)
		}
		commit = text
	}
	snapshot := filepath.Join(root, "snapshots", commit)
	files, err := filesBelow(snapshot)
	if err != nil {
		return "", fmt.Errorf("it is not in the cache %s", cache)
	}
	path, err := choose(files, name.Choice)
	if err != nil {
		return "", err
	}
	return filepath.Join(snapshot, filepath.FromSlash(path)), nil
}

func readReference(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxReferenceBytes {
		return "", errors.New("no reference")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	commit := strings.TrimRight(string(text), "\r\n")
	if !commitName.MatchString(commit) {
		return "", errors.New("no commit")
	}
	return commit, nil
}

// filesBelow returns the regular files below a folder, in order; links without a target are left out.
func filesBelow(folder string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() || len(files) >= maxFiles {
			return nil
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			relative, err := filepath.Rel(folder, path)
			if err != nil {
				return err
			}
			files = append(files, filepath.ToSlash(relative))
		}
		return nil
	})
	sort.Strings(files)
	return files, err
}
