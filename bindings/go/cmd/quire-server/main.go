// quire-server answers the HTTP interfaces of OpenAI and Anthropic from models of this machine.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"quire.dev/quire"
	"quire.dev/quire/server"
	"quire.dev/quire/server/otlp"
)

// The exit statuses.
const (
	exitOK      = 0
	exitFailure = 1 // it could not start, or serve on
	exitUsage   = 2 // the command line or the configuration is wrong
	exitForced  = 3 // a second signal, or the time to drain, ended it
)

const usage = `usage: quire-server --config FILE [--listen HOST:PORT]
       quire-server --model NAME=DIR [--model NAME=DIR]... [--listen HOST:PORT]

Answers the HTTP interfaces of OpenAI and Anthropic from models of this machine.

  --config FILE       the configuration, in JSON; SIGHUP has it read again
  --model NAME=DIR    serves the model directory DIR as NAME, loaded at start; may be given again
  --listen HOST:PORT  instead of what the configuration says, else 127.0.0.1:8080; port 0 takes a free one
  --check             reads the configuration, says what is wrong with it, and ends
  --version           the versions of the server and of the library
  --help              this text

SIGTERM and SIGINT refuse new requests and wait for those under way; a second one ends at once.
The log goes to standard error, one JSON object a line, without the text of prompts or answers.
OTEL_EXPORTER_OTLP_ENDPOINT has spans of the requests sent to a collector, such as http://localhost:4318.
`

// arguments are what the command line says.
type arguments struct {
	configPath string
	models     map[string]server.ModelConfig
	listen     string
	check      bool
	spans      *otlp.Options // nil: none are sent
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errors io.Writer) int {
	parsed, done, err := parse(args, out)
	if done {
		return exitOK
	}
	var config *server.Config
	if err == nil {
		config, err = parsed.config()
	}
	log := server.NewLogger(errors)
	if err == nil {
		err = parsed.readSpans(log)
	}
	if err != nil {
		fmt.Fprintln(errors, "quire-server:", err)
		return exitUsage
	}
	if parsed.check {
		fmt.Fprintln(out, "the configuration is sound")
		return exitOK
	}
	return serve(parsed, config, log)
}

// parse reads the command line; done where it asked for a text, which was written.
func parse(args []string, out io.Writer) (parsed *arguments, done bool, err error) {
	parsed = &arguments{models: map[string]server.ModelConfig{}}
	flags := flag.NewFlagSet("quire-server", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&parsed.configPath, "config", "", "")
	flags.StringVar(&parsed.listen, "listen", "", "")
	flags.BoolVar(&parsed.check, "check", false, "")
	version := flags.Bool("version", false, "")
	flags.Func("model", "", parsed.addModel)
	err = flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, usage)
		return parsed, true, nil
	case err != nil:
		return parsed, false, fmt.Errorf("%w; try --help", err)
	case *version:
		fmt.Fprintln(out, "quire-server", quire.LibraryVersion())
		return parsed, true, nil
	case flags.NArg() > 0:
		return parsed, false, fmt.Errorf("%q is no option; try --help", flags.Arg(0))
	}
	return parsed, false, nil
}

func (a *arguments) addModel(text string) error {
	name, path, found := strings.Cut(text, "=")
	if !found || name == "" || path == "" {
		return fmt.Errorf("it must be NAME=DIR")
	}
	if _, twice := a.models[name]; twice {
		return fmt.Errorf("there are two models %q", name)
	}
	a.models[name] = server.ModelConfig{Path: path, Preload: true}
	return nil
}

// readSpans reads from the environment where spans go.
func (a *arguments) readSpans(log *server.Logger) error {
	options, wanted, err := otlp.FromEnvironment(os.Getenv)
	if wanted {
		options.Failed = func(err error) {
			log.Warn("spans cannot be sent, and are lost", server.Fields{"error": err.Error()})
		}
		a.spans = &options
	}
	return err
}

// config is the configuration that the command line asks for, read anew.
func (a *arguments) config() (*server.Config, error) {
	var config *server.Config
	var err error
	switch {
	case a.configPath != "" && len(a.models) > 0:
		return nil, errors.New("--config and --model exclude each other")
	case a.configPath != "":
		config, err = server.ReadConfig(a.configPath)
	case len(a.models) > 0:
		config = &server.Config{Models: a.models}
		err = config.Check()
	default:
		return nil, errors.New("name a configuration by --config or a model by --model; try --help")
	}
	if err == nil && a.listen != "" {
		config.Listen = a.listen
	}
	return config, err
}
