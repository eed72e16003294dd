package quire

import "quire.dev/quire/internal/native"

// ConstraintKind says what the source of a constraint is.
type ConstraintKind int32

// The kinds of the C interface (quire/constraint.h).
const (
	ConstraintJSONSchema = ConstraintKind(native.QUIRE_CONSTRAINT_JSON_SCHEMA) // drafts 4 to 7, 2019-09 and 2020-12
	ConstraintJSONObject = ConstraintKind(native.QUIRE_CONSTRAINT_JSON_OBJECT) // any JSON object; the source is not read
	ConstraintRegex      = ConstraintKind(native.QUIRE_CONSTRAINT_REGEX)       // that the whole text has to match
	ConstraintChoice     = ConstraintKind(native.QUIRE_CONSTRAINT_CHOICE)      // one of some texts: a JSON list of strings
	ConstraintGBNF       = ConstraintKind(native.QUIRE_CONSTRAINT_GBNF)        // a grammar of llama.cpp, rule "root"
	ConstraintLark       = ConstraintKind(native.QUIRE_CONSTRAINT_LARK)        // a grammar in Lark's notation, rule "start"
)

// Constraint is what a text has to be, compiled for the vocabulary of a model. It never changes.
type Constraint struct {
	handle *handle[native.ConstraintHandle]
}

// NewConstraint compiles a constraint from its source; the same source for the same model is compiled once. Format
// where it is malformed, Unsupported naming what is not supported, Capacity naming the limit that it goes beyond.
func (m *Model) NewConstraint(kind ConstraintKind, source string) (*Constraint, error) {
	created, err := with(m.handle, func(model native.ModelHandle, e *native.ErrorHandle) native.ConstraintHandle {
		return native.Quire_constraint_create(model, int32(kind), source, e)
	})
	if err != nil {
		return nil, err
	}
	return &Constraint{own(created, native.Quire_constraint_free)}, nil
}

// Close frees the constraint; matchers made from it live on.
func (c *Constraint) Close() error { return c.handle.close() }

// Matcher follows one text through a constraint. Two goroutines must not use one matcher at once.
type Matcher struct {
	handle *handle[native.MatcherHandle]
}

// NewMatcher makes a matcher at the beginning of a text.
func (c *Constraint) NewMatcher() (*Matcher, error) {
	created, err := with(c.handle, native.Quire_matcher_create)
	if err != nil {
		return nil, err
	}
	return &Matcher{own(created, native.Quire_matcher_free)}, nil
}

// Close frees the matcher.
func (m *Matcher) Close() error { return m.handle.close() }

// Accept takes the next token; false where it may not come next, and nothing has changed.
func (m *Matcher) Accept(token int32) (bool, error) {
	taken, err := with(m.handle, numbered(native.Quire_matcher_accept, token))
	return taken == 1, err
}

// Mask are the tokens that may come next, a bit each: token t is bit t % 8 of byte t / 8, the lowest bit first. A token
// that ends a text is among them where the text may end.
func (m *Matcher) Mask() ([]byte, error) { return measuredWith(m.handle, native.Quire_matcher_mask) }

// MayEnd tells whether the text so far may be all of it.
func (m *Matcher) MayEnd() (bool, error) {
	answer, err := with(m.handle, native.Quire_matcher_may_end)
	return answer == 1, err
}

// ForcedText is what must come next, as far as there is no choice; it may end inside of a character.
func (m *Matcher) ForcedText() ([]byte, error) {
	return measuredWith(m.handle, native.Quire_matcher_forced_text)
}

// Rollback takes back the last numSteps tokens that were accepted.
func (m *Matcher) Rollback(numSteps int64) error {
	_, err := with(m.handle, func(matcher native.MatcherHandle, e *native.ErrorHandle) int32 {
		return native.Quire_matcher_rollback(matcher, numSteps, e)
	})
	return err
}
