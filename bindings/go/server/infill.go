package server

// Text between a prefix and a suffix, for models that were trained to write it (fill in the middle).

// infillPrompt is what such a text is written between.
type infillPrompt struct {
	Prefix, Suffix string
	Begin          string // the beginning of the text
	Files          []infillFile
}

// infillFile is a further file of the project.
type infillFile struct {
	Name string `json:"filename"`
	Text string `json:"text"`
}

// Spellings of the marks in the vocabularies of models, by their role.
var (
	infillPrefixMarks    = []string{"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "<｜fim▁begin｜>", "▁<PRE>", "<PRE>", "<|code_prefix|>"}
	infillSuffixMarks    = []string{"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "<｜fim▁hole｜>", "▁<SUF>", "<SUF>", "<|code_suffix|>"}
	infillMiddleMarks    = []string{"<|fim_middle|>", "<fim_middle>", "<fim-middle>", "<｜fim▁end｜>", "▁<MID>", "<MID>", "<|code_middle|>"}
	infillRepoMarks      = []string{"<|repo_name|>", "<|fim_repo|>", "<repo_name>", "<reponame>"}
	infillSeparatorMarks = []string{"<|file_sep|>", "<file_sep>", "<|file_separator|>"}
)

// infillMarks holds the marks of a vocabulary; -1 if it has none.
type infillMarks struct{ prefix, suffix, middle, repo, separator int32 }

// findInfillMarks returns the marks of a vocabulary, and whether a text can be infilled.
func findInfillMarks(find func(text string) (int32, error)) (marks infillMarks, complete bool, err error) {
	for _, role := range []struct {
		mark      *int32
		spellings []string
	}{{&marks.prefix, infillPrefixMarks}, {&marks.suffix, infillSuffixMarks}, {&marks.middle, infillMiddleMarks},
		{&marks.repo, infillRepoMarks}, {&marks.separator, infillSeparatorMarks}} {
		*role.mark = -1
		for _, spelling := range role.spellings {
			if *role.mark, err = find(spelling); err != nil {
				return marks, false, err
			}
			if *role.mark >= 0 {
				break
			}
		}
	}
	return marks, marks.prefix >= 0 && marks.suffix >= 0 && marks.middle >= 0, nil
}

// HasInfillMarks reports whether a vocabulary, in which `find` finds tokens, has those for infilling.
func HasInfillMarks(find func(text string) (int32, error)) bool {
	_, complete, err := findInfillMarks(find)
	return complete && err == nil
}

// tokens returns the tokens of the prompt: the files, then prefix, suffix and the beginning of the text, each after
// its mark. Only the marks are special tokens, whatever the texts contain.
func (p *infillPrompt) tokens(model Model, name, field string) ([]int32, error) {
	marks, complete, err := findInfillMarks(model.FindToken)
	if err != nil {
		return nil, err
	}
	if !complete {
		return nil, invalid(field, "the model %q does not support text between a prefix and a suffix: its vocabulary has no "+
			"tokens for it", name)
	}
	tokens, err := model.Tokenize("", true)
	if err != nil {
		return nil, err
	}
	add := func(mark int32, texts ...string) {
		if mark >= 0 {
			tokens = append(tokens, mark)
		}
		for _, text := range texts {
			if text == "" || err != nil {
				continue
			}
			var more []int32
			more, err = model.Tokenize(text, false)
			tokens = append(tokens, more...)
		}
	}
	withNames := marks.separator >= 0 && len(p.Files) > 0
	if withNames && marks.repo >= 0 {
		add(marks.repo, "project\n")
	}
	for _, file := range p.Files {
		if withNames {
			add(marks.separator, file.Name+"\n", file.Text)
		} else {
			add(-1, file.Text+"\n")
		}
	}
	if withNames {
		add(marks.separator, "filename\n")
	}
	add(marks.prefix, p.Prefix)
	add(marks.suffix, p.Suffix)
	add(marks.middle, p.Begin)
	return tokens, err
}
