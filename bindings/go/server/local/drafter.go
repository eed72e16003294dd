package local

import (
	"fmt"
	"os"

	"quire.dev/quire"
	"quire.dev/quire/server/internal/hubcache"
)

// namedDrafter is a drafter that the configuration knows by a name.
type namedDrafter struct {
	kind    quire.Drafter // of the cache
	network string        // of the model
}

var drafters = map[string]namedDrafter{"": {quire.DrafterAuto, "auto"}, "auto": {quire.DrafterAuto, "auto"},
	"none": {quire.DrafterNone, "none"}, "ngram": {quire.DrafterNgram, "none"}, "mtp": {quire.DrafterNetwork, "mtp"}}

// drafterKind returns the drafter of the cache.
func drafterKind(drafter string) quire.Drafter {
	if named, known := drafters[drafter]; known {
		return named.kind
	}
	return quire.DrafterNetwork
}

// draftNetwork returns the draft network to load with the model: "none" for a drafter without one, and the path of a
// network that is given by its path or by its name on a hub.
func draftNetwork(drafter string) (string, error) {
	if named, known := drafters[drafter]; known {
		return named.network, nil
	}
	path, err := hubcache.Resolve(drafter)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", fmt.Errorf("drafter must be auto, none, ngram, mtp, or the path or hub name of a draft network, not %q: %w",
			drafter, err)
	}
	return path, nil
}
